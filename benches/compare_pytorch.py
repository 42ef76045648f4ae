"""`lmc bench` and PyTorch by turns on this machine, and how many times as fast we are.

    cargo build --release
    pip install torch
    python benches/compare_pytorch.py [--rounds 5] [--threads 2] [--lmc target/release/lmc]

Machines are noisy: both sides run the same workload within seconds of each other, in several rounds, and the table
shows the median of each side's medians and of the ratios.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
WORKLOADS = ["w1", "w2", "w3", "w3s", "single"]
GOALS = {("w1", "train"): 1.6, ("w2", "train"): 1.6, ("w3", "train"): 2.0, ("w3s", "train"): 2.0, ("w2", "forward"): 1.6}


def measure(command):
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    return {(row["workload"], row["mode"]): row["ms"] for row in json.loads(output)["results"]}


def main():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0, help="measured time per workload, mode and round")
    parser.add_argument("--lmc", default=str(target / "release" / "lmc"), help="the program to compare")
    arguments = parser.parse_args()
    if not pathlib.Path(arguments.lmc).exists():
        sys.exit(f"{arguments.lmc} is not there: run `cargo build --release` first, or say where it is with --lmc")
    common = ["--threads", str(arguments.threads), "--seconds", str(arguments.seconds), "--json"]
    ours, theirs = {}, {}
    for _ in range(arguments.rounds):
        for name in WORKLOADS:
            for key, ms in measure([arguments.lmc, "bench", "--only", name, *common]).items():
                ours.setdefault(key, []).append(ms)
            for key, ms in measure([sys.executable, str(HERE / "pytorch.py"), "--only", name, *common]).items():
                theirs.setdefault(key, []).append(ms)
    print(f"{arguments.rounds} rounds, {arguments.threads} threads")
    print("workload mode       lmc ms  PyTorch ms  times as fast  goal")
    for key, times in ours.items():
        ratio = statistics.median(b / a for a, b in zip(times, theirs[key]))
        goal = f"{GOALS[key]:.1f}" if key in GOALS else ""
        ms, other = statistics.median(times), statistics.median(theirs[key])
        print(f"{key[0]:8} {key[1]:8} {ms:9.2f} {other:11.2f} {ratio:14.2f}  {goal}")


if __name__ == "__main__":
    main()
