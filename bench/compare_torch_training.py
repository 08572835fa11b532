#!/usr/bin/env python3
"""Trains one small Llama with sluice and with torch.distributed.pipelining, side by side.

Both start from the same Hugging Face directory, see the same tokens in the same microbatches, clip the
global gradient norm and step AdamW (fused), one thread a rank, on the CPU. Runs alternate, since machines
are noisy; what is printed is the median step of all runs of each, their ratio, and the largest
difference between the two loss curves, which shows that both did the same work.

    python bench/compare_torch_training.py [--sluice build/bin/sluice] [--ranks 2] [--schedules 1F1B,...]

Needs torch and transformers.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

STAGES_PER_RANK = {"GPipe": 1, "1F1B": 1, "Interleaved1F1B": 2, "LoopedBFS": 2,
                   "InterleavedZeroBubble": 2, "ZBVZeroBubble": 2, "DualPipeV": 2}
LR, BETAS, EPS, WEIGHT_DECAY, MAX_NORM = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0


def make_inputs(folder, arguments):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=arguments.vocab, hidden_size=arguments.hidden,
        intermediate_size=arguments.hidden * 8 // 3 // 16 * 16, num_hidden_layers=arguments.layers,
        num_attention_heads=max(1, arguments.hidden // 64), tie_word_embeddings=False,
        max_position_embeddings=arguments.seq_len)
    LlamaForCausalLM(config).save_pretrained(f"{folder}/model")
    rows = torch.randint(arguments.vocab, (arguments.batch * arguments.steps, arguments.seq_len))
    with open(f"{folder}/rows.jsonl", "w", encoding="utf-8") as file:
        for row in rows.tolist():
            file.write(json.dumps({"input_ids": row}) + "\n")


# ---- sluice ----

def train_sluice(folder, schedule, arguments):
    with open(f"{folder}/run.toml", "w", encoding="utf-8") as file:
        file.write(f"""
[model]
path = "model"
[data]
files = ["rows.jsonl"]
shuffle = false
[training]
steps = {arguments.steps}
local_batch_size = {arguments.batch}
microbatch_size = {arguments.microbatch}
seq_len = {arguments.seq_len}
[optimizer]
lr = {LR}
betas = {list(BETAS)}
eps = {EPS}
weight_decay = {WEIGHT_DECAY}
max_norm = {MAX_NORM}
[parallelism]
pipeline_parallel_degree = {arguments.ranks}
pipeline_parallel_schedule = "{schedule}"
pipeline_parallel_stages_per_rank = {STAGES_PER_RANK[schedule]}
[checkpoint]
folder = "out"
[metrics]
folder = "out"
""")
    started = time.perf_counter()
    subprocess.run([arguments.sluice, "train", f"{folder}/run.toml"], check=True, stdout=subprocess.DEVNULL)
    total = time.perf_counter() - started
    with open(f"{folder}/out/metrics.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file][-arguments.steps:]
    subprocess.run(["rm", "-r", f"{folder}/out"], check=True)
    return [line["loss"] for line in lines], [line["step_seconds"] for line in lines], total


# ---- torch.distributed.pipelining: one process a rank ----

def torch_stage(folder, stage, num_stages):
    import torch
    from transformers import LlamaForCausalLM

    whole = LlamaForCausalLM.from_pretrained(f"{folder}/model", attn_implementation="sdpa")
    layers = len(whole.model.layers)
    first = stage * layers // num_stages
    last = (stage + 1) * layers // num_stages

    class Part(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = whole.model.embed_tokens if stage == 0 else None
            self.layers = whole.model.layers[first:last]
            self.rotary = whole.model.rotary_emb
            self.norm = whole.model.norm if stage == num_stages - 1 else None
            self.head = whole.lm_head if stage == num_stages - 1 else None

        def forward(self, x):
            hidden = self.embed(x) if self.embed is not None else x
            positions = torch.arange(hidden.shape[1]).unsqueeze(0)
            rotary = self.rotary(hidden, positions)
            for layer in self.layers:
                hidden = layer(hidden, attention_mask=None, position_ids=positions,
                               position_embeddings=rotary)
            return self.head(self.norm(hidden)) if self.head is not None else hidden

    return Part()


def torch_rank(folder, schedule_name, rank, arguments):
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import get_schedule_class

    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", arguments.ranks),
                            rank=rank, world_size=arguments.ranks)
    per_rank = STAGES_PER_RANK[schedule_name]
    num_stages = per_rank * arguments.ranks
    indices = [rank + i * arguments.ranks for i in range(per_rank)]
    if schedule_name in ("ZBVZeroBubble", "DualPipeV"):
        indices = [rank, num_stages - 1 - rank]
    parts = [torch_stage(folder, index, num_stages) for index in indices]
    stages = [PipelineStage(part, index, num_stages, torch.device("cpu"))
              for part, index in zip(parts, indices)]

    def loss_of(logits, labels):
        return torch.nn.functional.cross_entropy(
            logits[:, :-1].reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1))

    kind = get_schedule_class(schedule_name)
    count = arguments.batch // arguments.microbatch
    schedule = kind(stages[0] if per_rank == 1 else stages, count, loss_fn=loss_of)
    parameters = [p for part in parts for p in part.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=LR, betas=BETAS, eps=EPS,
                                  weight_decay=WEIGHT_DECAY, fused=True)
    with open(f"{folder}/rows.jsonl", encoding="utf-8") as file:
        rows = torch.tensor([json.loads(line)["input_ids"] for line in file])
    curve, seconds = [], []
    for step in range(arguments.steps):
        started = time.perf_counter()
        batch = rows[step * arguments.batch:(step + 1) * arguments.batch]
        optimizer.zero_grad(set_to_none=True)
        losses = []
        inputs = (batch,) if 0 in indices else ()
        if num_stages - 1 in indices:
            schedule.step(*inputs, target=batch, losses=losses)
        else:
            schedule.step(*inputs)
        norms = torch._foreach_norm([p.grad for p in parameters])
        numbers = torch.stack([torch.stack(norms).square().sum(),
                               torch.stack(losses).mean().detach() if losses else torch.zeros(())])
        dist.all_reduce(numbers)
        scale = min(1.0, MAX_NORM / (numbers[0].sqrt().item() + 1e-6))
        torch._foreach_mul_([p.grad for p in parameters], scale)
        optimizer.step()
        curve.append(numbers[1].item())
        dist.barrier()
        seconds.append(time.perf_counter() - started)
    if rank == 0:
        print(json.dumps([curve, seconds]))
    dist.destroy_process_group()


def train_torch(folder, schedule, arguments):
    if os.path.exists(f"{folder}/store"):
        os.remove(f"{folder}/store")
    started = time.perf_counter()
    ranks = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--torch-rank", str(rank),
                               "--folder", folder, "--schedules", schedule],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
             for rank in range(arguments.ranks)]
    outputs = [rank.communicate() for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit("torch failed:\n" + "".join(err for _, err in outputs))
    curve, seconds = json.loads(outputs[0][0])
    return curve, seconds, time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sluice", default="build/bin/sluice", help="the program, built Release")
    parser.add_argument("--schedules", default="GPipe,1F1B,Interleaved1F1B,ZBVZeroBubble,DualPipeV")
    for name, default in [("ranks", 2), ("layers", 8), ("hidden", 256), ("vocab", 1024),
                          ("seq-len", 256), ("batch", 16), ("microbatch", 2), ("steps", 8),
                          ("repeat", 3)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--torch-rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.torch_rank is not None:
        torch_rank(arguments.folder, arguments.schedules, arguments.torch_rank, arguments)
        return

    with tempfile.TemporaryDirectory() as folder:
        make_inputs(folder, arguments)
        print(f"{'schedule':<24}{'torch ms/step':>14}{'sluice ms/step':>16}{'torch/sluice':>14}"
              f"{'torch s in all':>16}{'sluice s in all':>17}{'loss difference':>17}")
        for schedule in arguments.schedules.split(","):
            steps, totals, curves = {}, {}, {}
            for _ in range(arguments.repeat):
                for who, train in (("torch", train_torch), ("sluice", train_sluice)):
                    curves[who], seconds, total = train(folder, schedule, arguments)
                    steps.setdefault(who, []).extend(seconds[2:])  # without the warm-up
                    totals.setdefault(who, []).append(total)
            torch_ms, sluice_ms = (1e3 * statistics.median(steps[who]) for who in ("torch", "sluice"))
            difference = max(abs(a - b) for a, b in zip(curves["torch"], curves["sluice"]))
            print(f"{schedule:<24}{torch_ms:>14.0f}{sluice_ms:>16.0f}{torch_ms / sluice_ms:>14.2f}"
                  f"{min(totals['torch']):>16.1f}{min(totals['sluice']):>17.1f}{difference:>17.1e}",
                  flush=True)


if __name__ == "__main__":
    main()
