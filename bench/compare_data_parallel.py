#!/usr/bin/env python3
"""Measures the cost of replicas: a step of two replicas beside two independent processes, and torch's DDP.

All train a Llama of the same size with AdamW on random bytes, on the CPU, with one thread per rank and the same number
of sequences per replica and step. sluice runs two replicas as threads of one process, or as two processes under `sluice
launch` (--processes), with exact and fast sums and sharded state. `alone` are two concurrent runs of one rank each.
torch runs DistributedDataParallel over Gloo, and two such loops without it. Runs alternate, because machines are noisy.
The script prints medians of steps, the excess over `alone`, and the peak resident memory of a process (the largest of a
run, in MB).

    python bench/compare_data_parallel.py [--sluice build/bin/sluice] [--processes] [--ways exact,fast,...]

Needs torch.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from compare_checkpoints import (BETAS, EPS, LR, MAX_NORM, WEIGHT_DECAY, make_inputs,
                                 model_and_training, parameters, torch_model)

REPLICAS = 2
SLUICE_WAYS = {"exact": "", "fast": 'reduction = "fast"', "zero1": "zero1 = true", "zero3": "zero3 = true"}


# ---- sluice ----

def start_sluice(folder, name, replicas, keys, arguments):
    out = f"{folder}/{name}"
    shutil.rmtree(out, ignore_errors=True)
    with open(f"{folder}/{name}.toml", "w", encoding="utf-8") as file:
        file.write(f"""{model_and_training(arguments.steps, 1, arguments)}[parallelism]
pipeline_parallel_degree = 1
data_parallel_degree = {replicas}
{keys}
[checkpoint]
folder = "{name}"
[metrics]
folder = "{name}"
""")
    launch = ["launch", "-n", str(replicas), "--"] if arguments.processes and replicas > 1 else []
    return subprocess.Popen([arguments.sluice, *launch, "train", f"{folder}/{name}.toml"],
                            stdout=subprocess.DEVNULL)


def steps_of(folder, name):
    with open(f"{folder}/{name}/metrics.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [line["step_seconds"] for line in lines if "step_seconds" in line]


def wait(process):
    """Returns the exit code, and the peak resident memory in MB of the process or its largest child."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_maxrss / 1e3


def run_sluice(way, folder, arguments):
    if way == "alone":
        names = [f"alone{i}" for i in range(REPLICAS)]
        runs = [start_sluice(folder, name, 1, "", arguments) for name in names]
    else:
        names = [way]
        runs = [start_sluice(folder, way, REPLICAS, SLUICE_WAYS[way], arguments)]
    ended = [wait(run) for run in runs]
    if any(code for code, _ in ended):
        sys.exit(f"sluice failed: {way}")
    return [second for name in names for second in steps_of(folder, name)], max(peak for _, peak in ended)


# ---- torch: one process per replica ----

def torch_rank(rank, arguments):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch_model(arguments)
    count = sum(p.numel() for p in model.parameters())
    if count != parameters(arguments):
        sys.exit(f"torch's model has {count} parameters")
    trained = model
    if arguments.way == "ddp":
        dist.init_process_group("gloo", store=dist.FileStore(f"{arguments.folder}/store", REPLICAS),
                                rank=rank, world_size=REPLICAS)
        trained = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=BETAS, eps=EPS,
                                  weight_decay=WEIGHT_DECAY, fused=True)
    with open(f"{arguments.folder}/text.txt", "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    tokens = arguments.batch * arguments.seq_len
    micro = arguments.batch // arguments.microbatch
    seconds = []
    for step in range(arguments.steps):
        started = time.perf_counter()
        begin = (step * REPLICAS + rank) * tokens % (len(text) - tokens - 1)
        rows = text[begin:begin + tokens].long().view(arguments.batch, arguments.seq_len)
        optimizer.zero_grad(set_to_none=True)
        for i, ids in enumerate(rows.chunk(micro)):
            waits = arguments.way == "ddp" and i + 1 < micro  # gradients are reduced with the last microbatch
            with trained.no_sync() if waits else contextlib.nullcontext():
                logits = trained(ids)
                loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1),
                                                         ids[:, 1:].flatten()) / micro
                loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        seconds.append(time.perf_counter() - started)
    print(json.dumps(seconds))
    if arguments.way == "ddp":
        dist.destroy_process_group()


def run_torch(way, folder, arguments):
    with contextlib.suppress(FileNotFoundError):
        os.remove(f"{folder}/store")
    own = [f"--{name}={getattr(arguments, name.replace('-', '_'))}"
           for name in ("layers", "hidden", "seq-len", "batch", "microbatch", "steps")]
    ranks = [subprocess.Popen([sys.executable, "-W", "ignore", __file__, *own, f"--way={way}",
                               f"--folder={folder}", f"--torch-rank={rank}"],
                              stdout=subprocess.PIPE, text=True) for rank in range(REPLICAS)]
    outputs = [rank.stdout.read() for rank in ranks]
    ended = [wait(rank) for rank in ranks]
    if any(code for code, _ in ended):
        sys.exit(f"torch failed: {way}")
    return [second for output in outputs for second in json.loads(output)], max(peak for _, peak in ended)


# ---- measuring ----

def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sluice", default="build/bin/sluice", help="the program, built Release")
    parser.add_argument("--processes", action="store_true", help="sluice's replicas as processes")
    parser.add_argument("--ways", default="exact,fast,zero1,zero3", help="of sluice")
    parser.add_argument("--who", default="sluice,torch")
    for name, default in [("layers", 4), ("hidden", 256), ("seq-len", 128), ("batch", 4),
                          ("microbatch", 2), ("steps", 12), ("repeat", 5)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--torch-rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.torch_rank is not None:
        torch_rank(arguments.torch_rank, arguments)
        return

    ways = []
    if "sluice" in arguments.who:
        ways += [("sluice", way, run_sluice) for way in ["alone", *arguments.ways.split(",")]]
    if "torch" in arguments.who:
        ways += [("torch", way, run_torch) for way in ("alone", "ddp")]
    seconds = {(who, way): [] for who, way, _ in ways}
    peaks = {key: 0.0 for key in seconds}
    with tempfile.TemporaryDirectory() as folder:
        make_inputs(folder, arguments)
        for _ in range(arguments.repeat):
            for who, way, run in ways:
                own, peak = run(way, folder, arguments)
                peaks[who, way] = max(peaks[who, way], peak)
                each = len(own) // arguments.steps
                for i in range(each):  # skips the warm-up
                    seconds[who, way] += own[i * arguments.steps + 2:(i + 1) * arguments.steps]
    print(f"{parameters(arguments):,} parameters, {REPLICAS} replicas, "
          f"{arguments.batch} sequences of {arguments.seq_len} each")
    print(f"{'':<8}{'':<8}{'ms/step':>10}{'quartiles':>16}{'above alone':>14}{'MB':>8}")
    for (who, way), own in seconds.items():
        low, median, high = (1e3 * value for value in statistics.quantiles(own, n=4))
        above = median / (1e3 * statistics.median(seconds[who, "alone"])) - 1
        print(f"{who:<8}{way:<8}{median:>10.1f}{f'{low:.1f}..{high:.1f}':>16}{100 * above:>13.1f}%"
              f"{peaks[who, way]:>8.0f}")


if __name__ == "__main__":
    main()
