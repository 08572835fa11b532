#!/usr/bin/env python3
"""Measures the cost of sliced layers on one rank: a step with 4 slices beside one without, hidden 256 (S) and
768 (M).

    python3 bench/compare_slices.py [--sluice build/bin/sluice] [--sizes S,M] [--slices 4] [--rounds 5]

The runs take turns. Each number is the processor time of a whole step (layers, loss, norm, update), the median over the
rounds. Both runs of a pair use the same kernels. Needs no Python packages.
"""

import argparse
import statistics
import tempfile

from step_breakdown import make_inputs
from torch_comparison.sluice_run import train, write_config
from torch_comparison.workload import SIZES

WARMUP = 2


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sluice", default="build/bin/sluice")
    parser.add_argument("--sizes", default="S,M")
    parser.add_argument("--slices", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{'':<4}{'unsliced, ms':>14}{f'{arguments.slices} slices, ms':>14}{'ratio':>8}{'of rounds':>16}")
    for name in arguments.sizes.split(","):
        size = SIZES[name]
        with tempfile.TemporaryDirectory() as folder:
            make_inputs(folder, size, 4)
            drawn = ("model.path=", f"model.config={folder}/model/config.json")
            seconds = {1: [], arguments.slices: []}
            for _ in range(arguments.rounds):
                for slices, of_rounds in seconds.items():
                    command = write_config(folder, "run", size, "1F1B", 4, 1, 6,
                                           (*drawn, f"parallelism.tensor_parallel_slices={slices}"))
                    of_rounds.append(train(arguments.sluice, folder, "run", command, WARMUP)["cpu"])
            whole, sliced = seconds.values()
            ratios = [b / a for a, b in zip(whole, sliced)]
            print(f"{name:<4}{1e3 * statistics.median(whole):>14.1f}{1e3 * statistics.median(sliced):>14.1f}"
                  f"{statistics.median(ratios):>8.3f}{f'{min(ratios):.3f}-{max(ratios):.3f}':>16}", flush=True)


if __name__ == "__main__":
    main()
