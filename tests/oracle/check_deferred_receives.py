"""Runs programs with transfers from sluice in torch on two Gloo ranks, with and without --defer-recv, and
compares gradients with a single process. --check must reject the programs that torch itself defers
wherever torch computes wrong gradients.

    python check_deferred_receives.py PATH_OF_SLUICE DEFERRED_FOLDER"""

import os
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.pipelining import PipelineStage, schedules

RANKS, STAGES, MICROBATCHES, WIDTH = 2, 4, 4, 16
MAPS = {"loop": [0, 1, 0, 1], "v": [0, 1, 1, 0]}
NAMES = {"Interleaved1F1B": "loop", "LoopedBFS": "loop", "InterleavedZeroBubble": "loop", "ZBVZeroBubble": "v",
         "DualPipeV": "v"}
LARGEST_DIFFERENCE = 1e-5  # relative to the largest gradient of a stage


def modules():
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(STAGES)]


def batch():
    torch.manual_seed(1)
    return torch.randn(2 * MICROBATCHES, WIDTH), torch.randn(2 * MICROBATCHES, WIDTH)


def gradients(module):
    return torch.cat([parameter.grad.flatten() for parameter in module.parameters()])


def whole_gradients():
    parts, (x, y) = modules(), batch()
    for inputs, target in zip(x.chunk(MICROBATCHES), y.chunk(MICROBATCHES)):
        (nn.functional.mse_loss(nn.Sequential(*parts)(inputs), target) / MICROBATCHES).backward()
    return [gradients(part) for part in parts]


def run_rank(rank, folder, programs, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    expected, (x, y) = whole_gradients(), batch()
    for name, path, placement in programs:
        own = [stage for stage in range(STAGES) if MAPS[placement][stage] == rank]
        parts = modules()
        stages = [PipelineStage(parts[stage], stage, STAGES, torch.device("cpu")) for stage in own]
        schedule = schedules._PipelineScheduleRuntime(stages, MICROBATCHES, loss_fn=nn.functional.mse_loss)
        schedule._load_csv(path, format="compute_comms")
        schedule.step(*((x,) if 0 in own else ()), **({"target": y} if STAGES - 1 in own else {}))
        worst = max(float((gradients(parts[stage]) - expected[stage]).abs().max() / expected[stage].abs().max())
                    for stage in own)
        results.put((name, worst))
    dist.destroy_process_group()


def main(sluice, deferred):
    with tempfile.TemporaryDirectory() as folder:
        programs, accepted = [], {}
        for name, placement in NAMES.items():
            for option in ([], ["--defer-recv"]):
                path = os.path.join(folder, name + "".join(option) + ".csv")
                subprocess.run([sluice, "schedule", "--name", name, "--pp", str(RANKS), "--stages-per-rank", "2",
                                "--microbatches", str(MICROBATCHES), "--lower", "--shard-parameters",
                                "--reduce-gradients", *option, "--out", path], check=True)
                programs.append((" ".join([name, *option]), path, placement))
        for file in sorted(os.listdir(deferred)):
            if file.endswith(".csv"):
                programs.append((file, os.path.join(deferred, file), NAMES[file.split("_")[0]]))
        for name, path, placement in programs:
            check = subprocess.run([sluice, "schedule", "--csv", path, "--stage-to-rank", placement, "--check", "--json"],
                                   capture_output=True, text=True)
            accepted[name] = '"gloo":{"ok":true' in check.stdout.replace(" ", "")
        context = mp.get_context("spawn")
        results = context.Queue()
        ranks = [context.Process(target=run_rank, args=(rank, folder, programs, results)) for rank in range(RANKS)]
        for process in ranks:
            process.start()
        worst = {}
        for _ in range(RANKS * len(programs)):
            name, difference = results.get(timeout=300)
            worst[name] = max(difference, worst.get(name, 0))
        for process in ranks:
            process.join()
    failed = 0
    for name, difference in worst.items():
        is_right = difference < LARGEST_DIFFERENCE
        failed += is_right != accepted[name]
        print(f"{name}: largest difference {difference:.2g}, {'accepted' if accepted[name] else 'refused'}"
              f"{'' if is_right == accepted[name] else '  WRONG'}")
    own = [name for name in worst if not name.endswith(".csv")]
    return failed + sum(not accepted[name] for name in own)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) != 0)
