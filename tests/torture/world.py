"""The world that is attacked: a program, a folder with tiny data, and models that nothing disturbed."""

import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import time

import pictures

LIMIT = 60  # seconds that any command may take

STREAM = """name = "two"
[[task]]
name = "digits"
data = "generated-digits"
classes = 2
train = 8
val = 4
test = 4
[[task]]
name = "textures"
data = "generated-textures"
classes = 2
train = 8
val = 4
test = 4
"""
EXPERIMENT = """stream = "two.toml"
preset = "s_minus"
[network]
width = 2
depth = 2
[learner]
epochs = 2
batch = 16
[learner.projection]
epochs = 1
epochs_after = 1
"""
NEW = ["--width", "8", "--depth", "2", "--image-size", "16"]
SOME = ["--epochs", "4", "--threads", "1"]
RESULTS = ["metrics.json", "model.safetensors", "accuracy_matrix.csv", "module_weights.json"]


class Outcome:
    """What a command left behind; code -9 if it was killed, None if it took too long."""

    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def said(self):
        lines = [line for line in self.err.strip().splitlines() if line.strip()]
        return lines[-1][:200] if lines else ""


class World:
    """The program under attack and the folder in which it happens."""

    def __init__(self, lmc, root):
        self.lmc, self.root = os.path.abspath(lmc), root
        self.environment = {"HOME": root, "PATH": os.environ.get("PATH", ""), "RUST_BACKTRACE": "1"}
        self.has_verify = self.run(["verify", "--help"], root).code == 0
        self.data = os.path.join(root, "data")
        for seed in range(3):
            pictures.data_set(os.path.join(self.data, str(seed)), seed)
        self.kept = os.path.join(root, "kept")
        os.makedirs(self.kept)
        self._number = 0

    def run(self, words, folder, before=(), limit=LIMIT, **options):
        """Runs lmc in a folder; `before` is a program that runs it, such as strace."""
        began = time.monotonic()
        command = [*before, self.lmc, *words]
        process = subprocess.Popen(command, cwd=folder, env=self.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **options)
        try:
            out, err = process.communicate(timeout=limit)
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            out, err = process.communicate()
            code = None
        text = [part.decode("utf-8", "replace") for part in (out, err)]
        return Outcome(code, *text, time.monotonic() - began)

    def start(self, words, folder, **options):
        """Starts lmc and does not wait."""
        return subprocess.Popen([self.lmc, *words], cwd=folder, env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, **options)

    def folder(self):
        """A new empty folder."""
        self._number += 1
        path = os.path.join(self.root, f"try{self._number}")
        os.makedirs(path)
        return path

    def learn(self, task, data, more=()):
        """The words that teach m.lmc a task from the data set of this number."""
        return ["learn", "m.lmc", "--task", task, "--data", os.path.join(self.data, str(data)), *more, *SOME]

    def is_whole(self, model):
        """Whether a model file can be read and used."""
        verb = "verify" if self.has_verify else "inspect"
        return self.run([verb, model], self.root).code == 0

    def tasks(self, model):
        """Names of the tasks of a model file; None if it cannot be read."""
        found = self.run(["inspect", model, "--json"], self.root)
        if found.code != 0:
            return None
        return [head["task"] for head in json.loads(found.out)["heads"]]


def content(path):
    """The bytes of a file; None if there is none."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def same_model(a, b):
    """Whether two model files are the same model, bit for bit. The only place that knows what that means."""
    ours, theirs = content(a), content(b)
    if ours is None or theirs is None:
        return False
    return hashlib.sha256(ours).digest() == hashlib.sha256(theirs).digest()


def leftovers(folder):
    """Files that should be gone once a command has succeeded."""
    names = glob.glob(os.path.join(folder, "**", ".lmc-*"), recursive=True, include_hidden=True)
    names += glob.glob(os.path.join(folder, "**", "*.partial"), recursive=True)
    names += glob.glob(os.path.join(folder, "**", "checkpoint.safetensors"), recursive=True)
    return sorted({os.path.relpath(name, folder) for name in names})


def manners(outcome):
    """What every command owes its user, however it is treated: an end, one line of error, no panic."""
    problems = []
    if outcome.code is None:
        problems.append("it did not end in time")
    elif outcome.code == 70 or outcome.code == 101 or outcome.code < 0:
        problems.append(f"exit code {outcome.code} ({outcome.said()})")
    if re.search(r"panicked at|stack backtrace|a bug in lmc", outcome.err):
        problems.append(f"it panicked ({outcome.said()})")
    errors = [line for line in outcome.err.splitlines() if line.startswith("error:")]
    if outcome.code not in (0, None) and len(errors) != 1:
        problems.append(f"exit code {outcome.code} with {len(errors)} lines of error instead of one")
    return problems


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)
