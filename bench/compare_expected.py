#!/usr/bin/env python3
"""Compares steps with their prediction: expected time, median of the steps, and the ratio.

For every configuration, `sluice plan --measure` measures the layers, and `sluice train` runs with these times. With
"auto" the run measures by itself. Ranks are threads of one process, or processes (`sluice launch`), with one thread per
rank. `others` is the number of cores that other programs kept busy meanwhile. If it is not 0, the results include that
load.

    python3 bench/compare_expected.py [--sluice build/bin/sluice] [--size S] [--steps 50] [--only TEXT]

Needs no Python packages.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile

from step_breakdown import make_inputs
from torch_comparison.sluice_run import AUTO, write_config
from torch_comparison.workload import SIZES

MICROBATCHES = 8
MIXED = "training.mixed_precision=bfloat16"
STEP_TIME = re.compile(r"step time: (\S+) (\S+) predicted, (\S+) (\S+) measured .* measured / predicted ([\d.]+)")
# (ranks, schedule, ways)
RUNS = [(1, "GPipe", ["threads"]), (2, "GPipe", ["threads", "processes"]),
        (2, "1F1B", ["threads", "processes"]), (2, "Interleaved1F1B", ["threads", "processes"]),
        (2, "ZBVZeroBubble", ["threads", "processes"]), (2, AUTO, ["threads", "processes"])]


def machine_seconds():
    """Returns processor seconds of all programs, of this script's finished children, and of all cores."""
    with open("/proc/stat", encoding="utf-8") as file:
        ticks = [int(number) for number in file.readline().split()[1:9]]
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    per_second = os.sysconf("SC_CLK_TCK")
    return (sum(ticks) - ticks[3] - ticks[4]) / per_second, own.ru_utime + own.ru_stime, sum(ticks) / per_second


def with_load(cores, command):
    """Returns the output of the command, and how many cores other programs kept busy meanwhile."""
    before = machine_seconds()
    said = run(command)
    busy, own, total = (after - begin for after, begin in zip(machine_seconds(), before))
    return said, max(0, cores * (busy - own) / max(total, 1e-9))


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sluice", default="build/bin/sluice", help="the program, built Release")
    parser.add_argument("--size", default="S", choices=SIZES)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--only", default="", help="configurations whose line has this text")
    arguments = parser.parse_args()
    cores = int(run(["nproc"]))
    print(f"{'ranks':<7}{'schedule':<17}{'way':<11}{'numbers':<10}"
          f"{'expected':>10}{'median':>10}{'ratio':>7}{'others':>8}")
    with tempfile.TemporaryDirectory() as folder:
        make_inputs(folder, SIZES[arguments.size], arguments.steps * MICROBATCHES)
        for ranks, schedule, ways in RUNS:
            for way, more in [(way, more) for way in ways for more in ([], [MIXED])]:
                line = f"{ranks:<7}{schedule:<17}{way:<11}{'bf16' if more else 'float32':<10}"
                if arguments.only not in line:
                    continue
                keys = ["model.path=", f"model.config={folder}/model/config.json", *more]
                if way == "processes":
                    keys.append("parallelism.transport=gloo")
                command = write_config(folder, "run", SIZES[arguments.size], schedule, MICROBATCHES, ranks,
                                       arguments.steps, keys)
                launch = ["launch", "-n", str(ranks), "--"] if way == "processes" else []
                if schedule != AUTO:
                    run([arguments.sluice, "plan", *command, "--measure", f"{folder}/costs.json"])
                    command.append(f"--parallelism.costs={folder}/costs.json")
                out, others = with_load(cores, [arguments.sluice, *launch, "train", *command])
                found = STEP_TIME.search(out)
                print(f"{line}{' '.join(found.group(1, 2)):>10}{' '.join(found.group(3, 4)):>10}"
                      f"{found[5]:>7}{others:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
