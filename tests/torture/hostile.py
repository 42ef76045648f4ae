"""Attacks by files that somebody else made: names, devices, forged models, pictures that explode or are cut."""

import json
import os
import resource
import shutil

import forge
import pictures
from table import Row
from world import NEW, SOME, content, manners

ESCAPE = "\x1b]0;owned\x07\x1b[2J"
SECONDS = 20
# Room for the program, its threads and a picture of 256 MiB while it is decoded.
MEMORY = 2 << 30


def shows_escapes(outcome):
    found = [name for name, text in (("output", outcome.out), ("messages", outcome.err)) if "\x1b]" in text or "\x07" in text
             or "\x1b[2J" in text]
    return [f"the terminal's own language in its {' and '.join(found)}"] if found else []


def names(world, cases, options):
    row = Row("escape sequences and line breaks in names", "refused or shown harmlessly, in text and JSON; no panic")
    one = next(case for case in cases if case.name == "learn, second task")
    for what, name in (("escape", ESCAPE), ("line break", "a\nb"), ("return", "a\rerror: b"), ("direction", "\u202egpj")):
        folder = world.folder()
        data = os.path.join(folder, "data")
        pictures.data_set(data, 1, classes=2, count=4)
        pictures.class_folder(os.path.join(data, name), 5, 10, 4)
        words = ["learn", "m.lmc", "--task", "a", "--data", "data", *NEW, *SOME]
        row.tried(quiet(world, folder, words, name), f"class folder with {what}")
        folder = one.begin()
        words = [word if word != "b" else name for word in one.words]
        row.tried(quiet(world, folder, words, name), f"task with {what}")
        folder = one.begin()
        shutil.copy(os.path.join(world.data, "0", "class0", "0.png"), os.path.join(folder, f"{name}.png"))
        with open(os.path.join(folder, f"bad {name}.png"), "wb") as file:
            file.write(b"no picture")
        outcome = world.run(["predict", "m.lmc", "."], folder)
        problems = [problem for problem in manners(outcome) if "lines of error" not in problem]
        row.tried(problems + lines(outcome, name), f"picture with {what}")
        row.tried(shows_escapes(world.run(["inspect", f"{name}.lmc"], folder)), f"model that is not there with {what}")
    options.done(row)
    return [row]


def lines(outcome, name):
    """A name with control or direction characters never reaches the terminal as it is."""
    bad = [character for character in name if character < " " or character == "\u202e"]
    shown = (outcome.out + outcome.err).replace("\n", "") if "\n" not in name else outcome.out + outcome.err
    found = [f"U+{ord(character):04X} is shown" for character in set(bad) if character != "\n" and character in shown]
    if "\n" in name and name in outcome.out + outcome.err:
        found.append("a line break is shown")
    return found


def quiet(world, folder, words, name):
    """Learns, and looks at what was learned, if it was."""
    outcome = world.run(words, folder)
    problems = manners(outcome) + lines(outcome, name)
    if outcome.code == 0:
        outcome = world.run(["inspect", "m.lmc"], folder)
        problems += manners(outcome) + lines(outcome, name)
    return problems


def devices(world, cases, options):
    row = Row("pipes, devices and endless files as model, picture, list, experiment",
              f"an error in one line within {SECONDS} s and {MEMORY >> 20} MiB; the device is left alone")
    one = next(case for case in cases if case.name == "learn, second task")
    pipe = os.path.join(world.root, "pipe.csv")
    os.mkfifo(pipe)
    for place in (pipe, "/dev/zero", "/dev/full", os.path.join(world.root, "data")):
        for words in (["inspect", place], ["predict", place, "x.png"], ["predict", "m.lmc", place],
                      ["learn", place, "--task", "c", "--data", os.path.join(world.data, "0"), *SOME],
                      ["learn", "m.lmc", "--task", "c", "--data", place, *SOME], ["run", place], ["sweep", place],
                      ["merge", place, "m.lmc", "--out", "n.lmc"], ["merge", "m.lmc", "m.lmc", "--out", place]):
            if os.path.isdir(place) and words[0] in ("predict", "learn") and words.index(place) != 1:
                continue  # A folder of pictures is what these take.
            folder = one.begin()
            before = os.stat(place).st_mode
            outcome = bounded(world, words, folder)
            problems = manners(outcome) + ([] if outcome.code != 0 else ["exit code 0"])
            if os.stat(place).st_mode != before:
                problems.append("it was replaced")
            row.tried(problems, " ".join(word.replace(world.root, "") for word in words))
    options.done(row)
    return [row]


def bounded(world, words, folder):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    return world.run(words, folder, limit=SECONDS, preexec_fn=limit)


def forged(world, cases, options):
    row = Row("forged model files with a fitting checksum", "refused, or an answer with finite numbers in 0 to 1; no panic")
    one = next(case for case in cases if case.name == "learn, second task")
    original = content(os.path.join(one.start, "m.lmc"))
    if forge.blake3 is None:
        row.skipped = "needs `pip install blake3`"
        return [row]
    if not forge.is_understood(original):
        row.skipped = "the checksum of this version is computed in another way"
        return [row]

    def setting(path, value):
        def change(forgery):
            below = forgery.document
            for key in path[:-1]:
                below = below[key]
            if isinstance(below, dict) and path[-1] not in below:
                return False
            below[path[-1]] = value
            return True
        return change

    changes = {f"learner.batch = {value}": setting(["learner", "batch"], value) for value in (0, 2**40, 2**63, 2**64 - 1)}
    changes["learner.cache_mib = 2^64-1"] = setting(["learner", "cache_mib"], 2**64 - 1)
    changes["learner.epochs = 2^64-1"] = setting(["learner", "epochs"], 2**64 - 1)
    changes["network.config.width = 4096"] = setting(["network", "config", "width"], 4096)
    changes["network.config.depth = 2^40"] = setting(["network", "config", "depth"], 2**40)
    changes["statistics window = 2^64-1"] = setting(["learner", "statistics", "window"], 2**64 - 1)
    changes["composition temperature = 1e-300"] = setting(["learner", "composition", "temperature"], 1e-300)
    for part in ("weight", "bias", "functional", "structural", "classifier", "running", ""):
        for value in (3e38, -3e38, 1e-45):
            changes[f"tensors '{part}' = {value:g}"] = lambda forgery, part=part, value=value: forgery.fill(part, value)
    for what, change in changes.items():
        forgery = forge.Forgery(original)
        if not change(forgery):
            continue
        folder = one.begin()
        with open(os.path.join(folder, "m.lmc"), "wb") as file:
            file.write(forgery.bytes())
        picture = os.path.join(world.data, "0", "class0", "0.png")
        problems = []
        for words in (["inspect", "m.lmc"], ["predict", "m.lmc", picture, "--json"], one.words):
            outcome = bounded(world, words, folder)
            problems += [f"{words[0]}: {problem}" for problem in manners(outcome)]
            if words[0] == "predict" and outcome.code == 0:
                problems += answers(outcome)
        row.tried(problems, what)
    resumed = next(case for case in cases if case.name == "learn, resumed")
    if not resumed.broken:
        row.tried(forged_checkpoint(world, resumed), "checkpoint whose open task is frozen")
    options.done(row)
    return [row]


def forged_checkpoint(world, resumed):
    folder = resumed.begin()
    partial = os.path.join(folder, "m.lmc.partial")
    forgery = forge.Forgery(content(partial))
    network = forgery.document["state"]["network"]
    for part in [*network["heads"], *(module for layer in network["layers"] for module in layer)]:
        part["frozen"] = True
    with open(partial, "wb") as file:
        file.write(forgery.bytes())
    return manners(bounded(world, resumed.words, folder)) + resumed.after_failure(folder)


def answers(outcome):
    problems = []
    for found in json.loads(outcome.out):
        probability = found.get("probability")
        if probability is None or not 0 <= probability <= 1:
            problems.append(f"predict: probability {probability}")
    return problems


def bombs(world, cases, options):
    row = Row("pictures that explode, lie about their size, or are cut", f"an error that names the picture, within {SECONDS} s "
              f"and {MEMORY >> 20} MiB")
    one = next(case for case in cases if case.name == "learn, second task")
    blank = bytes(3)
    bad = {
        "PNG that claims 60000 x 60000": pictures.png(1, 1, blank, (60000, 60000)),
        "PNG that claims 16000 x 16000": pictures.png(1, 1, blank, (16000, 16000)),
        "PNG that claims 0 x 0": pictures.png(1, 1, blank, (0, 0)),
        "PNG of 9000 x 9000 black pixels": pictures.png(9000, 9000, bytes(9000 * 9000 * 3)),
        "PNG of 16384 x 16384 black pixels": pictures.png(16384, 16384, bytes(16384 * 3) * 16384),
        "JPEG cut in the middle, with FF D9 appended": pictures.cut_jpeg(0.5) + b"\xff\xd9",
        "JPEG cut near its end, with FF D9 appended": pictures.cut_jpeg(0.9) + b"\xff\xd9",
        "JPEG cut in the middle": pictures.cut_jpeg(0.5),
        "whole JPEG": pictures.JPEG,
        "empty file": b"",
    }
    # 232 MiB are within what is promised to work; the whole JPEG shows that the cut ones fail because they are cut.
    sound = {"PNG of 9000 x 9000 black pixels", "whole JPEG"}
    for what, data in bad.items():
        folder = one.begin()
        with open(os.path.join(folder, "x.png"), "wb") as file:
            file.write(data)
        outcome = bounded(world, ["predict", "m.lmc", "x.png", "--json"], folder)
        problems = manners(outcome)
        if (outcome.code == 0) != (what in sound):
            problems.append("it was classified" if outcome.code == 0 else f"it was refused ({outcome.said()})")
        row.tried(problems, what)
    options.done(row)
    return [row]
