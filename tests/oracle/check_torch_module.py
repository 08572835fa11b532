"""Tests sluice.torch with torch's own runtime: check_torch_module.py SOURCE BUILD.

Two Gloo ranks run every schedule of sluice, and one found by search, from sluice's CSV. The losses must equal those
of one process without a pipeline. The test times the stages, searches with these costs, and loads the order found.
"""

import os
import shutil
import socket
import sys
import tempfile

SOURCE, BUILD = (os.path.abspath(path) for path in sys.argv[1:3])


def package():
    """Makes a folder with the Python package around the program of the build."""
    folder = tempfile.mkdtemp(prefix="sluice-module-")
    shutil.copytree(os.path.join(SOURCE, "python/sluice"), os.path.join(folder, "sluice"))
    os.makedirs(os.path.join(folder, "sluice/bin"))
    os.symlink(os.path.join(BUILD, "bin/sluice"), os.path.join(folder, "sluice/bin/sluice"))
    return folder


if __name__ == "__main__":
    FOLDER = package()
    os.environ["SLUICE_MODULE_FOLDER"] = FOLDER
sys.path.insert(0, os.environ["SLUICE_MODULE_FOLDER"])

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.pipelining import PipelineStage, schedules  # noqa: E402

import sluice  # noqa: E402
import sluice.torch  # noqa: E402

RANKS, MICROBATCHES, STEPS, WIDTH = 2, 6, 4, 48
DEPTHS = [1, 3, 2, 4]  # blocks of the four stages, which are uneven


def layers_of(part):
    torch.manual_seed(part)
    blocks = []
    for _ in range(DEPTHS[part]):
        blocks += [nn.Linear(WIDTH, WIDTH), nn.Tanh()]
    return nn.Sequential(*blocks)


def stage_modules(num_stages):
    parts = [layers_of(part) for part in range(4)]
    if num_stages == 4:
        return parts
    return [nn.Sequential(parts[0], parts[1]), nn.Sequential(parts[2], parts[3])]


def batch(step):
    generator = torch.Generator().manual_seed(1000 + step)
    return [torch.randn(MICROBATCHES, WIDTH, generator=generator) for _ in range(2)]


def loss_of(out, target):
    return nn.functional.mse_loss(out, target)


def one_process():
    model = nn.Sequential(*stage_modules(4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    losses = []
    for step in range(STEPS):
        x, y = batch(step)
        optimizer.zero_grad()
        total = 0.0
        for i in range(MICROBATCHES):
            loss = loss_of(model(x[i:i + 1]), y[i:i + 1])
            (loss / MICROBATCHES).backward()
            total += loss.item() / MICROBATCHES
        optimizer.step()
        losses.append(total)
    return losses


def stages_on(rank, stage_to_rank):
    modules = stage_modules(len(stage_to_rank))
    own = [stage for stage, of in enumerate(stage_to_rank) if of == rank]
    return [PipelineStage(modules[stage], stage, len(stage_to_rank), torch.device("cpu")) for stage in own]


def train(schedule, stages, losses):
    optimizer = torch.optim.SGD([p for stage in stages for p in stage.submod.parameters()], lr=0.2)
    first = any(stage.is_first for stage in stages)
    last = any(stage.is_last for stage in stages)
    for step in range(STEPS):
        x, y = batch(step)
        optimizer.zero_grad()
        of_step = []
        schedule.step(*((x,) if first else ()), **({"target": y, "losses": of_step} if last else {}))
        optimizer.step()
        if last:
            losses.append(torch.stack([loss.detach() for loss in of_step]).mean().item())


def check_losses(losses, expected, name):
    if losses:
        assert max(abs(a - b) for a, b in zip(losses, expected)) < 1e-6, (name, losses, expected)


def refused(call, part):
    try:
        call()
    except sluice.Error as error:
        assert part in str(error), str(error)
        return
    raise AssertionError("nothing was refused: " + part)


def worker(rank, port, expected):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    for name in sluice.schedules():
        order = sluice.schedule(name, RANKS, MICROBATCHES)
        stages = stages_on(rank, order.stage_to_rank)
        losses = []
        train(sluice.torch.load(stages, MICROBATCHES, loss_of, order), stages, losses)
        check_losses(losses, expected, name)
        if rank == 0:
            print("loaded", name)

    timers = []
    for name, ranks in (("Interleaved1F1B", [0, 1, 0, 1]), ("ZBVZeroBubble", [0, 1, 1, 0])):
        stages = stages_on(rank, ranks)
        schedule = schedules.get_schedule_class(name)(stages, MICROBATCHES, loss_fn=loss_of)
        untouched = set(vars(stages[0])), set(vars(schedule))
        timer = sluice.torch.StageTimer(schedule, warmup=1)
        losses = []
        with timer:
            train(schedule, stages, losses)
        check_losses(losses, expected, name)
        assert untouched[1] == set(vars(schedule)) and "forward_one_chunk" not in vars(stages[0])
        assert len(timer.steps) == STEPS - 1
        timers.append(timer)
    costs = sluice.torch.costs(*timers, latency=0.01)
    assert len(costs["stages"]) == 4 and costs["latency"] == 0.01
    for stage in costs["stages"]:
        assert all(stage[kind] > 0 for kind in ("F", "I", "B")) and stage["W"] > 0 and stage["kept_bytes"] > 0, stage
    # A linear layer keeps its input and tanh its output. With one row per microbatch that is WIDTH floats per
    # block.
    for stage, depth in zip(costs["stages"], DEPTHS):
        assert stage["kept_bytes"] >= 4 * WIDTH * depth, (stage, depth)

    found = sluice.search(costs, RANKS, MICROBATCHES, stages_per_rank=2)
    stages = stages_on(rank, found.schedule.stage_to_rank)
    schedule = sluice.torch.load(stages, MICROBATCHES, loss_of, found.csv)
    losses = []
    with sluice.torch.StageTimer(schedule) as timer:
        train(schedule, stages, losses)
    check_losses(losses, expected, "found")
    compared = sluice.torch.compare(timer, found.schedule, costs)
    assert compared.measured > 0 and len(compared.measured_busy) == RANKS
    assert abs(compared.expected - found.makespan) < 1e-6 * found.makespan
    if rank == 0:
        print("loaded a found order;", str(compared).splitlines()[0])

    order = sluice.schedule("Interleaved1F1B", RANKS, MICROBATCHES)
    refused(lambda: sluice.torch.load(stages_on(rank, [0, 1, 1, 0]), MICROBATCHES, loss_of, order), "the order has stages")
    refused(lambda: sluice.torch.load(stages_on(rank, [0, 1, 0, 1]), 5, loss_of, order), "the order has 6 microbatches, not 5; search with 5")
    wrong = sluice.read("0F0,0B0,0F1,0B1\n1B0,1F0,1F1,1B1\n")
    refused(lambda: sluice.torch.load(stages_on(rank, [0, 1]), 2, loss_of, wrong), "does not hold")
    refused(lambda: sluice.torch.costs(sluice.torch.StageTimer(schedule)), "no action was timed")
    refused(lambda: sluice.torch.load([], MICROBATCHES, loss_of, order), "no stage is given")
    refused(lambda: sluice.torch.StageTimer("1F1B").__enter__(), "'1F1B' is not a schedule of torch")
    refused(lambda: sluice.torch.save(os.path.join(SOURCE, "none/costs.json"), costs), "cannot write the costs")
    refused(lambda: sluice.torch.save(os.devnull, {"latency": {1}}), "a value cannot be written as JSON")
    free = {"F": 0, "I": 0, "W": 0, "B": 0, "comm": 0}
    refused(lambda: sluice.torch.compare(timer, found.schedule, free), "all costs are 0")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    torch.set_num_threads(1)
    try:
        mp.spawn(worker, (port, one_process()), nprocs=RANKS)
    finally:
        shutil.rmtree(FOLDER)
    print("torch runs what sluice makes, with the same losses")
