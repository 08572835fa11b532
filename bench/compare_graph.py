#!/usr/bin/env python3
"""Compares training steps of an exported Llama in one process: sluice, the same exported program run eagerly
in Python, transformers' own model, and sluice's native family.

All start from the same Hugging Face directory (random weights, made here) and see the same tokens in the same
microbatches of one sequence. All clip the global gradient norm and step AdamW (torch: fused), in float32 on the CPU with
one thread. They take turns. Each trains the same steps in every round, and the first round is an untimed warm-up. Losses
of all steps must agree within a relative 1e-5, otherwise the script exits with 1. It prints ratios of medians, and below
them ratios of minimum steps.

    .oracles/bin/python bench/compare_graph.py [--sizes S] [--microbatches 4] [--rounds 5] [--json FILE]

With --archive FILE.pt2 it also times how long `sluice graph inspect` takes to load that archive, and `sluice plan` to
plan it on eight ranks, each the minimum over the rounds. tools/setup_oracles.sh makes .oracles.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from compare_torch import largest_difference, machine
from torch_comparison import sluice_run
from torch_comparison.workers import PeerFailed, Workers, python_lacks, run_once
from torch_comparison.workload import SIZES

TOLERANCE = 1e-5
CALL_SECONDS = 570
TOOL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools", "sluice_export.py")


def export(python, folder, size):
    """Writes FOLDER/model.pt2 with weights. The example has one sequence of seq_len tokens; both sizes may
    vary."""
    done = subprocess.run([python, TOOL, "--model", f"{folder}/model", "--out", f"{folder}/model.pt2", "--weights",
                           "--length", str(size.seq_len), "--no-check"], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"compare_graph: the export failed: {done.stderr.strip()}")


def compare(folder, size_name, arguments):
    size, microbatches, steps = SIZES[size_name], arguments.microbatches, arguments.steps
    run_once(arguments.python, "import sys; from torch_comparison import workload as w; "
             "w.make_inputs(sys.argv[1], w.SIZES[sys.argv[2]], int(sys.argv[3]))", (folder, size_name, microbatches * steps))
    export(arguments.python, folder, size)
    workers = {kind: Workers(arguments.python, "graph_step", [(folder, microbatches, kind)], f"{folder}/cache")
               for kind in ("program", "transformers")}
    graph = ["model.path=", f"model.graph={folder}/model.pt2"]
    commands = {"graph": sluice_run.write_config(folder, "graph", size, "1F1B", microbatches, 1, steps, graph),
                "native": sluice_run.write_config(folder, "native", size, "1F1B", microbatches, 1, steps)}
    found, reference = {}, None
    for round_number in range(arguments.rounds + 1):
        for who in ("graph", "program", "transformers", "native"):
            if who in workers:
                run = workers[who].call(str(steps), CALL_SECONDS)[0]
            else:
                run = sluice_run.train(arguments.sluice, folder, who, commands[who], arguments.warmup)
            reference = reference or run["losses"]
            if largest_difference(run["losses"], reference) > TOLERANCE:
                sys.exit(f"compare_graph: losses of {who} differ by {largest_difference(run['losses'], reference):.1e}")
            if round_number > 0:
                found.setdefault(who, []).extend(run["seconds"][arguments.warmup:])
    for worker in workers.values():
        worker.close()
    return found


def least_seconds(command, rounds):
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds.append(time.perf_counter() - started)
        if done.returncode:
            sys.exit(f"compare_graph: {' '.join(command)}: {done.stderr.strip()}")
    return min(seconds)


def time_archive(arguments):
    """Returns the seconds to load and to plan."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/rows.jsonl", "w", encoding="utf-8") as file:
            file.write('{"input_ids": [1, 2, 3]}\n')
        with open(f"{folder}/run.toml", "w", encoding="utf-8") as file:
            file.write(f'[model]\ngraph = "{os.path.abspath(arguments.archive)}"\n[data]\nfiles = ["rows.jsonl"]\n'
                       '[training]\nlocal_batch_size = 16\n[parallelism]\npipeline_parallel_degree = 8\n')
        return (least_seconds([arguments.sluice, "graph", "inspect", arguments.archive], arguments.rounds),
                least_seconds([arguments.sluice, "plan", f"{folder}/run.toml"], arguments.rounds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sluice", default="build/bin/sluice", help="the program, built Release")
    parser.add_argument("--python", default=sys.executable, help="a Python with torch and transformers")
    parser.add_argument("--sizes", default="S")
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4, help="of a round, the warm-up included")
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5, help="timed ones")
    parser.add_argument("--archive", help="an archive to load and plan")
    parser.add_argument("--json", help="write all numbers to this file")
    arguments = parser.parse_args()
    lacks = python_lacks(arguments.python)
    if lacks:
        sys.exit(f"compare_graph: {lacks}; tools/setup_oracles.sh makes .oracles/bin/python, for --python")
    report = {"machine": machine(), "rows": []}
    print(f"{report['machine']['cores']} cores of {report['machine']['processor']}, load {report['machine']['load']:.1f}, "
          f"{report['machine']['date']}", flush=True)
    for size_name in filter(None, arguments.sizes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            found = compare(folder, size_name, arguments)
        ours = found["graph"]
        for who, seconds in found.items():
            row = {"size": size_name, "who": who, "median": statistics.median(seconds), "least": min(seconds),
                   "of_graph": statistics.median(seconds) / statistics.median(ours), "least_of_graph": min(seconds) / min(ours)}
            report["rows"].append(row)
            print(f"{size_name}, {arguments.microbatches} microbatches, {who:<13} {1e3 * row['median']:>8.0f} ms "
                  f"({1e3 * row['least']:.0f}), {row['of_graph']:.2f} ({row['least_of_graph']:.2f}) of the graph's", flush=True)
    if arguments.archive:
        report["load"], report["plan"] = time_archive(arguments)
        print(f"{os.path.basename(arguments.archive)}: loaded and shown in {report['load']:.2f} s, planned in {report['plan']:.2f} s")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    try:
        main()
    except (sluice_run.SluiceFailed, PeerFailed) as error:
        sys.exit(f"compare_graph: {error}")
