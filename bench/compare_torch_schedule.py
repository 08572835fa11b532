#!/usr/bin/env python3
"""Compares the time that torch needs to construct pipeline schedules with sluice's whole plan of the same
schedules.

torch (torch.distributed.pipelining) builds the order and lowers it (UNSHARD / RESHARD, REDUCE_GRAD, SEND / RECV) when a
schedule object is made, on every rank, and proves nothing. sluice builds, lowers with the same passes, proves and
simulates (plan_bench does the same without starting a process).

    python bench/compare_torch_schedule.py [--sluice build/bin/sluice] [--all]

Without --all, sizes are smaller, because torch takes about a minute for the large ones.
"""

import argparse
import subprocess
import time

SMALL = [
    ("Interleaved1F1B", 16, 4, 128),
    ("ZBVZeroBubble", 32, 2, 128),
    ("DualPipeV", 32, 2, 128),
]
LARGE = [
    ("Interleaved1F1B", 64, 4, 1024),
    ("ZBVZeroBubble", 128, 2, 512),
    ("DualPipeV", 128, 2, 512),
]


def time_torch(name, ranks, stages_per_rank, microbatches):
    from torch.distributed.pipelining.schedules import get_schedule_class
    from torch.distributed.pipelining.stage import _PipelineStageBase

    class Stage(_PipelineStageBase):
        """Stands for a stage with a module. Construction reads only sizes."""

        def __init__(self, index):
            self.stage_index = index
            self.num_stages = ranks * stages_per_rank
            self.group_size = ranks
            self.group_rank = 0
            self.group = None
            self.submod = None
            self.stage_index_to_group_rank = {}

        def _create_grad_recv_info(self, *_):
            return ()

        def _prepare_forward_infra(self, *_):
            return ()

        def _prepare_backward_infra(self, *_):
            return None

    schedule_class = get_schedule_class(name)
    indices = [r * ranks for r in range(stages_per_rank)]
    if name in ("ZBVZeroBubble", "DualPipeV"):
        indices = [0, 2 * ranks - 1]
    started = time.perf_counter()
    schedule = schedule_class([Stage(i) for i in indices], microbatches, loss_fn=lambda *_: None)
    seconds = time.perf_counter() - started
    lowered = getattr(schedule, "pipeline_order_with_comms", {})
    return seconds, sum(len(row) for row in lowered.values())


def time_sluice(program, name, ranks, stages_per_rank, microbatches):
    command = [program, "schedule", "--name", name, "--pp", str(ranks),
               "--stages-per-rank", str(stages_per_rank), "--microbatches", str(microbatches),
               "--lower", "--shard-parameters", "--reduce-gradients", "--check", "--simulate", "--json"]
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sluice", default="build/bin/sluice", help="the program, built Release")
    parser.add_argument("--all", action="store_true", help="the large sizes")
    arguments = parser.parse_args()
    print(f"{'schedule':<18}{'ranks':>6}{'stages':>8}{'microbatches':>14}"
          f"{'instructions':>14}{'torch s':>9}{'sluice s':>10}")
    for name, ranks, stages_per_rank, microbatches in LARGE if arguments.all else SMALL:
        torch_seconds, instructions = time_torch(name, ranks, stages_per_rank, microbatches)
        sluice_seconds = time_sluice(arguments.sluice, name, ranks, stages_per_rank, microbatches)
        print(f"{name:<18}{ranks:>6}{ranks * stages_per_rank:>8}{microbatches:>14}"
              f"{instructions:>14}{torch_seconds:>9.2f}{sluice_seconds:>10.2f}")


if __name__ == "__main__":
    main()
