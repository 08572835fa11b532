#!/usr/bin/env python3
"""Exports a LLaVA with its vision tower and trains it from the command line. Rows have 0, 1 and 3 images.

On one rank, the losses of five steps equal PyTorch's to 1e-5. On 2 ranks, under ZBV with two stages each, and cut
inside the vision tower, losses and weights have the same bits as on one rank.

usage: check_images.py --sluice build/bin/sluice --work DIR"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import numpy
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS, ROWS, LENGTH = 5, 4, 32
IMAGES = (0, 1, 3, 1)  # images per row of a batch
LAYOUTS = {
    "2 ranks": ["--parallelism.pipeline_parallel_degree", "2"],
    "ZBV": ["--parallelism.pipeline_parallel_degree", "2", "--parallelism.pipeline_parallel_schedule", "ZBVZeroBubble"],
    "cut inside the vision tower": [
        "--parallelism.pipeline_parallel_degree", "2", "--parallelism.pipeline_parallel_cuts",
        '["model.vision_tower.encoder.layers.1"]'],
}


def run(*command, folder):
    done = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def make_rows(folder, llava):
    """Writes rows.jsonl and one .npy file per row. Returns the rows."""
    torch.manual_seed(1)
    (folder / "images").mkdir()
    rows = []
    with open(folder / "rows.jsonl", "w") as file:
        for number in range(STEPS * ROWS):
            images = IMAGES[number % ROWS]
            text = torch.randint(1, 250, (10 + number % 3,)).tolist()
            ids = text[:2] + [llava.IMAGE] * (llava.TOKENS * images) + text[2:]
            labels = [-100 if token == llava.IMAGE else token for token in ids]
            pixels = torch.randn(images, 3, llava.SIDE, llava.SIDE)
            numpy.save(folder / f"images/{number}.npy", pixels.numpy())
            file.write(json.dumps({"input_ids": ids, "labels": labels, "pixel_values": f"images/{number}.npy"}) + "\n")
            rows.append((ids, labels, pixels))
    return rows


def losses_of_torch(llava, rows):
    model = llava.model().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
    losses = []
    for step in range(STEPS):
        batch = rows[ROWS * step:ROWS * (step + 1)]
        ids = torch.tensor([ids + [0] * (LENGTH - len(ids)) for ids, _, _ in batch])
        labels = torch.tensor([labels + [-100] * (LENGTH - len(labels)) for _, labels, _ in batch])
        logits = model(input_ids=ids, pixel_values=torch.cat([pixels for _, _, pixels in batch])).logits
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sluice", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    sluice, work = arguments.sluice.resolve(), arguments.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(ROOT / "examples/llava", work)
    sys.path.insert(0, str(work))
    import llava

    run(sys.executable, ROOT / "tools/sluice_export.py", "--factory", "llava:make", "--out", "llava.pt2", folder=work)
    rows = make_rows(work, llava)

    def train(name, *more):
        run(sluice, "train", "run.toml", "--training.seq_len", LENGTH, "--data.shuffle", "false",
            "--training.local_batch_size", ROWS, "--optimizer.weight_decay", "0", "--optimizer.lr", "1e-2",
            "--optimizer.max_norm", "0", "--lr_scheduler.decay", "constant", "--parallelism.pipeline_parallel_degree", "1",
            "--parallelism.pipeline_parallel_schedule", "1F1B", "--checkpoint.folder", f"{name}/trained",
            "--metrics.folder", f"{name}/metrics", *more, folder=work)
        lines = (work / name / "metrics/metrics.jsonl").read_text().splitlines()
        return [row["loss"] for row in map(json.loads, lines) if "loss" in row]

    alone, expected = train("one rank"), losses_of_torch(llava, rows)
    print("sluice", alone, "torch", expected)
    if len(alone) != STEPS or max(abs(a - b) for a, b in zip(alone, expected)) > 1e-5:
        sys.exit("losses differ from PyTorch's")
    # some microbatches have no image
    single = train("one row a microbatch", "--training.microbatch_size", "1")
    if len(single) != STEPS or max(abs(a - b) for a, b in zip(single, expected)) > 1e-5:
        sys.exit(f"losses of microbatches without images differ from PyTorch's: {single}")
    first = work / f"one rank/trained/step-{STEPS:08}"
    for name, options in LAYOUTS.items():
        if train(name, *options) != alone:
            sys.exit(f"{name}: other losses than on one rank")
        said = run(sluice, "checkpoint", "diff", first, work / name / f"trained/step-{STEPS:08}", folder=work)
        if said.strip() != "equal":
            sys.exit(f"{name}: other weights than on one rank: {said}")
    print("the same bits on", ", ".join(LAYOUTS))


if __name__ == "__main__":
    main()
