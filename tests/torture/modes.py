"""Attacks on privacy: permissions and owners of model files and of what lies beside them."""

import os
import shutil
import stat

from calls import inject
from cases import RENAMES
from table import Row
from world import NEW, SOME, content, manners

NOBODY = 65534


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def modes(world, cases, options):
    row = Row("permissions and owner of the model", "0600 and 0640 stay, of the model and of .partial; 0444 is refused; "
              "the owner stays")
    by_name = {case.name: case for case in cases}
    second = by_name["learn, second task"]
    if second.broken:
        row.skipped = second.broken
        return [row]
    for wanted in (0o600, 0o640, 0o664):
        folder = second.begin()
        model = os.path.join(folder, "m.lmc")
        os.chmod(model, wanted)
        outcome = world.run(second.words, folder)
        right = outcome.code == 0 and mode(model) == wanted
        row.tried([] if right else [f"now {mode(model):o}, exit code {outcome.code}"], f"model with {wanted:o} learns")
        row.tried(partial_modes(world, second, wanted), f"checkpoint of a model with {wanted:o}")
    row.tried(read_only(world, second), "model with 0444")
    row.tried(read_only_merge(world, by_name["merge"]), "merge onto a model with 0444")
    if os.geteuid() == 0:
        row.tried(owner(world, second), "model of another owner")
    row.tried(umask(world), "new model with umask 077")
    options.done(row)
    return [row]


def partial_modes(world, case, wanted):
    """Killed at its second rename, a learner leaves its first checkpoint."""
    for name in RENAMES:
        folder = case.begin()
        os.chmod(os.path.join(folder, "m.lmc"), wanted)
        world.run(case.words, folder, inject(name, 2, "signal=SIGKILL"))
        partial = os.path.join(folder, "m.lmc.partial")
        if os.path.exists(partial):
            found = [name for name in os.listdir(folder) if name.startswith((".lmc-", "m.lmc."))]
            wider = [name for name in found if mode(os.path.join(folder, name)) & ~wanted]
            return [f"{name} has {mode(os.path.join(folder, name)):o}" for name in wider]
    return ["there was no checkpoint"]


def read_only(world, case):
    folder = case.begin()
    model = os.path.join(folder, "m.lmc")
    os.chmod(model, 0o444)
    before = content(model)
    outcome = world.run(case.words, folder)
    problems = manners(outcome)
    if outcome.code == 0 or content(model) != before:
        problems.append("it was changed")
    return problems


def read_only_merge(world, case):
    folder = case.begin()
    model = os.path.join(folder, "m.lmc")
    shutil.copy(os.path.join(folder, "a.lmc"), model)
    os.chmod(model, 0o444)
    before = content(model)
    outcome = world.run(case.words, folder)
    return [] if outcome.code != 0 and content(model) == before else ["it was changed"]


def owner(world, case):
    folder = case.begin()
    model = os.path.join(folder, "m.lmc")
    os.chown(model, NOBODY, NOBODY)
    outcome = world.run(case.words, folder)
    found = os.stat(model)
    if outcome.code != 0 and content(model) == content(os.path.join(case.start, "m.lmc")):
        return []  # Refused is as good.
    return [] if (found.st_uid, found.st_gid) == (NOBODY, NOBODY) else [f"now of {found.st_uid}:{found.st_gid}"]


def umask(world):
    folder = world.folder()
    world.run(["learn", "m.lmc", "--task", "a", "--data", os.path.join(world.data, "0"), *NEW, *SOME], folder,
              preexec_fn=lambda: os.umask(0o077))
    found = mode(os.path.join(folder, "m.lmc"))
    return [] if found == 0o600 else [f"it has {found:o}"]
