"""A server process for one rank of torch.distributed.pipelining. It reads one command per line and answers
with one line of JSON. `run N` trains N steps from the directory's weights with a new optimizer. It ends at
the end of its input."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import get_schedule_class

from torch_comparison.workload import (
    BETAS, EPS, LR, MAX_NORM, SIZES, WEIGHT_DECAY, layers_of_stage, load_part, loss_of, make_part, read_rows,
    stages_of_rank, whole_model_on_meta)


class Busy:
    """Seconds spent in the wrapped calls, excluding nested wrapped calls."""

    def __init__(self):
        self.seconds, self.depth = 0.0, 0

    def wrap(self, call):
        def timed(*args, **kwargs):
            started, self.depth = time.perf_counter(), self.depth + 1
            try:
                return call(*args, **kwargs)
            finally:
                self.depth -= 1
                if self.depth == 0:
                    self.seconds += time.perf_counter() - started
        return timed


class Rank:
    def __init__(self, folder, size, schedule, microbatches, compiled, rank, ranks):
        self.folder, self.microbatches, self.rank = folder, microbatches, rank
        indices = stages_of_rank(schedule, rank, ranks)
        num_stages = len(indices) * ranks
        whole = whole_model_on_meta(size)
        self.parts = [make_part(whole, size, layers_of_stage(size.layers, index, num_stages), index == 0,
                                index == num_stages - 1) for index in indices]
        del whole
        self.parameters = [p for part in self.parts for p in part.parameters()]
        self.busy = Busy()
        stages = [PipelineStage(torch.compile(part) if compiled else part, index, num_stages, torch.device("cpu"))
                  for part, index in zip(self.parts, indices)]
        for stage in stages:
            for name in ("forward_one_chunk", "backward_one_chunk", "backward_weight_one_chunk"):
                setattr(stage, name, self.busy.wrap(getattr(stage, name)))
        self.schedule = get_schedule_class(schedule)(
            stages[0] if len(stages) == 1 else stages, microbatches, loss_fn=self.busy.wrap(loss_of))
        self.has_first, self.has_last = 0 in indices, num_stages - 1 in indices
        self.rows, self.labels = read_rows(folder)

    def run(self, steps):
        """Returns losses, seconds and busy seconds of each step, and processor seconds of each step of this
        rank."""
        for part in self.parts:
            load_part(part, self.folder)
        for parameter in self.parameters:
            parameter.grad = None
        optimizer = torch.optim.AdamW(self.parameters, lr=LR, betas=BETAS, eps=EPS, weight_decay=WEIGHT_DECAY,
                                      fused=True)
        answer = {"losses": [], "seconds": [], "busy": [], "cpu": []}
        for step in range(steps):
            dist.barrier()
            started, cpu, self.busy.seconds = time.perf_counter(), time.process_time(), 0.0
            answer["losses"].append(self.step(step, optimizer))
            dist.barrier()
            answer["seconds"].append(time.perf_counter() - started)
            answer["cpu"].append(time.process_time() - cpu)
            answer["busy"].append(self.busy.seconds)
            if step == 0:
                answer["first_step_end"] = time.time()
        return answer

    def step(self, step, optimizer):
        own = slice(step * self.microbatches, (step + 1) * self.microbatches)
        losses = []
        inputs = (self.rows[own],) if self.has_first else ()
        if self.has_last:
            self.schedule.step(*inputs, target=self.labels[own], losses=losses, return_outputs=False)
        else:
            self.schedule.step(*inputs, return_outputs=False)
        gradients = [p.grad for p in self.parameters]
        squares = torch.stack(torch._foreach_norm(gradients)).square().sum()
        loss = torch.stack(losses).mean().detach() if losses else torch.zeros(())
        numbers = torch.stack([squares, loss])
        dist.all_reduce(numbers)
        torch._foreach_mul_(gradients, (MAX_NORM / (numbers[0].sqrt() + 1e-6)).clamp(max=1.0))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return numbers[1].item()


def main():
    folder, size, schedule, microbatches, compiled, rank, ranks, store = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # keeps output of libraries out of the answers
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, int(ranks)), rank=int(rank), world_size=int(ranks))
    this = Rank(folder, SIZES[size], schedule, int(microbatches), compiled == "compiled", int(rank), int(ranks))
    for line in sys.stdin:
        print(json.dumps(this.run(int(line.split()[1]))), file=answers, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
