"""Attacks by SIGKILL: at every system call that changes a file, and at random moments."""

import os
import random
import signal
import time

from calls import changing, inject
from table import Row
from world import remove

CHECKED = "model old or whole; the same command again ends with 0 and the undisturbed bits; no temporary files"


def at_every_call(world, cases, options):
    rows = []
    for case in cases:
        row = Row(f"kill at every system call: {case.name}", CHECKED)
        rows.append(row)
        if case.broken:
            row.skipped = case.broken
            continue
        calls = changing(case, world)[:: options.every]

        def attack(at, case=case):
            folder = case.begin()
            killed = world.run(case.words, folder, inject(*at, "signal=SIGKILL"))
            if killed.code == 0:
                remove(folder)
                return None  # The call did not come this time.
            problems = [] if killed.code == -9 else [f"killed, exit code {killed.code} ({killed.said()})"]
            problems += case.after_failure(folder) + case.repeat(folder)
            remove(folder)
            return problems

        for (call, number), problems in zip(calls, options.pool.map(attack, calls)):
            if problems is not None:
                row.tried(problems, f"{call} {number}")
        options.done(row)
    return rows


def at_random_moments(world, cases, options):
    wanted = [case for case in cases if case.name in ("learn, second task", "run")]
    rows = []
    for case in wanted:
        row = Row(f"kill at random moments, then resume: {case.name}", CHECKED)
        rows.append(row)
        if case.broken:
            row.skipped = case.broken
            continue
        draw = random.Random(options.seed)
        wanted_kills = options.kills // len(wanted)

        def attack(moment, case=case):
            folder = case.begin()
            process = world.start(case.words, folder)
            time.sleep(moment)
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.communicate()
            if process.returncode != -signal.SIGKILL:
                remove(folder)
                return None  # It was done before.
            problems = case.after_failure(folder) + case.repeat(folder)
            remove(folder)
            return problems

        # Only kills count; what was done before its moment is tried again at another, but not forever.
        for _ in range(10):
            missing = wanted_kills - row.tries
            moments = [draw.uniform(0.05, 1.0) * case.seconds for _ in range(missing)]
            for moment, problems in zip(moments, options.pool.map(attack, moments)):
                if problems is not None:
                    row.tried(problems, f"after {1000 * moment:.0f} ms")
        options.done(row)
    return rows
