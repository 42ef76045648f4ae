"""The system calls by which a command changes files, learned from one undisturbed trace."""

import collections
import re

# What can leave a file half written, a name half changed, or a lock behind.
CHANGING = """write writev pwrite64 pwritev fsync fdatasync sync_file_range rename renameat renameat2 unlink unlinkat link
linkat symlink symlinkat ftruncate truncate fallocate flock chmod fchmod fchmodat fchown fchownat chown mkdir mkdirat
rmdir copy_file_range sendfile""".split()
LINE = re.compile(r"^(\d+) +(\w+)\((.*)")


def changing(case, world):
    """(call, number) of every call that matters. strace numbers the calls of each thread for itself; so does this."""
    folder = case.begin()
    log = folder + ".trace"
    world.run(case.words, folder, ["strace", "-f", "-qq", "-o", log])
    counts = collections.Counter()
    found = []
    with open(log, encoding="utf-8", errors="replace") as file:
        for line in file:
            match = LINE.match(line)
            if not match:
                continue
            thread, call, rest = match.groups()
            counts[thread, call] += 1
            if matters(call, rest):
                found.append((call, counts[thread, call]))
    return sorted(set(found))


def matters(call, rest):
    if call in CHANGING:
        return True
    if call == "fcntl":
        return "LK" in rest
    # Our own files have relative names; what lies elsewhere is the system's. Pictures are only read.
    if call in ("open", "openat"):
        name = re.search(r'"([^"]*)"', rest)
        return bool(name) and not name.group(1).startswith("/") and not name.group(1).endswith(".png")
    return False


def inject(call, number, what):
    """The words that run a command with something happening at a call."""
    return ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:{what}:when={number}"]
