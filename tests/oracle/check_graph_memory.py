#!/usr/bin/env python3
"""Compares predicted and measured memory of exported graphs. For every rank, the peak predicted by `sluice
plan` must be within 5 % of the peak measured by `sluice train`. Runs eight models with large activations,
each whole and on two ranks.

usage: check_graph_memory.py --sluice build/bin/sluice --work DIR [NAME ...]"""
import argparse
import dataclasses
import itertools
import json
import pathlib
import shutil
import subprocess
import sys

import torch
import transformers as tf

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "graph"))

import make_archives  # noqa: E402

TOLERANCE = 0.05
# These are also trained in mixed precision. T5's attention mask has a gradient.
MIXED = ["t5"]
# Scratch memory of convolutions depends on the algorithm, which LibTorch chooses by processor.
TOLERANCES = {"unet": 0.07}
ROWS, MICROBATCHES, LENGTH = 2, 4, 128
WIDTHS = dict(vocab_size=512, hidden_size=128, intermediate_size=352, num_hidden_layers=4, num_attention_heads=4,
              max_position_embeddings=256)
GROUPED = dict(WIDTHS, num_key_value_heads=2)
DROPOUT = dict(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
PICTURES = dict(hidden_size=128, intermediate_size=352, num_hidden_layers=4, num_attention_heads=4, image_size=32,
                patch_size=4, num_labels=10, hidden_dropout_prob=0.1)
WIDE_UNET = "import unet\nunet.CHANNELS = 32\nunet.SIDE = 32\nmake = unet.make\n"

Model = make_archives.Model
MODELS = {
    "llama": Model(tf.LlamaForCausalLM, tf.LlamaConfig(**GROUPED)),
    "gpt2": Model(tf.GPT2LMHeadModel, tf.GPT2Config(vocab_size=512, n_embd=128, n_layer=4, n_head=4, n_positions=256)),
    "t5": Model(tf.T5ForConditionalGeneration,
                tf.T5Config(vocab_size=512, d_model=128, d_kv=32, d_ff=352, num_layers=3, num_heads=4,
                            decoder_start_token_id=0), ("--loss",)),
    "bert": Model(tf.BertForMaskedLM, tf.BertConfig(**WIDTHS, **DROPOUT), ("--loss", "--input", "attention_mask")),
    "vit": Model(tf.ViTForImageClassification, tf.ViTConfig(**PICTURES), ("--loss",)),
    "mamba2": Model(tf.Mamba2ForCausalLM,
                    tf.Mamba2Config(vocab_size=512, hidden_size=128, num_hidden_layers=3, state_size=16, num_heads=8,
                                    head_dim=32, n_groups=2, chunk_size=32, expand=2)),
    "qwen3_moe": Model(tf.Qwen3MoeForCausalLM,
                       tf.Qwen3MoeConfig(head_dim=32, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=96,
                                         **GROUPED), ("--weights",)),
    "unet": Model(None, None, (), "wide_unet:make"),
}


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {result.returncode}: {result.stderr.strip()}")
    return result.stdout


def prepare(name, folder):
    """Exports the model, writes rows, and returns the options of a run."""
    model = dataclasses.replace(MODELS[name], options=(*MODELS[name].options, "--no-check"))
    if not model.factory:
        make_archives.save_model(model, folder / name)
    make_archives.export(name, model, folder)
    draw, generator = make_archives.batches(name, model, folder), torch.Generator().manual_seed(1)
    rows = []
    for _ in range(MICROBATCHES):
        batch = draw({"rows": ROWS, **({} if model.factory or name == "vit" else {"length": LENGTH})}, generator)
        rows += [{key: value[i].tolist() for key, value in batch.items()} for i in range(ROWS)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "run.toml").write_text("")
    options = [f"--model.graph={folder / name}.pt2", f'--data.files=["{folder / "rows.jsonl"}"]', "--training.steps=2",
               f"--training.microbatch_size={ROWS}", f"--training.local_batch_size={ROWS * MICROBATCHES}",
               "--metrics.report=false"]
    if not model.factory and "--weights" not in model.options:
        options.append(f"--model.path={folder / name}")
    if "input_ids" in rows[0]:
        options.append(f"--training.seq_len={LENGTH}")
    return options


def ratios(sluice, folder, options):
    """Returns measured / predicted for every rank."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    memory = json.loads(run(sluice, "plan", folder / "run.toml", *options, "--json"))["memory"]
    run(sluice, "train", folder / "run.toml", *options, f"--metrics.folder={out}", f"--checkpoint.folder={out}/checkpoint")
    lines = [json.loads(line)["memory_bytes"] for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [max(line[rank] for line in lines) / of["total_bytes"] for rank, of in enumerate(memory)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sluice", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    failed = 0
    for name in arguments.names or MODELS:
        folder = arguments.work.resolve() / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "wide_unet.py").write_text(WIDE_UNET)
        sys.path.insert(0, str(folder))
        options = prepare(name, folder)
        for ranks, precision in itertools.product((1, 2), ("none", "bfloat16") if name in MIXED else ("none",)):
            more = [f"--parallelism.pipeline_parallel_degree={ranks}", f"--training.mixed_precision={precision}"]
            found = ratios(arguments.sluice.resolve(), folder, [*options, *more])
            is_far = any(abs(ratio - 1) > TOLERANCES.get(name, TOLERANCE) for ratio in found)
            failed += is_far
            print(f"{name}, {ranks} rank{'s' if ranks > 1 else ''}, mixed precision {precision}: measured / predicted "
                  f"{', '.join(f'{ratio:.3f}' for ratio in found)}{': too far' if is_far else ''}", flush=True)
        shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
