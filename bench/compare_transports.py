#!/usr/bin/env python3
"""Measures the cost of messages in a step: a pipeline of two ranks as threads, over Gloo, and as two
processes.

All train the same Llama with AdamW on random bytes, on the CPU, with one thread per rank. The numbers are the same, so
only the transport of messages differs. `threads`: one process. `gloo`: one process whose ranks use Gloo's sockets.
`processes`: `sluice launch -n 2`. Runs alternate, because machines are noisy. The script prints medians and minima of
steps, and the excess over `threads`.

    python bench/compare_transports.py [--sluice build/bin/sluice] [--ways gloo,processes] [--schedule 1F1B]
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile

from compare_checkpoints import make_inputs, model_and_training, parameters

RANKS = 2


def train(way, folder, arguments):
    """Returns the seconds of the steps after the warm-up, and the last loss."""
    shutil.rmtree(f"{folder}/{way}", ignore_errors=True)
    with open(f"{folder}/{way}.toml", "w", encoding="utf-8") as file:
        file.write(f"""{model_and_training(arguments.steps, 1, arguments)}[parallelism]
pipeline_parallel_degree = {RANKS}
pipeline_parallel_schedule = "{arguments.schedule}"
transport = "{'gloo' if way == 'gloo' else 'auto'}"
[checkpoint]
folder = "{way}"
[metrics]
folder = "{way}"
""")
    launch = ["launch", "-n", str(RANKS), "--"] if way == "processes" else []
    done = subprocess.run([arguments.sluice, *launch, "train", f"{folder}/{way}.toml"],
                          stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        sys.exit(f"sluice failed: {way}")
    with open(f"{folder}/{way}/metrics.jsonl", encoding="utf-8") as file:
        lines = [line for line in map(json.loads, file) if "step_seconds" in line]
    return [line["step_seconds"] for line in lines[2:]], lines[-1]["loss"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sluice", default="build/bin/sluice", help="the program, built Release")
    parser.add_argument("--ways", default="gloo,processes", help="beside threads")
    parser.add_argument("--schedule", default="1F1B")
    for name, default in [("layers", 4), ("hidden", 256), ("seq-len", 128), ("batch", 16),
                          ("microbatch", 2), ("steps", 12), ("repeat", 5)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    ways = ["threads", *arguments.ways.split(",")]
    runs = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        make_inputs(folder, arguments)
        for _ in range(arguments.repeat):
            losses = set()
            for way in ways:
                seconds, loss = train(way, folder, arguments)
                runs[way].append(seconds)
                losses.add(loss)
            if len(losses) > 1:
                sys.exit(f"losses differ: {losses}")

    print(f"{parameters(arguments):,} parameters, pp {RANKS}, {arguments.schedule}, "
          f"{arguments.batch // arguments.microbatch} microbatches of {arguments.microbatch} x {arguments.seq_len}")
    print(f"{'':<12}{'ms/step':>10}{'least':>10}{'above threads: median':>24}{'least':>10}{'of pairs of runs':>20}")
    medians = {way: statistics.median(sum(own, [])) for way, own in runs.items()}
    minima = {way: min(sum(own, [])) for way, own in runs.items()}
    for way, own in runs.items():
        pairs = [statistics.median(mine) / statistics.median(threads) - 1
                 for mine, threads in zip(own, runs["threads"])]
        print(f"{way:<12}{1e3 * medians[way]:>10.1f}{1e3 * minima[way]:>10.1f}"
              f"{100 * (medians[way] / medians['threads'] - 1):>23.1f}%"
              f"{100 * (minima[way] / minima['threads'] - 1):>9.1f}%{100 * statistics.median(pairs):>19.1f}%")


if __name__ == "__main__":
    main()
