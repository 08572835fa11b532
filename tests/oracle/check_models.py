#!/usr/bin/env python3
"""Compares sluice's models with transformers: answers, training from the command line, and the files that
training writes.

usage: check_models.py --compare build/bin/oracle_compare --sluice build/bin/sluice
                       [--wide] [--fuzz N] [--seed S] [--families a,b] [--keep DIR]

A short run takes the first variant of every family. It trains all of them in slices on two ranks that share layers,
and some also on several stages. --wide takes all variants. It trains every family with 1, 2 and 4 stages, from
shards, and in bfloat16. A family that sluice does not support is listed and counts as a failure.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = str(pathlib.Path(__file__).resolve().parent)
sys.path[:] = [p for p in sys.path if p != HERE] + [HERE]  # a script of this folder has the name of a package

import torch
import transformers
from safetensors.torch import load_file

import models
from families import FAMILIES, LENGTH, WHOLES

LOSS_TOLERANCE = 5e-5
SLICED_LOSS_TOLERANCE = 2e-5
# Families whose query and key norms span all heads. sluice rejects them in slices.
UNDIVIDED = ("olmo2", "olmoe")
# Families that a short run trains from the command line. For all families it compares answers and training in
# C++.
SHORT_TRAINED = ("gpt2", "gemma2", "mixtral", "gpt_neox", "qwen2_vl")


class Failures:
    def __init__(self):
        self.count = 0

    def add(self, name, what):
        self.count += 1
        print(f"DIFFERS {name}: {what}", flush=True)

    def check(self, holds, name, what):
        if not holds:
            self.add(name, what)


def run(command, **kwargs):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **kwargs)


def write_rows(path, batch):
    with open(path, "w") as out:
        for ids, labels in zip(batch["input_ids"].tolist(), batch["labels"].tolist()):
            out.write(json.dumps({"input_ids": ids, "labels": labels}) + "\n")


def write_config(folder, model, stages, microbatch_size=1, schedule="1F1B", dtype="float32"):
    """Writes a configuration that runs the steps of models.curve()."""
    path = folder / "run.toml"
    path.write_text(f"""
[model]
path = "{model}"
dtype = "{dtype}"
[data]
files = ["{folder}/rows.jsonl"]
shuffle = false
[training]
steps = {models.STEPS}
local_batch_size = {models.ROWS}
microbatch_size = {microbatch_size}
seq_len = {LENGTH}
[optimizer]
lr = {models.OPTIMIZER["lr"]}
betas = {list(models.OPTIMIZER["betas"])}
eps = {models.OPTIMIZER["eps"]}
weight_decay = {models.OPTIMIZER["weight_decay"]}
max_norm = {models.MAX_NORM}
[parallelism]
pipeline_parallel_degree = {stages}
pipeline_parallel_schedule = "{schedule}"
[checkpoint]
folder = "{folder}/checkpoint"
[metrics]
folder = "{folder}"
""")
    return path


def last_checkpoint(folder):
    return sorted((folder / "checkpoint").glob("step-*"))[-1]


class TrainedRun:
    """`sluice train` on the plain batch of the model in `directory`."""

    def __init__(self, sluice, folder, directory, stages, source=None, dtype="float32", overrides=()):
        self.sluice, self.folder = sluice, folder
        folder.mkdir(parents=True)
        reference = load_file(directory / "reference.safetensors")
        self.batch = {name: reference[f"plain/{name}"] for name in ("input_ids", "labels")}
        self.curve = reference["plain/curve/losses"].tolist()
        write_rows(folder / "rows.jsonl", self.batch)
        config = json.loads((directory / "config.json").read_text())
        # An auxiliary loss is a mean over microbatches, not over the rows of the step.
        size = models.ROWS if config.get("output_router_logits") else 1
        self.config = write_config(folder, source or directory, stages, microbatch_size=size, dtype=dtype)
        self.done = run([sluice, "train", self.config, *overrides])

    @property
    def problem(self):
        return None if self.done.returncode == 0 else f"train exits {self.done.returncode}: {self.done.stderr.strip()}"

    def losses(self):
        return [json.loads(line)["loss"] for line in (self.folder / "metrics.jsonl").read_text().splitlines()]

    def checkpoint(self):
        return last_checkpoint(self.folder)

    def weights(self):
        merged = {}
        for file in self.checkpoint().glob("model*.safetensors"):
            merged.update(load_file(file))
        return merged


def load_whole(path, name, failures):
    """Loads the directory with transformers. Reports missing and unexpected tensors."""
    config = transformers.AutoConfig.from_pretrained(path)
    model, info = models.auto_class(config).from_pretrained(
        path, output_loading_info=True, dtype="auto", attn_implementation="eager" if models.is_plain(config) else "sdpa")
    models.use_plain_experts(model)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        failures.check(not info[kind], name, f"{kind} in what train wrote: {sorted(info[kind])[:4]}")
    return model.eval()


def check_written(trained, name, failures, dtype=torch.float32):
    path = trained.checkpoint()
    model = load_whole(path, name, failures)
    types = {p.dtype for p in model.parameters()}
    failures.check(types == {dtype}, name, f"types of the parameters are {types}, not {dtype}")
    asked = run([trained.sluice, "eval", trained.config, "--checkpoint", path, "--json"])
    if asked.returncode != 0:
        failures.add(name, f"eval exits {asked.returncode}: {asked.stderr.strip()}")
        return
    config = model.config
    if getattr(config.get_text_config(), "output_router_logits", False):
        config.get_text_config().output_router_logits = False
    with torch.no_grad():
        theirs = model(**trained.batch).loss.item()
    ours = json.loads(asked.stdout)["loss"]
    bound = LOSS_TOLERANCE if dtype == torch.float32 else 0.01
    failures.check(abs(ours - theirs) <= bound * max(1, abs(theirs)), name,
                   f"eval says {ours}, transformers {theirs} of what train wrote")
    with torch.no_grad():
        made = model.generate(trained.batch["input_ids"][:, :5], max_new_tokens=4, do_sample=False, min_new_tokens=4)
    failures.check(made.shape == (models.ROWS, 9), name, f"generate gives {tuple(made.shape)}")


def check_kept(source, written, name, failures):
    """Checks that tensors outside the language model are copied byte for byte."""
    reference = load_file(source / "reference.safetensors")
    before, after = load_file(source / "model.safetensors"), {}
    for file in written.glob("*.safetensors"):
        after.update(load_file(file))
    failures.check(set(before) == set(after), name, f"other names: {sorted(set(before) ^ set(after))[:4]}")
    kept = [key for key in before if not reference[f"plain/gradient/{key}"].any()]
    failures.check(len(kept) > 2, name, "nothing is kept")
    for key in kept:
        failures.check(key in after and torch.equal(before[key], after[key]), name, f"'{key}' is not as it was")


def check_training(sluice, directory, work, stages_list, failures):
    """Checks the loss curves for these numbers of stages, that the bits are equal, and the files of the last
    run."""
    weights = None
    layers = transformers.AutoConfig.from_pretrained(directory).get_text_config().num_hidden_layers
    for stages in [s for s in stages_list if s <= layers]:
        name = f"{directory.name}, train at {stages} stages"
        trained = TrainedRun(sluice, work / f"{directory.name}-pp{stages}", directory, stages)
        if trained.problem:
            failures.add(name, trained.problem)
            return
        for step, (ours, theirs) in enumerate(zip(trained.losses(), trained.curve, strict=True), start=1):
            failures.check(abs(ours - theirs) <= LOSS_TOLERANCE * max(1, abs(theirs)), name,
                           f"loss of step {step} is {ours}, that of transformers {theirs}")
        if weights is None:
            weights = trained.weights()
            check_written(trained, name, failures)
            if directory.name.split("-")[0] in WHOLES:
                check_kept(directory, trained.checkpoint(), name, failures)
        else:
            again = trained.weights()
            failures.check(set(again) == set(weights) and all(torch.equal(again[k], weights[k]) for k in weights),
                           name, f"other weights than at {stages_list[0]} stages")


def check_slices(sluice, directory, work, failures):
    """Compares with transformers' curve on two ranks that share layers. Uses 4 slices, or fewer if the
    key-value heads require it."""
    name = f"{directory.name}, in slices"
    config = transformers.AutoConfig.from_pretrained(directory).get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    slices = next(n for n in (4, 2, 1) if heads % n == 0)
    if slices == 1:
        return 0
    trained = TrainedRun(sluice, work / f"{directory.name}-slices", directory, 1,
                         overrides=("--parallelism.tensor_parallel_degree=2",
                                    f"--parallelism.tensor_parallel_slices={slices}"))
    if directory.name.split("-")[0] in UNDIVIDED:
        failures.check(trained.done.returncode == 2 and "norms queries and keys over all heads" in trained.done.stderr,
                       name, f"is not refused by its norms: {trained.done.returncode}, {trained.done.stderr.strip()}")
        return 0
    if trained.problem:
        failures.add(name, trained.problem)
        return 0
    for step, (ours, theirs) in enumerate(zip(trained.losses(), trained.curve, strict=True), start=1):
        failures.check(abs(ours - theirs) <= SLICED_LOSS_TOLERANCE * max(1, abs(theirs)), name,
                       f"loss of step {step} is {ours}, that of transformers {theirs}")
    return slices


def check_shards(sluice, directory, work, failures):
    """Sharded weights must give the same bits as a single file."""
    name = f"{directory.name}, from shards"
    source = work / f"{directory.name}-shards"
    config = transformers.AutoConfig.from_pretrained(directory)
    models.auto_class(config).from_pretrained(directory).save_pretrained(source, max_shard_size="30KB")
    failures.check((source / "model.safetensors.index.json").exists(), name, "save_pretrained made no shards")
    runs = [TrainedRun(sluice, work / f"{directory.name}-{part}", directory, 2 if config.get_text_config().num_hidden_layers > 1 else 1,
                       source=given) for part, given in (("single", directory), ("sharded", source))]
    for trained in runs:
        if trained.problem:
            failures.add(name, trained.problem)
            return
    single, sharded = (trained.weights() for trained in runs)
    failures.check(set(single) == set(sharded) and all(torch.equal(single[k], sharded[k]) for k in single), name,
                   "other weights than from one file")


def check_bfloat16(sluice, directory, work, failures):
    name = f"{directory.name}, bfloat16"
    source = work / f"{directory.name}-bfloat16"
    config = transformers.AutoConfig.from_pretrained(directory)
    models.auto_class(config).from_pretrained(directory, dtype=torch.bfloat16).save_pretrained(source)
    trained = TrainedRun(sluice, work / f"{directory.name}-in-bfloat16", directory, 1, source=source, dtype="bfloat16")
    if trained.problem:
        failures.add(name, trained.problem)
        return
    failures.check(abs(trained.losses()[0] - trained.curve[0]) < 0.1, name,
                   f"loss of step 1 is {trained.losses()[0]}, in float32 {trained.curve[0]}")
    check_written(trained, name, failures, torch.bfloat16)


def known(compared):
    """Returns the directories whose family sluice supports. The program lists the others."""
    lines = [line for line in compared.splitlines() if line.startswith(("ok ", "DIFFERS "))]
    return {line.split()[1].rstrip(":") for line in lines}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", type=pathlib.Path, required=True)
    parser.add_argument("--sluice", type=pathlib.Path, required=True)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--fuzz", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--keep", type=pathlib.Path)
    given = parser.parse_args()
    families = given.families.split(",")

    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    work = pathlib.Path(given.keep or tempfile.mkdtemp(prefix="sluice-oracle-", dir=memory)).resolve()
    failures = Failures()
    try:
        variants = "all" if given.wide else "first"
        made = models.make(work / "models", families, variants, given.fuzz, given.seed)
        compared = run([given.compare, *made])
        print(compared.stdout, end="", flush=True)
        if compared.returncode != 0:
            failures.add("models", compared.stderr.strip() or "see above")
        of_program = known(compared.stdout)
        sliced = {}
        for directory in made:
            if directory.name not in of_program:
                failures.add(directory.name, "the program does not know this family, or ended before it")
                continue
            family, variant = directory.name.split("-", 1)
            is_first = variant == next(iter(FAMILIES[family].variants))
            if is_first:
                sliced[family] = check_slices(given.sluice, directory, work, failures)
            if is_first and (given.wide or family in SHORT_TRAINED):
                check_training(given.sluice, directory, work, (1, 2, 4) if given.wide else (2,), failures)
            if given.wide and not is_first and "fuzz" not in variant:
                check_training(given.sluice, directory, work, (2,), failures)
            if given.wide and is_first:
                check_shards(given.sluice, directory, work, failures)
                check_bfloat16(given.sluice, directory, work, failures)
    finally:
        if not given.keep:
            shutil.rmtree(work, ignore_errors=True)
    print("slices:", ", ".join(f"{family} {slices or 'none'}" for family, slices in sliced.items()))
    print(f"{len(made)} models, {failures.count} failures")
    sys.exit(1 if failures.count else 0)


if __name__ == "__main__":
    main()
