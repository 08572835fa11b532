#!/usr/bin/env python3
"""Measures the time from launch to the first step of `sluice train`, beside a program that only links
libtorch.

    python3 bench/compare_start.py [--sluice build/bin/sluice] [--empty build/bin/empty_program] [--sizes S,M]

They take turns. The empty program is timed until its main() begins. A run is timed until the line of its first step
arrives, minus the duration of the step in that line. Weights are random first (`model.config`), then those of a Hugging
Face directory written by such a run. Needs no Python packages.
"""

import argparse
import statistics
import subprocess
import tempfile
import time

from step_breakdown import make_inputs
from torch_comparison.sluice_run import write_config
from torch_comparison.workload import SIZES


def first_line(command, start=""):
    """Returns the seconds until a line with this beginning, and the line."""
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        seconds, found = None, ""
        for line in process.stdout:
            if seconds is None and line.startswith(start):
                seconds, found = time.perf_counter() - started, line
    if seconds is None:
        raise SystemExit(f"compare_start: {' '.join(command)} ended without its line")
    return seconds, found


def until_first_step(sluice, command):
    seconds, line = first_line([sluice, "train", *command], "step: 1/")
    return seconds - int(line.split("ms:")[1].split()[0]) / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sluice", default="build/bin/sluice")
    parser.add_argument("--empty", default="build/bin/empty_program")
    parser.add_argument("--sizes", default="S,M")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    print(f"{'':<4}{'weights':<12}{'empty, s':>10}{'median':>8}{'sluice, s':>11}{'median':>8}{'above it, s':>13}")
    for name in arguments.sizes.split(","):
        with tempfile.TemporaryDirectory() as folder:
            size = SIZES[name]
            make_inputs(folder, size, 4)
            command = write_config(folder, "run", size, "1F1B", 2, 2, 1)
            drawn = [*command, "--model.path=", f"--model.config={folder}/model/config.json"]
            subprocess.run([arguments.sluice, "train", *drawn], stdout=subprocess.DEVNULL, check=True)
            read = [*command, f"--model.path={folder}/run/checkpoint/step-00000001",
                    f"--checkpoint.folder={folder}/again"]
            for weights, words in (("drawn", drawn), ("directory", read)):
                empty, ours = [], []
                for _ in range(arguments.rounds):
                    empty.append(first_line([arguments.empty])[0])
                    ours.append(until_first_step(arguments.sluice, words))
                print(f"{name:<4}{weights:<12}{min(empty):>10.3f}{statistics.median(empty):>8.3f}{min(ours):>11.3f}"
                      f"{statistics.median(ours):>8.3f}{min(ours) - min(empty):>13.3f}", flush=True)


if __name__ == "__main__":
    main()
