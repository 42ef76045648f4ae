"""Attacks by others at the same time: learners, merges and plain copies on one model file."""

import os
import random
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pictures
from table import Row
from world import NEW, manners

LOCKED = 75
PATIENCE = 600  # seconds until all have had their turn


def learners(world, options):
    count = options.concurrent
    row = Row(f"{count} learners of different tasks on one model file",
              "each ends with 0, or with 75 and the process that holds the model, and is repeated; all tasks are there")
    folder = world.folder()
    began = time.monotonic()
    for number in range(count):
        pictures.data_set(os.path.join(folder, f"data{number}"), number, classes=2, count=3)
    refusals = []

    def learn(number):
        words = ["learn", "m.lmc", "--task", f"t{number}", "--data", f"data{number}", "--epochs", "1", "--threads", "1"]
        draw = random.Random(number)
        while time.monotonic() - began < PATIENCE:
            # Whoever is first makes the model; for the others its shape must be given only while there is none.
            new = [] if os.path.exists(os.path.join(folder, "m.lmc")) else ["--width", "2", *NEW[2:]]
            outcome = world.run(words + new, folder, limit=PATIENCE)
            if outcome.code != LOCKED:
                return manners(outcome) or ([] if outcome.code == 0 else [f"exit code {outcome.code} ({outcome.said()})"])
            refusals.append(outcome.said())
            time.sleep(draw.uniform(0.05, 0.8))
        return ["it never had its turn"]

    with ThreadPoolExecutor(count) as pool:
        for number, problems in enumerate(pool.map(learn, range(count))):
            row.tried(problems, f"learner {number}")
    found = world.tasks(os.path.join(folder, "m.lmc")) or []
    missing = count - len(set(found))
    row.tried([f"{missing} of {count} tasks are lost"] if missing else [], "at the end")
    if refusals:
        nameless = [said for said in refusals if not re.search(r"process \d+|pid \d+", said)]
        row.tried([f"the holder is not named: {nameless[0]}"] if nameless else [], "refusals")
    options.done(row)
    return [row]


def replaced_under_a_learner(world, cases, options):
    rows = []
    by_name = {case.name: case for case in cases}
    second, merge = by_name["learn, second task"], by_name["merge"]
    for how in ("merge --out", "cp", "mv"):
        row = Row(f"{how} onto the model while it learns",
                  "nothing is lost silently: refused, or the learned model lies beside it under the name that is said")
        rows.append(row)
        if second.broken or merge.broken:
            row.skipped = second.broken or merge.broken
            continue
        for number in range(options.races):
            replace_once(world, second, merge, how, number, row)
        options.done(row)
    return rows


def replace_once(world, second, merge, how, number, row):
    folder = second.begin()
    for name in ("a.lmc", "b.lmc"):
        shutil.copy(os.path.join(merge.start, name), folder)
    words = [word if word != "4" else "600" for word in second.words]
    process = world.start(words, folder)
    partial = os.path.join(folder, "m.lmc.partial")
    until = time.monotonic() + 20
    while not os.path.exists(partial) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.002)
    time.sleep(0.01 * number)
    model = os.path.join(folder, "m.lmc")
    other = 0
    if how == "cp":
        shutil.copyfile(os.path.join(merge.end, "m.lmc"), model)
    elif how == "mv":
        shutil.copyfile(os.path.join(merge.end, "m.lmc"), model + ".new")
        os.rename(model + ".new", model)
    else:
        other = world.run(["merge", "a.lmc", "b.lmc", "--out", "m.lmc"], folder).code
    during = process.poll() is None
    said = process.communicate(timeout=120)[1].decode("utf-8", "replace")
    if not during:
        return  # The learner was done before: nothing to judge.
    row.tried(judge(world, folder, process.returncode, said, other), f"try {number}")


def judge(world, folder, code, said, other):
    """`other` is the exit code of whoever replaced the model; its result has the tasks a and b, the learner's too, but
    learned in one model: two heads on modules of one origin. They are told apart by their bytes."""
    model = os.path.join(folder, "m.lmc")
    problems = []
    if not world.is_whole(model):
        problems.append("the model is not whole")
    if other != 0:
        return problems + ([] if code == 0 else [f"the other was refused, and the learner ended with {code}"])
    with open(os.path.join(world.kept, "merge end", "m.lmc"), "rb") as file:
        theirs = file.read()
    with open(model, "rb") as file:
        if file.read() != theirs:
            return problems + ["what the other wrote is lost"]
    if code == 0:
        return problems + ["what was learned is lost, and the learner ended with 0"]
    beside = [name for name in os.listdir(folder) if name in said and name.startswith("m.lmc") and name != "m.lmc"]
    beside += [name for name in os.listdir(folder) if name in said and name.endswith(".lmc") and name not in
               ("m.lmc", "a.lmc", "b.lmc")]
    kept = [name for name in beside if "b" in (world.tasks(os.path.join(folder, name)) or [])]
    return problems + ([] if kept else [f"what was learned lies nowhere ({said.strip().splitlines()[-1:]})"])
