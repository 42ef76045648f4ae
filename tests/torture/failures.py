"""Attacks by a machine that fails: errors of system calls, and a disk that fills up."""

import os
import shutil
import subprocess

from calls import changing, inject
from table import Row
from world import manners, remove

ERRORS = ["ENOSPC", "EIO", "EDQUOT", "EROFS", "EACCES", "EINTR"]
CHECKED = ("exit code not 0, or the right result; one line of error, no panic; model old or whole; repeated on a sound "
           "machine: the undisturbed bits")


def judge(case, folder, outcome):
    problems = manners(outcome)
    if outcome.code == 0 and not case.is_done(folder):
        problems.append("exit code 0 with another result than undisturbed")
    return problems + case.after_failure(folder)


def errors_of_calls(world, cases, options):
    rows = []
    for case in [case for case in cases if case.name in ("learn, second task", "merge", "run")]:
        row = Row(f"{', '.join(ERRORS)} at every system call: {case.name}", CHECKED)
        rows.append(row)
        if case.broken:
            row.skipped = case.broken
            continue
        calls = [(call, number, error) for call, number in changing(case, world) for error in ERRORS]
        calls = calls[:: options.every]

        def attack(at, case=case):
            call, number, error = at
            folder = case.begin()
            outcome = world.run(case.words, folder, inject(call, number, f"error={error}"))
            problems = judge(case, folder, outcome)
            if outcome.code != 0:
                problems += case.repeat(folder)
            remove(folder)
            return problems

        for at, problems in zip(calls, options.pool.map(attack, calls)):
            row.tried(problems, "{2} at {0} {1}".format(*at))
        options.done(row)
    return rows


def full_disk(world, cases, options):
    row = Row("disk with ever less space: learn, run", CHECKED)
    row.starved = 0
    disk = os.path.join(world.root, "disk")
    os.makedirs(disk)
    size = 8 << 20
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], capture_output=True).returncode:
        row.skipped = "a file system in memory cannot be mounted here"
        return [row]
    try:
        for case in [case for case in cases if case.name in ("learn, second task", "run") and not case.broken]:
            # From nothing to enough: a model, its old and its new checkpoint, and what else a run writes.
            for free in range(0, 1536 << 10, (24 << 10) * options.every):
                starve(world, case, disk, free, row)
    finally:
        subprocess.run(["umount", disk], check=False)
    row.checked += f" ({row.starved} of the tries ran out of space)"
    options.done(row)
    return [row]


def starve(world, case, disk, free, row):
    for name in os.listdir(disk):
        path = os.path.join(disk, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    folder = os.path.join(disk, "work")
    shutil.copytree(case.start, folder)
    left = os.statvfs(disk)
    with open(os.path.join(disk, "filler"), "wb") as file:
        file.write(bytes(max(0, left.f_bavail * left.f_bsize - free)))
    outcome = world.run(case.words, folder)
    row.starved += outcome.code != 0
    problems = judge(case, folder, outcome)
    os.remove(os.path.join(disk, "filler"))
    if outcome.code != 0:
        problems += case.repeat(folder)
    row.tried(problems, f"{case.name} with {free >> 10} KiB")
