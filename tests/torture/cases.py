"""The commands that are killed and starved: how each begins, and how it ends when nothing disturbs it."""

import os
import shutil

from calls import inject
from world import EXPERIMENT, NEW, RESULTS, SOME, STREAM, content, leftovers, same_model

RENAMES = ("rename", "renameat", "renameat2")


class Case:
    """A command with a beginning (files in `start`) and an end (files in `end`)."""

    def __init__(self, world, name, words, model, results, start):
        self.world, self.name, self.words, self.model, self.results = world, name, words, model, results
        self.start = start
        self.end = os.path.join(world.kept, f"{name} end")
        shutil.copytree(start, self.end)
        done = world.run(words, self.end)
        self.seconds = done.seconds
        self.broken = None if done.code == 0 else f"undisturbed, it fails: {done.said()}"

    def begin(self):
        """A new folder as the command finds it."""
        folder = self.world.folder()
        shutil.copytree(self.start, folder, dirs_exist_ok=True)
        return folder

    def after_failure(self, folder):
        """The model is the old one to the last bit, or whole."""
        path = os.path.join(folder, self.model)
        now = content(path)
        if now == content(os.path.join(self.start, self.model)):
            return []
        if now is None:
            return ["the model is gone"]
        return [] if self.world.is_whole(path) else ["the model is neither the old one nor whole"]

    def is_done(self, folder):
        """Whether the results are those of the undisturbed command."""
        both = [(os.path.join(folder, name), os.path.join(self.end, name)) for name in self.results]
        return all(same_model(ours, theirs) for ours, theirs in both)

    def repeat(self, folder):
        """The same command again succeeds and ends as if nothing had happened."""
        again = self.world.run(self.words, folder)
        problems = []
        if again.code != 0:
            problems.append(f"repeated: exit code {again.code} ({again.said()})")
        elif not self.is_done(folder):
            problems.append("repeated: another result than undisturbed")
        if again.code == 0 and leftovers(folder):
            problems.append(f"left over: {', '.join(leftovers(folder))}")
        return problems


def make_all(world):
    """All cases by name."""
    start = {name: os.path.join(world.kept, f"{name} start") for name in ("nothing", "one", "half", "two", "run")}
    os.makedirs(start["nothing"])
    cases = [Case(world, "learn, new model", world.learn("a", 0, NEW), "m.lmc", ["m.lmc"], start["nothing"])]
    os.makedirs(start["one"])
    shutil.copy(os.path.join(cases[0].end, "m.lmc"), start["one"])
    second = world.learn("b", 1)
    cases.append(Case(world, "learn, second task", second, "m.lmc", ["m.lmc"], start["one"]))
    third = world.learn("a", 2, ["--more"])
    start["both"] = os.path.join(world.kept, "both start")
    shutil.copytree(cases[1].end, start["both"])
    cases.append(Case(world, "learn --more", third, "m.lmc", ["m.lmc"], start["both"]))
    forget = ["forget", "m.lmc", "--task", "a", "--out", "o.lmc"]
    cases.append(Case(world, "forget", forget, "m.lmc", ["m.lmc", "o.lmc"], start["both"]))
    # Killed when it would put its second checkpoint in the place of the first.
    for name in RENAMES:
        shutil.rmtree(start["half"], ignore_errors=True)
        shutil.copytree(start["one"], start["half"])
        world.run(second, start["half"], inject(name, 2, "signal=SIGKILL"))
        if os.path.exists(os.path.join(start["half"], "m.lmc.partial")):
            break
    resumed = Case(world, "learn, resumed", second, "m.lmc", ["m.lmc"], start["half"])
    if not os.path.exists(os.path.join(start["half"], "m.lmc.partial")):
        resumed.broken = "a killed learner left no m.lmc.partial to resume from"
    cases.append(resumed)
    os.makedirs(start["two"])
    shutil.copy(os.path.join(cases[0].end, "m.lmc"), os.path.join(start["two"], "a.lmc"))
    other = world.folder()
    world.run(["learn", "b.lmc", "--task", "b", "--data", os.path.join(world.data, "1"), *NEW, *SOME], other)
    shutil.copy(os.path.join(other, "b.lmc"), start["two"])
    cases.append(Case(world, "merge", ["merge", "a.lmc", "b.lmc", "--out", "m.lmc"], "m.lmc", ["m.lmc"], start["two"]))
    os.makedirs(start["run"])
    for name, text in (("two.toml", STREAM), ("experiment.toml", EXPERIMENT)):
        with open(os.path.join(start["run"], name), "w", encoding="utf-8") as file:
            file.write(text)
    words = ["run", "experiment.toml", "--out", "out", "--threads", "1"]
    results = [os.path.join("out", name) for name in RESULTS]
    cases.append(Case(world, "run", words, os.path.join("out", "model.safetensors"), results, start["run"]))
    return cases
