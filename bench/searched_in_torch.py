#!/usr/bin/env python3
"""Compares an order found by sluice with the schedules of torch.distributed.pipelining, all run by torch.

    .oracles/bin/python bench/searched_in_torch.py [--rounds 8] [--scale 2]

Two Gloo ranks run four uneven stages (2, 4, 3 and 6 blocks, an embedding, a head) and 8 microbatches. First the stages
are timed with real work (processor time of the thread). Then tiny layers replace them, and every action sleeps until it
has taken `scale` times its measured cost. So each rank effectively has its own core, however busy the machine is. Whole
steps are measured by wall clock, and the schedules take turns.
"""

import argparse
import os
import shutil
import socket
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def package(build):
    folder = tempfile.mkdtemp(prefix="sluice-module-")
    shutil.copytree(os.path.join(SOURCE, "python/sluice"), os.path.join(folder, "sluice"))
    os.makedirs(os.path.join(folder, "sluice/bin"))
    os.symlink(os.path.join(build, "bin/sluice"), os.path.join(folder, "sluice/bin/sluice"))
    return folder


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"), help="folder of the build")
    parser.add_argument("--rounds", type=int, default=8, help="steps of each schedule")
    parser.add_argument("--scale", type=float, default=2, help="times the measured costs")
    OPTIONS = parser.parse_args()
    FOLDER = package(os.path.abspath(OPTIONS.build))
    os.environ["SLUICE_MODULE_FOLDER"] = FOLDER
sys.path.insert(0, os.environ["SLUICE_MODULE_FOLDER"])

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.pipelining import PipelineStage, schedules  # noqa: E402

import sluice  # noqa: E402
import sluice.torch  # noqa: E402

RANKS, MICROBATCHES, BLOCKS = 2, 8, [2, 4, 3, 6]
LOOP, V = [0, 1, 0, 1], [0, 1, 1, 0]
NAMED = {"Interleaved1F1B": LOOP, "InterleavedZeroBubble": LOOP, "ZBVZeroBubble": V, "DualPipeV": V}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Sizes:
    def __init__(self, tiny):
        self.width, self.vocabulary, self.length = (16, 64, 8) if tiny else (256, 2048, 64)
        self.blocks = [1] * len(BLOCKS) if tiny else BLOCKS


def stages_on(rank, places, sizes):
    stages = []
    for stage, of in enumerate(places):
        if of != rank:
            continue
        torch.manual_seed(stage)
        layers = [nn.Embedding(sizes.vocabulary, sizes.width)] if stage == 0 else []
        layers += [Block(sizes.width) for _ in range(sizes.blocks[stage])]
        if stage == len(places) - 1:
            layers += [nn.LayerNorm(sizes.width), nn.Linear(sizes.width, sizes.vocabulary, bias=False)]
        stages.append(PipelineStage(nn.Sequential(*layers), stage, len(places), torch.device("cpu")))
    return stages


def loss_of(out, target):
    return nn.functional.cross_entropy(out.flatten(0, 1), target.flatten(0, 1))


def step(schedule, stages, sizes, number):
    generator = torch.Generator().manual_seed(number)
    ids = torch.randint(0, sizes.vocabulary, (MICROBATCHES, sizes.length + 1), generator=generator)
    first, last = any(s.is_first for s in stages), any(s.is_last for s in stages)
    for stage in stages:
        for parameter in stage.submod.parameters():
            parameter.grad = None
    losses = []
    dist.barrier()
    schedule.step(*((ids[:, :-1].contiguous(),) if first else ()), return_outputs=False,
                  **({"target": ids[:, 1:].contiguous(), "losses": losses} if last else {}))
    dist.barrier()
    return torch.stack([loss.detach() for loss in losses]).mean().item() if last else None


def act_out(stages, costs, scale):
    """Makes every action sleep until it has taken its cost."""
    def padded(function, kind_of, of):
        def call(*arguments, **named):
            began = time.perf_counter()
            result = function(*arguments, **named)
            left = scale * of[kind_of(named)] / 1e3 - (time.perf_counter() - began)
            if left > 0:
                time.sleep(left)
            return result
        return call

    for stage in stages:
        of = costs["stages"][stage.stage_index]
        stage.forward_one_chunk = padded(stage.forward_one_chunk, lambda k: "F", of)
        stage.backward_one_chunk = padded(stage.backward_one_chunk, lambda k: "B" if k.get("full_backward", True) else "I", of)
        stage.backward_weight_one_chunk = padded(stage.backward_weight_one_chunk, lambda k: "W", of)


def measured_costs(rank):
    sizes, timers = Sizes(tiny=False), []
    for name in ("Interleaved1F1B", "ZBVZeroBubble"):
        stages = stages_on(rank, NAMED[name], sizes)
        schedule = schedules.get_schedule_class(name)(stages, MICROBATCHES, loss_fn=loss_of)
        with sluice.torch.StageTimer(schedule, warmup=1) as timer:
            for number in range(6):
                step(schedule, stages, sizes, number)
        timers.append(timer)
    costs = sluice.torch.costs(*timers, latency=0.3)
    every = [costs]
    dist.broadcast_object_list(every)  # both ranks use the numbers of rank 0
    return every[0]


def worker(rank, port, rounds, scale):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    costs = measured_costs(rank)
    orders = {name: sluice.schedule(name, RANKS, MICROBATCHES, 2) for name in NAMED}
    for place, text in ((LOOP, "loop"), (V, "v")):
        orders["searched, " + text] = sluice.search(costs, RANKS, MICROBATCHES, 2, place).schedule
    sizes, runs = Sizes(tiny=True), {}
    for name, order in orders.items():
        stages = stages_on(rank, order.stage_to_rank, sizes)
        act_out(stages, costs, scale)
        if name in NAMED:
            schedule = schedules.get_schedule_class(name)(stages, MICROBATCHES, loss_fn=loss_of)
        else:
            schedule = sluice.torch.load(stages, MICROBATCHES, loss_of, order)
        runs[name] = (schedule, stages, sluice.torch.StageTimer(schedule, warmup=1), [])
    for _, (_, _, timer, _) in runs.items():
        timer.__enter__()
    for number in range(rounds + 1):
        for schedule, stages, _, losses in runs.values():
            losses.append(step(schedule, stages, sizes, number))
    results = {}
    for name, (_, stages, timer, losses) in runs.items():
        timer.__exit__()
        results[name] = sluice.torch.compare(timer, orders[name], costs)
    every = [None] * RANKS
    dist.all_gather_object(every, {name: run[3] for name, run in runs.items()})
    if rank == 0:
        for stage, of in enumerate(costs["stages"]):
            print(f"stage {stage}: " + ", ".join(f"{kind} {of[kind]:.2f}" for kind in "FIWB") +
                  f" ms; (I + W) / B {(of['I'] + of['W']) / of['B']:.2f}")
        whole = {name: next(of[name] for of in every if of[name][0] is not None) for name in runs}
        print(f"\n{'order':24}{'expected':>10}{'torch':>10}{'torch / expected':>18}   ms, torch's divided by {scale:g}")
        for name, result in sorted(results.items(), key=lambda item: item[1].expected):
            measured = result.measured / scale
            print(f"{name:24}{result.expected:10.1f}{measured:10.1f}{measured / result.expected:18.3f}")
        first = next(iter(whole.values()))
        furthest = max(abs(a - b) for losses in whole.values() for a, b in zip(losses, first))
        print(f"\nlosses of {rounds + 1} steps differ by {furthest:g} at most")
        best = min((result.measured, name) for name, result in results.items() if name not in NAMED)
        for name in NAMED:
            print(f"{best[1]} takes {100 * (1 - best[0] / results[name].measured):.1f} % less than {name}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    try:
        mp.spawn(worker, (port, OPTIONS.rounds, OPTIONS.scale), nprocs=RANKS)
    finally:
        shutil.rmtree(FOLDER)
