#!/usr/bin/env python3
"""Measures the cost of saving during a run: sluice train beside a torch loop with
torch.distributed.checkpoint.

Both train a Llama of the same size with AdamW on random bytes, on the CPU with the same number of threads, in three
ways: without saving, saving within the step every K steps, and saving in the background every K steps. The script
records when each `step:` line arrives. It compares periods of K steps with one save each, including all time between
steps. K is chosen so that sluice's save within the step costs --share of the time, unless --interval sets it. Runs
alternate, because machines are noisy. Periods in which other programs used more than --others of the machine are left
out. The script prints medians and how far apart they lie.

    python bench/compare_checkpoints.py [--sluice build/bin/sluice] [--folder DIR] [--who sluice,torch]

DIR must be on the disk to be measured. Needs torch.
"""

import argparse
import json
import os
import platform
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

LR, BETAS, EPS, WEIGHT_DECAY, MAX_NORM = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
VOCAB = 256
WAYS = ("none", "sync", "async")


def intermediate(arguments):
    return arguments.hidden * 8 // 3 // 16 * 16


def parameters(arguments):
    layer = 4 * arguments.hidden ** 2 + 3 * arguments.hidden * intermediate(arguments) + 2 * arguments.hidden
    return arguments.layers * layer + 2 * VOCAB * arguments.hidden + arguments.hidden


def make_inputs(folder, arguments):
    with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
        json.dump({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": VOCAB,
                   "hidden_size": arguments.hidden, "intermediate_size": intermediate(arguments),
                   "num_hidden_layers": arguments.layers, "num_attention_heads": arguments.hidden // 64,
                   "num_key_value_heads": arguments.hidden // 64, "rms_norm_eps": 1e-6,
                   "max_position_embeddings": arguments.seq_len, "tie_word_embeddings": False,
                   "rope_theta": 10000.0, "hidden_act": "silu"}, file)
    draw = random.Random(0)
    with open(f"{folder}/text.txt", "w", encoding="ascii") as file:
        file.write("".join(draw.choices("abcdefghijklmnopqrstuvwxyz \n", k=1 << 18)))


# ---- sluice ----

def model_and_training(steps, threads, arguments):
    """Returns the sections of a configuration that trains on make_inputs()."""
    return f"""
[model]
config = "config.json"
[data]
files = ["text.txt"]
tokenizer = "bytes"
[training]
steps = {steps}
local_batch_size = {arguments.batch}
microbatch_size = {arguments.microbatch}
seq_len = {arguments.seq_len}
threads_per_rank = {threads}
[optimizer]
lr = {LR}
betas = {list(BETAS)}
eps = {EPS}
weight_decay = {WEIGHT_DECAY}
max_norm = {MAX_NORM}
"""


def sluice_command(folder, way, interval, steps, arguments):
    saving = "" if way == "none" else f"interval = {interval}\nasync = {'true' if way == 'async' else 'false'}"
    with open(f"{folder}/run.toml", "w", encoding="utf-8") as file:
        file.write(f"""
{model_and_training(steps, arguments.threads // arguments.ranks, arguments)}[parallelism]
pipeline_parallel_degree = {arguments.ranks}
[checkpoint]
folder = "out"
keep_latest_k = 1
{saving}
[metrics]
folder = "out"
""")
    return [arguments.sluice, "train", f"{folder}/run.toml"]


# ---- torch: a plain loop in one process ----

def torch_model(arguments):
    import torch
    from torch import nn
    from torch.nn import functional

    head_dim = 64

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            width, inner = arguments.hidden, intermediate(arguments)
            self.input_norm, self.output_norm = nn.RMSNorm(width), nn.RMSNorm(width)
            self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
            self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
            self.down = nn.Linear(inner, width, bias=False)

        def forward(self, x, cos, sin):
            def heads(y):
                return y.unflatten(-1, (-1, head_dim)).transpose(1, 2)

            def turned(y):
                first, second = y.chunk(2, -1)
                return y * cos + torch.cat((-second, first), -1) * sin

            y = self.input_norm(x)
            y = functional.scaled_dot_product_attention(
                turned(heads(self.q(y))), turned(heads(self.k(y))), heads(self.v(y)), is_causal=True)
            x = x + self.o(y.transpose(1, 2).flatten(2))
            y = self.output_norm(x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, arguments.hidden)
            self.layers = nn.ModuleList(Layer() for _ in range(arguments.layers))
            self.norm = nn.RMSNorm(arguments.hidden)
            self.head = nn.Linear(arguments.hidden, VOCAB, bias=False)
            angles = torch.outer(torch.arange(arguments.seq_len),
                                 10000.0 ** (-torch.arange(0, head_dim, 2) / head_dim)).repeat(1, 2)
            self.register_buffer("cos", angles.cos(), persistent=False)
            self.register_buffer("sin", angles.sin(), persistent=False)

        def forward(self, ids):
            x = self.embed(ids)
            for layer in self.layers:
                x = layer(x, self.cos, self.sin)
            return self.head(self.norm(x))

    return Model()


def run_torch(arguments):
    import torch
    import torch.distributed.checkpoint as dcp

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    model = torch_model(arguments)
    count = sum(p.numel() for p in model.parameters())
    if count != parameters(arguments):
        sys.exit(f"torch's model has {count} parameters")
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=BETAS, eps=EPS,
                                  weight_decay=WEIGHT_DECAY, fused=True)
    with open(f"{arguments.folder}/text.txt", "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    out = f"{arguments.folder}/out"
    saved, behind = [], None

    def prune():
        while len(saved) > 1:
            shutil.rmtree(saved.pop(0))

    def save(step, way):
        nonlocal behind
        path = f"{out}/step-{step:08d}"
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        if behind is not None:
            behind.result()
            behind = None
            prune()
        if way == "async":
            behind = dcp.async_save(state, checkpoint_id=path)
        else:
            dcp.save(state, checkpoint_id=path)
        saved.append(path)
        if way != "async":
            prune()

    tokens = arguments.batch * arguments.seq_len
    micro = arguments.batch // arguments.microbatch
    for step in range(1, arguments.steps + 1):
        begin = (step - 1) * tokens % (len(text) - tokens - 1)
        rows = text[begin:begin + tokens].long().view(arguments.batch, arguments.seq_len)
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for ids in rows.chunk(micro):
            logits = model(ids)
            loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1),
                                                     ids[:, 1:].flatten()) / micro
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        print(f"step: {step}/{arguments.steps}  loss: {total:.4f}", flush=True)
        if arguments.way != "none" and step % arguments.interval == 0 and step < arguments.steps:
            save(step, arguments.way)
    save(arguments.steps, "sync")


def torch_command(folder, way, interval, steps, arguments):
    own = [f"--{name}={getattr(arguments, name.replace('-', '_'))}"
           for name in ("layers", "hidden", "seq-len", "batch", "microbatch", "threads")]
    return [sys.executable, "-W", "ignore", __file__, *own, f"--way={way}", f"--steps={steps}",
            f"--interval={interval}", f"--folder={folder}"]


# ---- measuring ----

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """Returns processor seconds of this process (user and system), and of all other programs and the host
    (user only)."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        user, system = (int(ticks) for ticks in file.read().rsplit(")", 1)[1].split()[11:13])
    with open("/proc/stat", encoding="utf-8") as file:
        of_all = [int(ticks) for ticks in file.readline().split()[1:]]
    return (user + system) / TICKS, (of_all[0] + of_all[1] + of_all[7] - user) / TICKS


class Run:
    """A run: arrival times of its step lines, processor seconds at each line, and its total seconds."""

    def __init__(self, command, folder):
        out = f"{folder}/out"
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        os.sync()  # so that this run does not pay for writes of an earlier one
        self.came, self.own, self.others = {}, {}, {}
        started = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if found := re.match(r"step:\s*(\d+)/", line):
                    step = int(found[1])
                    self.came[step] = time.perf_counter() - started
                    self.own[step], self.others[step] = cpu_seconds(process.pid)
            errors = process.stderr.read()
        self.total = time.perf_counter() - started
        if process.returncode:
            sys.exit(f"{' '.join(command)}: exit {process.returncode}\n{errors}")
        self.bytes = sum(os.path.getsize(os.path.join(path, name))
                         for path, _, names in os.walk(newest(out)) for name in names)

    def between(self, first, last):
        return self.came[last] - self.came[first]

    def others_share(self, first, last):
        computed = self.others[last] - self.others[first]
        return computed / (self.between(first, last) * os.cpu_count())

    def steps(self, interval):
        """Returns the seconds of the steps that do not follow a save."""
        return [self.between(step - 1, step) for step in self.came
                if step > 2 and (step - 1) % interval != 0]

    def stalls(self, interval):
        """Returns the seconds that each save added to the next step."""
        usual = statistics.median(self.steps(interval))
        return [self.between(step, step + 1) - usual for step in self.came
                if step % interval == 0 and step + 1 in self.came]


def newest(out):
    return os.path.join(out, max(name for name in os.listdir(out) if name.startswith("step-")))


COMMANDS = {"sluice": sluice_command, "torch": torch_command}


def wait_for_quiet(arguments):
    """Waits up to --patience seconds until other programs use no more than --others."""
    deadline = time.monotonic() + arguments.patience
    while time.monotonic() < deadline:
        began, before = time.monotonic(), cpu_seconds(os.getpid())[1]
        time.sleep(2)
        computed = cpu_seconds(os.getpid())[1] - before
        if computed / ((time.monotonic() - began) * os.cpu_count()) <= arguments.others:
            return


def choose_interval(folder, arguments):
    """Returns the number of steps of which a save within the step costs --share."""
    wait_for_quiet(arguments)
    run = Run(sluice_command(folder, "sync", 3, 13, arguments), folder)
    save, step = statistics.median(run.stalls(3)), statistics.median(run.steps(3))
    interval = max(2, round(save / (arguments.share * step)))
    print(f"a step takes {step:.2f} s, a save in step {save:.2f} s: K = {interval}", flush=True)
    return interval


def median_and_spread(values, scale=1.0, digits=2):
    low, high = min(values) * scale, max(values) * scale
    return f"{statistics.median(values) * scale:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def measure(folder, arguments):
    interval = arguments.interval or choose_interval(folder, arguments)
    # Skips the first save, which allocates memory that later saves reuse.
    first, last = 2 * interval, (2 + arguments.saves) * interval
    who_all = arguments.who.split(",")
    runs = {(who, way): [] for who in who_all for way in WAYS}
    for turn in range(arguments.repeat):
        for way in WAYS if turn % 2 == 0 else reversed(WAYS):
            for who in who_all:
                wait_for_quiet(arguments)
                run = Run(COMMANDS[who](folder, way, interval, last, arguments), folder)
                runs[who, way].append(run)
                print(f"  {who} {way}: {run.between(first, last):.2f} s of {last - first} steps, others computed "
                      f"{100 * run.others_share(first, last):.0f}%; {run.total:.2f} s in all",
                      file=sys.stderr, flush=True)

    print(f"\nK = {interval}, {arguments.saves} periods a run, {arguments.repeat} runs of each; "
          "median (least to most)")
    print(f"{'':<14}{'periods':>8}{'s a period':>24}{'to none':>9}{'cost':>8}{'CPU s':>8}"
          f"{'s in step a save':>24}{'GB':>7}{'GB/s':>7}{'s a run in all':>24}")
    for who in who_all:
        none = None
        for way in WAYS:
            none = report(f"{who} {way}", runs[who, way], interval, none, arguments)


def report(name, runs, interval, none, arguments):
    """Prints one line. none: the median period without saving, or None if unknown. Returns that median."""
    starts = [(2 + i) * interval for i in range(arguments.saves)]
    quiet = [(run, start) for run in runs for start in starts
             if run.others_share(start, start + interval) <= arguments.others]
    if not quiet:
        print(f"{name:<14}{f'0/{len(runs) * len(starts)}':>8}  others computed in all: wait, or raise --others")
        return none
    periods = [run.between(start, start + interval) for run, start in quiet]
    computed = statistics.median(run.own[start + interval] - run.own[start] for run, start in quiet)
    line = f"{name:<14}{f'{len(quiet)}/{len(runs) * len(starts)}':>8}{median_and_spread(periods):>24}"
    if none is None and not name.endswith("none"):
        line += f"{'unknown':>9}{'':>8}{computed:>8.2f}"
    else:
        ratio = statistics.median(periods) / (none or statistics.median(periods))
        line += f"{ratio:>9.3f}{100 * (ratio - 1):>7.1f}%{computed:>8.2f}"
    if name.endswith("none"):
        line += " " * 38
    else:
        stalls = [run.between(start, start + 1) - statistics.median(run.steps(interval))
                  for run, start in quiet]
        size = runs[0].bytes / 1e9
        speed = f"{size / statistics.median(stalls):.2f}" if name.endswith(" sync") else ""
        line += f"{median_and_spread(stalls):>24}{size:>7.3f}{speed:>7}"
    print(line + f"{median_and_spread([run.total for run in runs], digits=1):>24}", flush=True)
    return statistics.median(periods) if name.endswith("none") else none


def machine(folder):
    model = platform.processor() or platform.machine()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), model)
    with open("/proc/meminfo", encoding="utf-8") as file:
        memory = int(file.readline().split()[1]) / 2 ** 20
    disk = subprocess.run(["df", "-T", folder], check=True, capture_output=True, text=True).stdout.split("\n")[1]
    load = ", ".join(f"{part:.1f}" for part in os.getloadavg())
    return (f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release()}; "
            f"files on {' '.join(disk.split()[:2])}; load {load}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sluice", default="build/bin/sluice", help="the program, built Release")
    parser.add_argument("--folder", default=None, help="on the disk to be measured; default: the temporary one")
    parser.add_argument("--who", default="sluice,torch")
    parser.add_argument("--others", type=float, default=0.05,
                        help="share of the machine that other programs may take in a period")
    parser.add_argument("--patience", type=float, default=0,
                        help="seconds to wait before a run until they take no more")
    parser.add_argument("--share", type=float, default=0.2, help="what a save in step is to cost")
    for name, default in [("ranks", 2), ("layers", 16), ("hidden", 512), ("seq-len", 64), ("batch", 4),
                          ("microbatch", 1), ("threads", 2), ("interval", 0), ("saves", 2), ("repeat", 3)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        run_torch(arguments)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        make_inputs(folder, arguments)
        print(f"{parameters(arguments) / 1e6:.1f} million parameters; {machine(folder)}", flush=True)
        measure(folder, arguments)


if __name__ == "__main__":
    main()
