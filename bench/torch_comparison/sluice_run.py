"""Runs `sluice train` on the workload and collects its output and external measurements."""

import json
import shutil
import subprocess
import time

from torch_comparison.processes import MemoryWatch, cpu_seconds
from torch_comparison.workload import BETAS, EPS, LR, MAX_NORM, SCHEDULES, WEIGHT_DECAY

AUTO = "auto"  # sluice chooses the schedule
RANK_SECONDS = ("compute", "wait_receive", "wait_send", "reduction", "optimizer", "other")


class SluiceFailed(Exception):
    """A failed run. Holds the text of its stderr."""


def write_config(folder, name, size, schedule, microbatches, ranks, steps, more=()):
    """Writes FOLDER/NAME.toml, with outputs in FOLDER/NAME. `more`: further keys, as "section.key=value".
    Returns the arguments of `sluice train`."""
    if schedule == AUTO:
        order = f'pipeline_parallel_schedule = "{AUTO}"'
    else:
        order = (f'pipeline_parallel_schedule = "{schedule}"\n'
                 f"pipeline_parallel_stages_per_rank = {SCHEDULES[schedule][0]}")
    with open(f"{folder}/{name}.toml", "w", encoding="utf-8") as file:
        file.write(f"""[model]
path = "model"
[data]
files = ["rows.jsonl"]
shuffle = false
[training]
steps = {steps}
local_batch_size = {microbatches}
microbatch_size = 1
seq_len = {size.seq_len}
threads_per_rank = 1
[optimizer]
lr = {LR}
betas = {list(BETAS)}
eps = {EPS}
weight_decay = {WEIGHT_DECAY}
max_norm = {MAX_NORM}
[parallelism]
pipeline_parallel_degree = {ranks}
{order}
[checkpoint]
folder = "{name}/checkpoint"
resume = "none"
[metrics]
folder = "{name}"
""")
    return [f"{folder}/{name}.toml", *(f"--{key}" for key in more)]


def accepts(sluice, command):
    """Returns "" if sluice plans this command, or the reason why it does not."""
    done = subprocess.run([sluice, "plan", *command], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip()


def train(sluice, folder, name, command, warmup, watch_memory=False):
    """Trains once. Returns a dict: losses, seconds (of each step, as reported), bubble, compute and update
    (of each step, the mean over ranks), outside (seconds between the arrivals of step lines), launch
    (seconds from the start to the end of the first step), cpu (processor seconds per step after the
    warm-up), memory_bytes (by rank, as reported), rss and pss (MiB, with watch_memory)."""
    shutil.rmtree(f"{folder}/{name}", ignore_errors=True)
    started = time.perf_counter()
    with open(f"{folder}/{name}.err", "w+", encoding="utf-8") as errors, \
         subprocess.Popen([sluice, "train", *command], stdout=subprocess.PIPE, stderr=errors, text=True) as process:
        memory = MemoryWatch([process.pid])
        if watch_memory:
            memory.__enter__()
        arrived, cpu = [], []
        for line in process.stdout:
            if line.startswith("step:"):
                arrived.append(time.perf_counter())
                cpu.append(cpu_seconds([process.pid]))
        if watch_memory:
            memory.__exit__()
        if process.wait():
            errors.seek(0)
            raise SluiceFailed(errors.read().strip())
    with open(f"{folder}/{name}/metrics.jsonl", encoding="utf-8") as file:
        steps = [json.loads(line) for line in file]
    shutil.rmtree(f"{folder}/{name}")
    ranks = len(steps[0]["rank_seconds"])
    result = {
        "losses": [step["loss"] for step in steps],
        "seconds": [step["step_seconds"] for step in steps],
        "bubble": [step["bubble_fraction"] for step in steps],
        "outside": [b - a for a, b in zip(arrived, arrived[1:])],
        "launch": arrived[0] - started,
        "memory_bytes": [max(step["memory_bytes"][rank] for step in steps) for rank in range(ranks)],
    }
    for key in RANK_SECONDS:
        result[key] = [sum(rank[key] for rank in step["rank_seconds"]) / ranks for step in steps]
    if len(cpu) > warmup:
        result["cpu"] = (cpu[-1] - cpu[warmup - 1]) / (len(cpu) - warmup) if warmup else cpu[-1] / len(cpu)
    if watch_memory:
        result.update(rss=memory.rss, pss=memory.pss)
    return result
