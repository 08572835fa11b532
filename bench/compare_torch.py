#!/usr/bin/env python3
"""Compares sluice's training step with torch.distributed.pipelining, with eager and with compiled stages.

All start from the same Hugging Face directory (a Llama of random weights, made here), see the same tokens in the same
microbatches of one sequence, and split the layers by the same rule. All clip the global gradient norm and step AdamW
(torch: fused), in float32 on the CPU with one thread per rank. torch has a process per rank and Gloo; sluice has a
thread per rank. For each schedule, torch's processes of both kinds stay alive, and the three take turns. Each trains the
same steps from the same weights repeatedly, so that fluctuations of the machine affect all of them. The first round
compiles, warms up and measures memory; it is not timed. Losses of all steps must agree within a relative 1e-5, otherwise
the script exits with 1. If torch or sluice rejects a schedule, the script reports that. If torch trains a schedule that
sluice does not, it fails.

    .oracles/bin/python bench/compare_torch.py [--sizes S,M] [--microbatches 4,8] [--ranks 2] [--json FILE]
    python3 bench/compare_torch.py --python .oracles/bin/python --short

tools/setup_oracles.sh makes .oracles, a Python with torch and transformers. --short takes less than three minutes.

Columns:
  step      median and minimum of all timed steps
  of ours   median / sluice's median
  launch    seconds from the start to the end of the first step, minus one median step: imports, weights, process
            groups, and compilation of stages that no earlier schedule of this run has compiled
  cpu       processor seconds per step, all ranks
  rss, pss  peaks over all processes; a page shared by n processes counts n times in rss, once in pss
  tensors   peak bytes of tensors that sluice's ranks held at once, summed
  bubble    share of the ranks' time in a step that is not forward, backward or loss
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time

from torch_comparison import sluice_run
from torch_comparison.processes import MemoryWatch
from torch_comparison.table import HEADER, print_best, print_rows, summarize
from torch_comparison.workers import PeerFailed, Workers, python_lacks, run_once
from torch_comparison.workload import SCHEDULES, SIZES

TOLERANCE = 1e-5
CALL_SECONDS = 570  # limit for a peer's steps, including compilation


class Peer:
    """torch's ranks of one schedule. After a failure it stays failed."""

    def __init__(self, who, folder, size, schedule, microbatches, ranks, arguments, cache):
        self.who, self.failed, self.first = who, "", None
        store = tempfile.mktemp(dir=folder, prefix="store")
        self.workers = Workers(arguments.python, "torch_rank",
                               [(folder, size, schedule, microbatches, who, rank, ranks, store)
                                for rank in range(ranks)], cache)

    def train(self, steps, warmup, watch_memory=False):
        """Trains like sluice_run.train. The result lacks the values that torch does not provide."""
        with MemoryWatch(self.workers.pids) if watch_memory else _nothing() as memory:
            answers = self.workers.call(f"run {steps}", CALL_SECONDS)
        seconds = answers[0]["seconds"]
        busy = [sum(step) / len(answers) for step in zip(*(answer["busy"] for answer in answers))]
        result = {"losses": answers[0]["losses"], "seconds": seconds,
                  "bubble": [1 - b / s for b, s in zip(busy, seconds)],
                  "launch": answers[0]["first_step_end"] - self.workers.started,
                  "cpu": sum(sum(answer["cpu"][warmup:]) for answer in answers) / (steps - warmup)}
        if watch_memory:
            result.update(rss=memory.rss, pss=memory.pss)
        return result


class Ours:
    """sluice's runs of one schedule. After a failure it stays failed."""

    def __init__(self, folder, command, arguments):
        self.folder, self.command, self.arguments = folder, command, arguments
        self.runs, self.failed = [], ""

    def train(self, watch_memory=False):
        try:
            if not self.failed:
                self.runs.append(sluice_run.train(self.arguments.sluice, self.folder, "run", self.command,
                                                  self.arguments.warmup, watch_memory))
        except sluice_run.SluiceFailed as error:
            self.failed = str(error)

    def row(self, cell):
        if self.failed:
            return dict(cell, who="sluice", failed=self.failed)
        warmup, first, timed = self.arguments.warmup, self.runs[0], self.runs[1:]
        row = summarize(cell, "sluice", [without_warmup(run, warmup) for run in timed])
        row.update(launch=min(run["launch"] for run in timed) - row["step"], rss=first["rss"], pss=first["pss"],
                   tensors=sum(first["memory_bytes"]), losses=first["losses"],
                   difference=max(largest_difference(run["losses"], first["losses"]) for run in timed))
        outside = [seconds for run in timed for seconds in run["outside"][max(0, warmup - 1):]]
        if outside:
            row["outside"] = min(outside)
        total = sum(sum(run["seconds"][warmup:]) for run in timed)
        row["shares"] = {key: sum(sum(run[key][warmup:]) for run in timed) / total for key in sluice_run.RANK_SECONDS}
        return row


class _nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def largest_difference(losses, reference):
    return max(abs(a - b) / abs(b) for a, b in zip(losses, reference))


def without_warmup(run, warmup):
    return dict(run, seconds=run["seconds"][warmup:], bubble=run["bubble"][warmup:])


def compare_cell(folder, size_name, schedule, microbatches, arguments, cache):
    """Returns the rows of one schedule: eager, compiled, sluice."""
    size, ranks, warmup, steps = SIZES[size_name], arguments.ranks, arguments.warmup, arguments.steps
    cell = {"size": size_name, "schedule": schedule, "microbatches": microbatches, "ranks": ranks,
            "tokens": microbatches * size.seq_len}
    command = sluice_run.write_config(folder, "run", size, schedule, microbatches, ranks, steps,
                                      arguments.set)
    peers = []
    if schedule in SCHEDULES:
        for who in arguments.peers:
            # One after the other, so that the launch of one does not disturb the other.
            peer = Peer(who, folder, size_name, schedule, microbatches, ranks, arguments, cache)
            peers.append(peer)
            try:
                peer.first = peer.train(steps, warmup, watch_memory=True)
            except PeerFailed as error:
                peer.failed = str(error)
    ours = Ours(folder, command, arguments)
    ours.train(watch_memory=True)
    runs = {peer.who: [] for peer in peers}
    for _ in range(arguments.rounds):
        for peer in peers:
            try:
                if not peer.failed:
                    runs[peer.who].append(peer.train(steps, warmup))
            except PeerFailed as error:
                peer.failed = str(error)
        ours.train()
    for peer in peers:
        peer.workers.close()

    rows = []
    for peer in peers:
        if peer.failed:
            rows.append(dict(cell, who=peer.who, failed=peer.failed))
            continue
        row = summarize(cell, peer.who, [without_warmup(run, warmup) for run in runs[peer.who]])
        row.update(launch=peer.first["launch"] - row["step"], rss=peer.first["rss"], pss=peer.first["pss"])
        if not ours.failed:
            row["difference"] = max(largest_difference(run["losses"], ours.runs[0]["losses"])
                                    for run in [peer.first, *runs[peer.who]])
        rows.append(row)
    rows.append(ours.row(cell))
    print_rows(rows)
    return rows


def compare_microbatch(folder, size_name, arguments, cache):
    """Compares forward and backward of one microbatch in one process, eight in a row, with the machine's
    bound."""
    microbatches = 8
    size = SIZES[size_name]
    command = sluice_run.write_config(folder, "one", size, "1F1B", microbatches, 1, 3, arguments.set)
    workers = {name: Workers(arguments.python, "one_microbatch", [(folder, size_name, name)], cache)
               for name in ("bound", *arguments.peers)}
    found, failed = {"sluice": []}, {}
    for name, worker in workers.items():
        try:
            worker.call("2", CALL_SECONDS)  # compiles
            found[name] = []
        except PeerFailed as error:
            failed[name] = str(error)
            print(f"{size_name}: one microbatch, {name} failed: {error}", flush=True)
    for _ in range(arguments.rounds + 1):
        for name in found:
            if name != "sluice":
                found[name] += workers[name].call(str(microbatches), CALL_SECONDS)
        run = sluice_run.train(arguments.sluice, folder, "one", command, 1)
        # A step without the norm and the update.
        found["sluice"] += [(s - u - r) / microbatches for s, u, r in
                            zip(run["seconds"][1:], run["optimizer"][1:], run["reduction"][1:])]
    for worker in workers.values():
        worker.close()
    best = {name: min(values) for name, values in found.items()}
    others = ", ".join(f"{best['sluice'] / best[name]:.2f} of {name}'s {1e3 * best[name]:.1f}"
                       for name in best if name != "sluice")
    print(f"{size_name}: forward and backward of one microbatch in one process, minima, ms: sluice "
          f"{1e3 * best['sluice']:.1f}, which is {others}", flush=True)
    return {"size": size_name, "seconds": best, "failed": failed}


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
                  if line.startswith("model name")), platform.machine())
    return {"processor": model, "cores": os.cpu_count(), "load": os.getloadavg()[0],
            "date": time.strftime("%Y-%m-%d")}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sluice", default="build/bin/sluice", help="the program, built Release")
    parser.add_argument("--python", default=sys.executable, help="a Python with torch and transformers")
    parser.add_argument("--sizes", default="S,M")
    parser.add_argument("--schedules", default=",".join(SCHEDULES))
    parser.add_argument("--microbatches", default="4,8")
    parser.add_argument("--peers", default="eager,compiled")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5, help="of a round, the warm-up included")
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="timed ones")
    parser.add_argument("--short", action="store_true", help="S, 8 microbatches, two schedules of the same stages, two rounds")
    parser.add_argument("--no-microbatch", action="store_true", help="leave out one microbatch in one process")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE",
                        help="a key of sluice's configuration, for all its runs")
    parser.add_argument("--json", help="write all numbers to this file")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.sizes, arguments.microbatches, arguments.rounds = "S", "8", 2
        arguments.schedules = "Interleaved1F1B,ZBVZeroBubble"
        arguments.no_microbatch = True  # it would compile once more
    for name in ("sizes", "schedules", "peers"):
        setattr(arguments, name, getattr(arguments, name).split(","))
    arguments.microbatches = [int(number) for number in arguments.microbatches.split(",")]
    for name in arguments.schedules:
        if name not in SCHEDULES:
            parser.error(f"no schedule '{name}'; there are {', '.join(SCHEDULES)}")
    for name in arguments.sizes:
        if name not in SIZES:
            parser.error(f"no size '{name}'; there are {', '.join(SIZES)}")
    if not 0 <= arguments.warmup < arguments.steps:
        parser.error("--warmup must be less than --steps")
    return arguments


def main():
    arguments = parse_arguments()
    lacks = python_lacks(arguments.python)
    if lacks:
        sys.exit(f"compare_torch: {lacks}; tools/setup_oracles.sh makes .oracles/bin/python, for --python")
    versions = subprocess.run(
        [arguments.python, "-c", "import torch, transformers as t; print('torch', torch.__version__, "
         "'transformers', t.__version__)"], capture_output=True, text=True, check=True).stdout.strip()
    report = {"machine": machine(), "versions": versions, "rows": [], "best": [], "microbatch": []}
    print(f"{versions}; {report['machine']['cores']} cores of {report['machine']['processor']}, load "
          f"{report['machine']['load']:.1f}, {report['machine']['date']}", flush=True)
    with tempfile.TemporaryDirectory() as top:
        cache = f"{top}/inductor"
        for size_name in arguments.sizes:
            folder = f"{top}/{size_name}"
            os.mkdir(folder)
            run_once(arguments.python, "import sys; from torch_comparison import workload as w; "
                     "w.make_inputs(sys.argv[1], w.SIZES[sys.argv[2]], int(sys.argv[3]))",
                     (folder, size_name, max(arguments.microbatches + [8]) * max(arguments.steps, 3)))
            if not arguments.no_microbatch:
                report["microbatch"].append(compare_microbatch(folder, size_name, arguments, cache))
            for microbatches in arguments.microbatches:
                print(HEADER, flush=True)
                rows = []
                for schedule in arguments.schedules:
                    rows += compare_cell(folder, size_name, schedule, microbatches, arguments, cache)
                command = sluice_run.write_config(folder, "run", SIZES[size_name], sluice_run.AUTO, microbatches,
                                                  arguments.ranks, arguments.steps, arguments.set)
                refused = sluice_run.accepts(arguments.sluice, command)
                if refused:
                    print(f"  schedule auto: {refused}", flush=True)
                else:
                    rows += compare_cell(folder, size_name, sluice_run.AUTO, microbatches, arguments, cache)
                for key, title in (("step", "median"), ("min", "minimum")):
                    best = print_best(rows, key, title)
                    report["best"].append({"size": size_name, "microbatches": microbatches, "by": title, **(best or {})})
                report["rows"] += rows
                if arguments.json:
                    with open(arguments.json, "w", encoding="utf-8") as file:
                        json.dump(report, file, indent=1)
    wrong = [row for row in report["rows"] if row.get("difference", 0) > TOLERANCE]
    refused = [row for row in report["rows"] if row["who"] == "sluice" and "failed" in row and any(
        "step" in other and all(other[key] == row[key] for key in ("size", "schedule", "microbatches"))
        for other in report["rows"])]
    for row in refused:
        print(f"compare_torch: torch trains what sluice does not: {row['size']}, {row['schedule']}, "
              f"{row['microbatches']} microbatches: {row['failed']}", file=sys.stderr)
    for row in wrong:
        print(f"compare_torch: losses differ by {row['difference']:.1e}: {row['size']}, {row['schedule']}, "
              f"{row['microbatches']} microbatches, {row['who']}", file=sys.stderr)
    if wrong or refused:
        sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except sluice_run.SluiceFailed as error:
        sys.exit(f"compare_torch: sluice failed: {error}")
