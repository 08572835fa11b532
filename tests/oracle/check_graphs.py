#!/usr/bin/env python3
"""Compares `sluice train` on archives of tools/sluice_export.py with Python: losses, weights, and equal bits
in every layout.

Trains every model for five steps on the batches of tests/graph/make_archives.py:
  - losses equal those of Python's exported program to a relative 1e-5: whole, on 2 ranks under 1F1B, on 2 ranks with
    2 stages each under ZBV, and cut inside a block;
  - losses, norms and weights have the same bytes in all these layouts, also with dropout;
  - the final weights equal Python's, and transformers loads those of its own models;
  - with --program, a forward and backward of all nodes and of groups of nodes have the bits of Python's.

usage: check_graphs.py --sluice build/bin/sluice --work DIR [--program build/bin/oracle_graph] [--wide [--part K/N]]
                       [NAME ...]"""
import argparse
import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys

import torch
from safetensors import safe_open
from safetensors.torch import load_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "graph"))

import make_archives  # noqa: E402

QUICK = ["llama", "gpt2", "t5", "vit", "mamba2", "unet"]
MORE = ["llama_loss", "bart", "bert", "gemma3", "qwen3_moe", "windows"]
TOLERANCE = 1e-5


class Failure(Exception):
    pass


def without_dropout(model):
    """Returns the model with every dropout probability set to 0."""
    if model.config is None:
        return dataclasses.replace(model, factory=model.factory + "_without_dropout")
    config = type(model.config).from_dict(model.config.to_dict())
    for key, value in config.to_dict().items():
        if ("drop" in key or key.endswith("pdrop")) and isinstance(value, float):
            setattr(config, key, 0.0)
    return dataclasses.replace(model, config=config)


def rows_of(batch):
    """Returns the rows of a batch as objects with the inputs' names as keys."""
    count = len(next(iter(batch.values())))
    return [{name: value[i].tolist() for name, value in batch.items()} for i in range(count)]


class Case:
    def __init__(self, name, sluice, work):
        self.name, self.sluice, self.folder = name, sluice, work / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        make_archives.MODELS = {**make_archives.MODELS, name: without_dropout(make_archives.model_of(name))}
        make_archives.make(name, self.folder)
        self.graph = self.folder / f"{name}.pt2"
        steps = load_file(self.folder / f"{name}.steps.safetensors")
        self.losses = steps["losses"].tolist()
        self.after = {key[len("after."):]: value for key, value in steps.items() if key.startswith("after.")}
        rows, self.microbatch = [], 0
        for step in range(make_archives.STEPS):
            for number in range(2):
                prefix = f"batch.{step}.{number}."
                batch = {key[len(prefix):]: value for key, value in steps.items() if key.startswith(prefix)}
                self.microbatch = len(next(iter(batch.values())))
                self.length = batch["input_ids"].shape[1] if "input_ids" in batch else 0
                rows += rows_of(batch)
        (self.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.config = self.folder / "run.toml"
        directory = self.folder / name
        model = make_archives.model_of(name)
        self.has_weights = bool(model.factory) or "--weights" in model.options
        dtype = "bfloat16" if name.endswith("bfloat16") else "float32"
        self.config.write_text(f"""
[model]
graph = "{self.graph}"
{"" if self.has_weights else f'path = "{directory}"'}
dtype = "{dtype}"
[data]
files = ["rows.jsonl"]
shuffle = false
[training]
steps = {make_archives.STEPS}
local_batch_size = {2 * self.microbatch}
microbatch_size = {self.microbatch}
{f"seq_len = {self.length}" if self.length else ""}
[optimizer]
lr = {make_archives.LEARNING_RATE}
betas = [0.9, 0.999]
weight_decay = 0.0
max_norm = 0.0
[metrics]
report = false
""")

    def run(self, *arguments):
        command = [str(self.sluice), *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise Failure(f"{' '.join(command)}: exit {result.returncode}: {result.stderr.strip()}")
        return result.stdout

    def train(self, label, *options):
        out = self.folder / label
        shutil.rmtree(out, ignore_errors=True)
        self.run("train", self.config, f"--metrics.folder={out}", f"--checkpoint.folder={out}/checkpoint", *options)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        step = out / "checkpoint" / f"step-{make_archives.STEPS:08d}"
        weights = {}
        for shard in step.glob("model*.safetensors"):
            with safe_open(shard, "pt") as file:
                weights.update({key: file.get_tensor(key) for key in file.keys()})
        return [(line["loss"], line["grad_norm"]) for line in lines], weights, step

    def layouts(self):
        """Returns label -> options of the layout."""
        found = json.loads(self.run("graph", "inspect", self.graph, "--json"))
        names = [layer["name"] for layer in found["layers"]]
        two = ["--parallelism.pipeline_parallel_degree=2"]
        yield "whole", ["--parallelism.pipeline_parallel_degree=1"]
        blocks = [layer["name"] for layer in found["layers"] if layer["role"] == "block"]
        middle = blocks[len(blocks) // 2]
        yield "1f1b", [*two, f"--parallelism.pipeline_parallel_split_points={json.dumps([middle])}"]
        if len(names) >= 4:
            cuts = [names[len(names) * k // 4 - 1] for k in (1, 2, 3)]
            yield "zbv", [*two, "--parallelism.pipeline_parallel_schedule=ZBVZeroBubble",
                          "--parallelism.partition_convention=neuronx",
                          f"--parallelism.pipeline_parallel_cuts={json.dumps(cuts)}"]
        inside = [module for layer in found["layers"] for module in layer["inside"] if layer["role"] == "block"]
        if inside:
            yield "inside", [*two, f"--parallelism.pipeline_parallel_cuts={json.dumps([inside[len(inside) // 2]])}"]
        yield "recomputed", [*two, f"--parallelism.pipeline_parallel_split_points={json.dumps([middle])}",
                             "--training.activation_checkpoint=full"]

    def check_program(self, program):
        """Runs tests/oracle/run_graph.cpp on the results of Python's program for one batch."""
        weights = "-" if self.has_weights else self.folder / self.name / "model.safetensors"
        command = [str(program.resolve()), str(self.graph), str(weights), str(self.folder / f"{self.name}.expected.safetensors")]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise Failure(f"{' '.join(command)}: exit {result.returncode}: {(result.stdout + result.stderr).strip()}")

    def check(self):
        first = None
        for label, options in self.layouts():
            lines, weights, step = self.train(label, *options)
            for number, ((loss, _), expected) in enumerate(zip(lines, self.losses, strict=True)):
                if not abs(loss - expected) <= TOLERANCE * max(1.0, abs(expected)):
                    raise Failure(f"{label}: loss of step {number + 1} is {loss}, in Python {expected}")
            if first is None:
                first = (label, lines, weights, step)
                continue
            if lines != first[1]:
                raise Failure(f"{label}: {lines} differ from those of {first[0]}: {first[1]}")
            if weights.keys() != first[2].keys():
                raise Failure(f"{label}: other tensors than those of {first[0]}: {sorted(weights.keys() ^ first[2].keys())}")
            different = [key for key in weights if not torch.equal(weights[key], first[2][key])]
            if different:
                raise Failure(f"{label}: {different[0]} differs from that of {first[0]}")
        self.check_weights(first[2])
        self.check_loaded(first[3], first[2])
        return max(abs(loss - expected) for (loss, _), expected in zip(first[1], self.losses))

    def check_weights(self, weights):
        """Compares weights. AdamW moves a weight by up to the learning rate per step, even if its gradient is
        only rounding noise."""
        found, elements, far = 0, 0, 0
        for key, value in self.after.items():
            if key not in weights:
                continue
            found += 1
            difference = (weights[key].float() - value.float()).abs()
            elements += difference.numel()
            far += (difference > 1e-5).sum().item()
            if not difference.max() <= 2 * make_archives.STEPS * make_archives.LEARNING_RATE:
                raise Failure(f"'{key}' differs by {difference.max()} after the last step")
        if far > 0.03 * elements:
            raise Failure(f"{far} of {elements} weights differ by more than 1e-5 after the last step")
        if found < len(self.after) * 0.8:
            raise Failure(f"only {found} of {len(self.after)} parameters are in the checkpoint")

    def check_loaded(self, step, weights):
        model = make_archives.model_of(self.name)
        if model.factory:
            return
        loaded, info = model.model_class.from_pretrained(step, output_loading_info=True)
        if info["missing_keys"] or info["unexpected_keys"] or info["mismatched_keys"]:
            raise Failure(f"transformers does not load the checkpoint: {info}")
        for key in self.different(loaded, weights):
            # Some classes initialize a tensor again when loading, even from their own files. So load the base
            # model too and compare.
            base = self.folder / self.name
            if key not in self.different(model.model_class.from_pretrained(base), load_file(base / "model.safetensors")):
                raise Failure(f"transformers loads another '{key}'")

    @staticmethod
    def different(loaded, weights):
        state = loaded.state_dict()
        return [key for key, value in weights.items()
                if key in state and not torch.equal(state[key].float(), value.float())]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sluice", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--program", type=pathlib.Path)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--part", default="1/1", help="every N-th model, from the K-th on")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = arguments.names or (MORE + list(make_archives.FAMILY_NAMES) if arguments.wide else QUICK)
    part, parts = map(int, arguments.part.split("/"))
    names = names[part - 1::parts]
    failed = 0
    for name in names:
        try:
            case = Case(name, arguments.sluice.resolve(), arguments.work)
            if arguments.program:
                case.check_program(arguments.program)
            print(f"{name}: {case.check():.1e}", flush=True)
            shutil.rmtree(case.folder)
        except (Failure, RuntimeError) as error:
            failed += 1
            print(f"check_graphs.py: {name}: {error}", flush=True)
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
