"""Measures the actions of torch.distributed.pipelining schedules, and runs orders that sluice found for them.

    with sluice.torch.StageTimer(schedule, warmup=2) as timer:       # in every rank
        for _ in range(10):
            schedule.step(x, target=y)
    costs = sluice.torch.costs(timer, latency=0.3)                   # the same dict in every rank
    found = sluice.search(costs, ranks=4, microbatches=32, stage_to_rank="v")
    schedule = sluice.torch.load(stages, 32, loss_fn, found.schedule)

Made for torch 2.13: it hooks methods of stages (such as `forward_one_chunk`) and calls `_load_csv`, which torch may
change. Times are in milliseconds.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.pipelining import schedules as _schedules

from . import Error, Schedule, _frame, _json_text, _map_of, picture, read, simulate
from . import verify as _verify

__all__ = ["Comparison", "StageTimer", "compare", "costs", "load", "save", "verify"]


def _stages_of(schedule: Any) -> list[Any]:
    stages = getattr(schedule, "_stages", None)
    if stages is None and not hasattr(schedule, "_stage"):
        raise Error(f"{schedule!r:.60} is not a schedule of torch; schedule; give one of torch.distributed.pipelining", 2)
    return list(stages) if stages is not None else [schedule._stage]


def _lower_quartile(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 4]


class _Clock:
    """Measures milliseconds of calls. On a CPU it uses the thread's processor time, so that a busy machine
    matters less. On a GPU it uses the stream's time, read when the timer ends."""

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"

    def now(self) -> Any:
        if not self.on_gpu:
            return time.thread_time()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end) if self.on_gpu else 1e3 * (end - begin))


class StageTimer:
    """Times the steps of a schedule and the F, I, W and B of its stages on this rank, except for the first
    `warmup` steps.

    In torch, a whole backward counts as B, a split one as I and W. The loss counts to F of the last stage. The last warm-up
    step also counts the bytes that autograd keeps per microbatch (`kept_bytes`). Without a warm-up they are not counted."""

    def __init__(self, schedule: Any, warmup: int = 1) -> None:
        self.schedule = schedule
        self.warmup = warmup
        self.steps: list[float] = []  # milliseconds of wall-clock time
        self.seen: dict[tuple[str, int], list[float]] = {}  # (kind, stage) -> milliseconds of each
        self.kept: dict[int, int] = {}  # stage -> bytes per microbatch
        self._begun = 0
        self._pending: list[Any] = []
        self._old: list[tuple[Any, str]] = []

    def __enter__(self) -> StageTimer:
        for stage in _stages_of(self.schedule):
            clock = _Clock(stage.device)
            index = stage.stage_index
            self._hook(stage, "forward_one_chunk", clock, index, lambda a, k: "F", keeps=True)
            self._hook(stage, "backward_one_chunk", clock, index, self._kind_of_backward)
            self._hook(stage, "backward_weight_one_chunk", clock, index, lambda a, k: "W")
        clock = _Clock(_stages_of(self.schedule)[0].device)
        old_loss = self.schedule._maybe_compute_loss

        def loss(stage: Any, *arguments: Any, **named: Any) -> Any:
            if not stage.is_last:
                return old_loss(stage, *arguments, **named)
            return self._timed(clock, "loss", stage.stage_index, old_loss, (stage, *arguments), named)

        self._replace(self.schedule, "_maybe_compute_loss", loss)
        old_step = self.schedule.step

        def step(*arguments: Any, **named: Any) -> Any:
            self._begun += 1
            began = time.perf_counter()
            result = old_step(*arguments, **named)
            if clock.on_gpu:
                torch.cuda.synchronize()
            if self._begun > self.warmup:
                self.steps.append(1e3 * (time.perf_counter() - began))
            return result

        self._replace(self.schedule, "step", step)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for owner, name in reversed(self._old):
            delattr(owner, name)
        self._old.clear()
        for key, clock, begin, end in self._pending:
            self.seen.setdefault(key, []).append(clock.between(begin, end))
        self._pending.clear()

    @staticmethod
    def _kind_of_backward(arguments: Sequence[Any], named: dict[str, Any]) -> str:
        full = named.get("full_backward", arguments[2] if len(arguments) > 2 else True)
        return "B" if full else "I"

    def _replace(self, owner: Any, name: str, function: Callable[..., Any]) -> None:
        setattr(owner, name, function)  # an attribute of the object hides that of its class
        self._old.append((owner, name))

    def _timed(self, clock: _Clock, kind: str, stage: int, function: Callable[..., Any], arguments: Sequence[Any],
               named: dict[str, Any]) -> Any:
        begin = clock.now()
        result = function(*arguments, **named)
        if self._begun > self.warmup:
            self._pending.append(((kind, stage), clock, begin, clock.now()))
        return result

    def _hook(self, stage: Any, name: str, clock: _Clock, index: int, kind_of: Callable[..., str],
              keeps: bool = False) -> None:
        old = getattr(stage, name)

        def hooked(*arguments: Any, **named: Any) -> Any:
            if keeps and 0 < self._begun == self.warmup and index not in self.kept:
                return self._counted(stage, index, old, arguments, named)
            return self._timed(clock, kind_of(arguments, named), index, old, arguments, named)

        self._replace(stage, name, hooked)

    def _counted(self, stage: Any, index: int, function: Callable[..., Any], arguments: Sequence[Any],
                 named: dict[str, Any]) -> Any:
        own = {parameter.untyped_storage().data_ptr() for parameter in stage.submod.parameters()}
        kept: dict[int, int] = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = function(*arguments, **named)
        self.kept[index] = sum(kept.values())
        return result

    def quartiles(self) -> dict[tuple[str, int], float]:
        """Returns {(kind, stage): milliseconds}: the lower quartile of each, with "loss" as a kind."""
        return {key: _lower_quartile(values) for key, values in self.seen.items()}


def _gathered(value: Any, group: dist.ProcessGroup | None) -> list[Any]:
    if not dist.is_initialized() or dist.get_world_size(group) == 1:
        return [value]
    values: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(values, value, group=group)
    return values


def costs(*timers: StageTimer, latency: float = 0.0, group: dist.ProcessGroup | None = None) -> dict[str, Any]:
    """Returns the costs of the stages of all ranks, in the form of `--costs`. Collective over the group.

    Takes several timers, for example of schedules with split and with whole backwards. If only B was measured, I is B and W
    is 0. If only I and W were measured, B is their sum. Raises sluice.Error if a stage was not measured at all."""
    times: dict[tuple[str, int], float] = {}
    kept: dict[int, int] = {}
    for timer in timers:
        for key, value in timer.quartiles().items():
            times[key] = min(value, times.get(key, value))
        kept.update(timer.kept)
    for other_times, other_kept in _gathered((times, kept), group):
        times.update(other_times)
        kept.update(other_kept)
    if not times:
        raise Error("no action was timed; run more steps than the warm-up has", 2)
    stages = []
    for stage in range(1 + max(stage for _, stage in times)):
        of = {kind: times[kind, stage] for kind in ("F", "I", "W", "B") if (kind, stage) in times}
        if "F" not in of or not ("B" in of or "I" in of):
            raise Error(f"stage {stage} was not timed in forward and backward; time all ranks, and the same schedule", 2)
        of["F"] += times.get(("loss", stage), 0)
        if "I" not in of:
            of["I"] = of["B"]
        of.setdefault("W", 0.0)
        of.setdefault("B", of["I"] + of["W"])
        if stage in kept:
            of["kept_bytes"] = kept[stage]
        stages.append({kind: round(value, 6) for kind, value in of.items()})
    return {"latency": latency, "stages": stages}


def save(path: str | os.PathLike[str], costs: dict[str, Any]) -> None:
    """Writes costs as a file for `--costs`."""
    text = json.dumps(json.loads(_json_text(costs, "costs")), indent=1) + "\n"
    try:
        with open(path, "w") as file:
            file.write(text)
    except (OSError, TypeError, ValueError) as failed:
        raise Error(f"cannot write the costs: {failed}; {path}; name a file in a folder that can be written", 3) from None


def _order_of(order: Schedule | str | os.PathLike[str]) -> Schedule:
    return order if isinstance(order, Schedule) else read(order)


def verify(order: Schedule | str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Returns what torch would run wrong over Gloo or NCCL, as a list like that of sluice.verify().

    order: a sluice.Schedule, a CSV file or its text."""
    return _verify(_order_of(order), "torch")


def _holds_transfers(order: Schedule) -> bool:
    return any("SEND_" in action or "RECV_" in action for row in order.rows for action in row)


def load(stages: Sequence[Any], num_microbatches: int, loss_fn: Callable[..., Any] | None,
         order: Schedule | str | os.PathLike[str], **options: Any) -> Any:
    """Returns a torch schedule that runs an order: a sluice.Schedule, a CSV file or its text. The order is
    proven first.

    stages: this rank's stages in ascending order of their index, as for every schedule with several stages. options: further
    arguments of torch's schedules, such as scale_grads. torch runs an order with transfers as it is, and adds transfers to
    an order without. Raises sluice.Error if torch would run the order wrong, or if the order has other stages on this rank."""
    order = _order_of(order)
    if not stages:
        raise Error("no stage is given; stages; give the stages of this rank", 2)
    wrong = verify(order)
    if wrong:
        raise Error(f"the order does not hold: {wrong[0]['reason']}; rank {wrong[0]['rank']}, {wrong[0]['action']}", 3)
    rank = stages[0].group_rank
    own = sorted(stage.stage_index for stage in stages)
    planned = [stage for stage, of in enumerate(_map_of(order.rows)) if of == rank]
    if own != planned:
        raise Error(f"the order has stages {planned} on rank {rank}, not {own}; place the stages like this, or search with "
                    f"stage_to_rank", 2)
    microbatches = 1 + max(int(number) for row in order.rows for action in row
                           for number in re.findall(r"\dF(\d+)", action))
    if microbatches != num_microbatches:
        raise Error(f"the order has {microbatches} microbatches, not {num_microbatches}; search with {num_microbatches}", 2)
    form = "compute_comms" if _holds_transfers(order) else "compute_only"
    lacking = [stage for stage in own if f"{stage}REDUCE_GRAD" not in order.rows[rank]]
    if form == "compute_comms" and lacking:
        raise Error(f"the order has transfers and no {lacking[0]}REDUCE_GRAD, so torch would not scale the gradients of "
                    f"stage {lacking[0]}; write it with --lower --reduce-gradients", 2)
    schedule = _schedules._PipelineScheduleRuntime(stages, num_microbatches, loss_fn=loss_fn, **options)
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        path = os.path.join(folder, "order.csv")
        with open(path, "w", newline="") as file:
            file.write(order.csv)
        schedule._load_csv(path, format=form)
        schedule._dump_csv(path, format="compute_comms")
        lowered = read(path, order.stage_to_rank)
    wrong = verify(lowered)
    if wrong:
        raise Error(f"the transfers that torch adds do not hold: {wrong[0]['reason']}; rank {wrong[0]['rank']}, "
                    f"{wrong[0]['action']}; load it without defer_pp_recv", 3)
    return schedule


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The predicted step beside the measured one, in milliseconds, and the time of each rank in actions."""

    expected: float
    measured: float
    expected_busy: list[float]
    measured_busy: list[float]
    svg: str = ""
    page: str = dataclasses.field(default="", repr=False)

    def __str__(self) -> str:
        lines = [f"step: {self.expected:.1f} expected, {self.measured:.1f} measured "
                 f"({self.measured / self.expected:.2f})", "rank  expected busy  measured busy"]
        for rank, (expected, measured) in enumerate(zip(self.expected_busy, self.measured_busy)):
            lines.append(f"{rank:4}  {expected:13.1f}  {measured:13.1f}")
        return "\n".join(lines)

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str | None:
        return _frame(self.page) if self.page else None


def compare(timer: StageTimer, order: Schedule | str | os.PathLike[str], costs: dict[str, Any],
            group: dist.ProcessGroup | None = None) -> Comparison:
    """Compares the steps that a timer measured with the prediction for the order under the costs. Collective
    over the group.

    A step lasts as long as its slowest rank. The lower quartile of the steps counts."""
    order = _order_of(order)
    expected = simulate(order, costs)
    busy = sum(sum(values) for values in timer.seen.values()) / max(1, len(timer.steps))
    every = _gathered((timer.steps, busy), group)
    if not all(steps for steps, _ in every):
        raise Error("no step was timed; run more steps than the warm-up has", 2)
    if expected.makespan == 0:
        raise Error("all costs are 0; costs; time the stages", 2)
    steps = [max(step) for step in zip(*(steps for steps, _ in every))]
    return Comparison(expected.makespan, _lower_quartile(steps), expected.values["busy_per_rank"],
                      [busy for _, busy in every], picture(order, costs), picture(order, costs, "html"))
