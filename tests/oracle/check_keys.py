#!/usr/bin/env python3
"""Checks that sluice ignores no key that changes numbers. Compares keys of config.json and
adapter_config.json with the classes of transformers and PEFT.

usage: check_keys.py --keys build/bin/oracle_keys [--wide] [--families a,b] [--list]

1. Every key of the classes is in sluice's table (src/family/known_keys.cpp), and the table has no other keys. The
   keys of a class are its fields, aliases, arguments that it consumes, and attributes that the model reads while it
   computes. --list prints them.
2. Changes the value of every key, and omits every key but sizes. If transformers (or PEFT) still computes, sluice
   must compute the same loss and gradient norm, or reject the file. A key that changes the numbers, also in training,
   must not be marked "harmless". A key marked "refused" must be rejected.
3. Random module expressions must match exactly as with Python's re.fullmatch.
A short run uses few values, the first variant of every family, and tests shared keys in two families only. --wide
uses more values, nested keys and all variants.
"""
import argparse
import contextlib
import dataclasses
import inspect
import io
import json
import math
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

HERE = str(pathlib.Path(__file__).resolve().parent)
sys.path[:] = [p for p in sys.path if p != HERE] + [HERE]  # a script of this folder has the name of a package

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import PreTrainedConfig

import models
from families import DECODER, FAMILIES, WHOLES

NATIVE = [family for family in FAMILIES if family not in WHOLES]
# Names in PreTrainedConfig that are not keys: methods, or internal state of one process.
NO_KEYS = ("keys_to_ignore_at_inference", "output_loading_info")
# Leaving out one of these keys gives a model with billions of parameters. tests/oracle/check_defaults.py
# covers them.
SIZES = {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "n_embd", "n_layer",
         "n_head", "n_positions", "moe_intermediate_size"}
# In a short run, keys that all families share are changed only in these families.
COMMON_KEYS_OF = ("llama", "gpt2")
VALUES = [None, True, False, 0, 2, 0.5, "gelu", [], {}]
WIDE_VALUES = [3, -1, 1e-3, "x", [0, 1, 0, 1], [1], "relu", {"a": 1}]
TYPES = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
OWN_VALUES = {
    "layer_types": [TYPES, ["full_attention"] * 4],
    "rope_scaling": [{"rope_type": "linear", "factor": 3.0}, {"type": "linear", "factor": 3.0}],
    "rope_parameters": [{"rope_type": "linear", "factor": 3.0, "rope_theta": 50.0}],
    "per_layer_config": [{"1": {"sliding_window": 2}}, {"1": {"intermediate_size": 20}}],
    "default_rope_type": ["axial"],
    "mlp_layer_types": [["dense"] * 4],
    "tie_word_embeddings": [True],
}
# Nested keys, by the type of the value that contains them.
ROPES = {
    "llama3": {"rope_type": "llama3", "rope_theta": 50.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "yarn": {"rope_type": "yarn", "rope_theta": 50.0, "factor": 4.0},
    "linear": {"rope_type": "linear", "rope_theta": 50.0, "factor": 3.0},
    "longrope": {"rope_type": "longrope", "rope_theta": 50.0},
}
INSIDE = {"original_max_position_embeddings": [8, 16], "truncate": [False, None], "attention_factor": [1.5], "mscale": [0.7],
          "mscale_all_dim": [0.5], "beta_fast": [16], "beta_slow": [2], "type": ["yarn", "default"],
          "rope_type": [None, "dynamic"], "partial_rotary_factor": [0.5, 1.0], "rope_theta": [None, 77.0], "factor": [1.0, None]}
# Deliberate differences that the docs mention: (key, value, family) -> reason.
ON_PURPOSE = {
    "dtype": "model.dtype says it", "torch_dtype": "model.dtype says it",
    "output_router_logits": "the loss of tokens is compared, docs/models.md",
    "router_aux_loss_coef": "as above",
}


class Failures:
    def __init__(self):
        self.count = 0

    def add(self, name, what):
        self.count += 1
        print(f"DIFFERS {name}: {what}", flush=True)


def read_table(program):
    """Returns (file, family) -> {key: (use, neutral values)}, and the keys that all families share."""
    lines = subprocess.run([program, "table"], capture_output=True, text=True, check=True).stdout.splitlines()
    table = {("config.json", family): {} for family in NATIVE} | {("adapter_config.json", ""): {}}
    for line in lines:
        file, key, use, families, neutral = line.split("\t")
        for family in (families.split() or NATIVE) if file == "config.json" else [""]:
            assert key not in table[file, family], f"two rows of '{key}' for {family}"
            table[file, family][key] = (use, json.loads(neutral or "[]"))
    return table, {key for _, key, _, families, _ in map(lambda line: line.split("\t"), lines) if not families}


@contextlib.contextmanager
def recorded_names():
    """Records the names of all configuration attributes that are read."""
    names, plain = set(), PreTrainedConfig.__getattribute__

    def record(self, name):
        names.add(name)
        return plain(self, name)

    PreTrainedConfig.__getattribute__ = record
    try:
        yield names
    finally:
        PreTrainedConfig.__getattribute__ = plain


def taken_arguments(config):
    """Finds the argument names that the classes' functions consume, by searching their source."""
    names = set()
    for cls in config.__mro__:
        for name in ("__post_init__", "convert_rope_params_to_dict"):
            if name in vars(cls):
                text = inspect.getsource(vars(cls)[name])
                names |= set(re.findall(r'kwargs\.(?:pop|get)\(\s*"(\w+)"', text)) | set(re.findall(r'"(\w+)" in kwargs', text))
    return names


def load(directory):
    config = transformers.AutoConfig.from_pretrained(directory)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, output_loading_info=True)
    return config, model, info


def rotary(family, name):
    """Returns rope_parameters of this type for the family."""
    base, rope = FAMILIES[family].base, ROPES[name]
    if name == "longrope":
        pairs = base.get("head_dim", base["hidden_size"] // base["num_attention_heads"]) // 2
        rope = {**rope, **{key: [start + 0.1 * i for i in range(pairs)] for key, start in (("short_factor", 1.0), ("long_factor", 2.0))}}
    if family == "gpt_neox":
        rope = {**rope, "partial_rotary_factor": 1.0}
    return {"full_attention": rope, "sliding_attention": {"rope_type": "default"}} if family == "gemma3_text" else rope


def known_to_transformers(family):
    row, names = FAMILIES[family], {"model_type", "per_layer_config", "attribute_map"}
    names |= {field.name for field in dataclasses.fields(row.config)} | set(row.config.attribute_map) | taken_arguments(row.config)
    arguments = [(given, False) for given in row.variants.values()]
    if "rope_parameters" in names:
        arguments += [({"rope_parameters": rotary(family, name)}, True) for name in ROPES]
    asked = set()
    for given, may_fail in arguments:
        with tempfile.TemporaryDirectory() as directory, recorded_names() as recorded:
            try:
                models.random_model(models.config_of(family, given), 0).save_pretrained(directory)
            except Exception:
                if may_fail:  # a family without this type of rotary positions
                    continue
                raise
            recorded.clear()
            _, model, _ = load(directory)
            for train in (True, False):
                model.train(train)
                for batch in models.batches(model.config.vocab_size, torch.Generator().manual_seed(1)).values():
                    model(**batch).loss.backward()
            asked |= recorded
    methods = {name for name in asked if callable(getattr(row.config, name, None))}
    return names | {name for name in asked - methods if not name.startswith("__")} - set(NO_KEYS)


def of_answer(output):
    return output.loss if hasattr(output, "loss") else output[0]


def numbers(directory, ids):
    """Returns loss and norm in evaluation and loss in training, or None if transformers rejects the
    directory."""
    try:
        _, model, info = load(directory)
        if info["missing_keys"] or info["mismatched_keys"]:
            return None
        loss = of_answer(model.eval()(input_ids=ids, labels=ids))
        loss.backward()
        norm = sum(p.grad.double().square().sum().item() for p in model.parameters() if p.grad is not None) ** 0.5
        torch.manual_seed(0)
        trained = of_answer(model.train()(input_ids=ids, labels=ids)).item()
    except Exception:
        return None
    found = (loss.item(), norm, trained)
    return found if all(map(math.isfinite, found)) else None


def is_near(found, expected, relative=2e-5):
    return all(abs(a - b) <= relative * max(1, abs(b)) for a, b in zip(found, expected))


def mutations(family, base, keys, wide):
    for key in sorted(keys - {"model_type"}):
        for value in VALUES + (WIDE_VALUES if wide else []) + OWN_VALUES.get(key, []):
            if key not in base or base[key] != value or type(base[key]) is not type(value):
                yield key, {**base, key: value}
    for key in sorted(base.keys() - {"model_type"} - SIZES):
        yield key, {other: value for other, value in base.items() if other != key}
    if "rope_parameters" not in base:
        return
    for name in ROPES if wide else ("llama3", "yarn"):
        old = {key: value for key, value in base.items() if key != "rope_parameters"}
        new = rotary(family, name)
        rope = new.get("full_attention", new)
        for key, around in (("rope_scaling", old), ("rope_parameters", old)):
            whole = rope if key == "rope_scaling" else new
            yield key, {**around, key: whole}
            yield key, {**around, key: whole, "original_max_position_embeddings": 8}
            for inside, values in INSIDE.items() if wide or key == "rope_scaling" else ():
                for value in values:
                    changed = {**rope, inside: value}
                    if whole is not rope:
                        changed = {**whole, "full_attention": changed}
                    yield f"{key}.{inside}", {**around, key: changed}


def check_family(given, family, variant, known, table, failures):
    with tempfile.TemporaryDirectory(prefix="sluice-keys-", dir=given.memory) as folder:
        directory = pathlib.Path(folder)
        config = models.config_of(family, FAMILIES[family].variants[variant])
        models.random_model(config, 7).save_pretrained(directory)
        file = directory / "config.json"
        base = json.loads(file.read_text())
        ids = torch.randint(4, config.vocab_size, (2, 24), generator=torch.Generator().manual_seed(3))
        save_file({"input_ids": ids}, directory / "batch.safetensors")
        plain = numbers(directory, ids)
        own = known if given.wide or family in COMMON_KEYS_OF else known - given.of_all
        cases = [("", base), *mutations(family, base, own, given.wide)]
        done = subprocess.run([given.keys, "configs", folder], input="".join(json.dumps(c) + "\n" for _, c in cases),
                              capture_output=True, text=True, check=False)
        ours = done.stdout.splitlines()
        if done.returncode or len(ours) != len(cases):
            failures.add(f"{family}-{variant}", f"oracle_keys ends with {done.returncode} after {len(ours)} of {len(cases)}: {done.stderr}")
            return
        counts = {"same": 0, "refused": 0, "refused what changes nothing": 0}
        for (key, changed), answer in zip(cases, ours):
            name = f"{family}-{variant}, {key}: {json.dumps(changed.get(key.split('.')[0]))}"
            file.write_text(json.dumps(changed))
            theirs = numbers(directory, ids)
            file.write_text(json.dumps(base))
            if theirs is None or key in ON_PURPOSE:
                continue
            use, neutral = table["config.json", family].get(key.split(".")[0], ("", []))
            changes = not is_near(theirs, plain, 1e-6)
            if changes and use == "harmless":
                failures.add(name, f"the table says that it is harmless; {plain} becomes {theirs}")
            if answer.startswith("refused: "):
                counts["refused" if changes else "refused what changes nothing"] += 1
                if not changes and given.verbose:
                    print(f"{name}: {answer}")
                continue
            counts["same"] += 1
            if use == "refused" and changed[key] not in neutral:
                failures.add(name, "the table says that it is refused, and it is not")
            if not is_near([float(number) for number in answer.split()], theirs):
                failures.add(name, f"loss and norm {answer}, those of transformers {theirs[:2]}")
        print(f"{family}-{variant}: {counts}", flush=True)


ADAPTER_VALUES = {
    "target_modules": [["q_proj"], ["q_proj", "v_proj", "o_proj"], "all-linear", ".*q_proj", ".*[qv]_proj", r"model\.layers\.[0-9]\.self_attn\.(q|v)_proj",
                       "(?!.*mlp).*(q|v)_proj"],
    "exclude_modules": [["q_proj"], ["o_proj"], "model.layers.0.*", ".*q_proj", "q_proj", ""],
    "layers_to_transform": [0, [0], [0, 1, 2, 3], 1],
    "layers_pattern": ["layers", ["layers"]],
    "lora_alpha": [8, 2.5], "r": [4, 2], "use_rslora": [True], "alpha_pattern": [{"q_proj": 2}, {".*q_proj": 2}],
    "rank_pattern": [{"q_proj": 4}, {"q_proj": 2}], "init_lora_weights": ["gaussian", "pissa", "olora", "eva"],
    "modules_to_save": [["lm_head"]], "trainable_token_indices": [[1, 2]], "alora_invocation_tokens": [[1, 2]],
    "layer_replication": [[[0, 4], [2, 4]]], "megatron_config": [{"a": 1}], "bias": ["all", "lora_only"],
    "arrow_config": [{"top_k": 1}], "target_parameters": [["mlp.gate_proj.weight"]], "task_type": ["SEQ_CLS", "FEATURE_EXTRACTION"],
    "velora_config": [{}], "kasa_config": [{}], "monteclora_config": [{}], "use_bdlora": [{}], "peft_type": ["LOHA", "LORA"],
}


def adapter_numbers(base, directory, ids):
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
            model = PeftModel.from_pretrained(model, directory, is_trainable=True).eval()
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
    except Exception:
        return None
    norm = sum(p.grad.double().square().sum().item() for p in model.parameters() if p.grad is not None) ** 0.5
    return loss.item(), norm


def check_adapters(given, table, failures):
    known = {field.name for field in dataclasses.fields(LoraConfig)}
    if given.list:
        print("adapter_config.json", " ".join(sorted(known)))
        return
    compare_keys("adapter_config.json", known, set(table), failures)
    with tempfile.TemporaryDirectory(prefix="sluice-keys-", dir=given.memory) as folder:
        base, plain = pathlib.Path(folder) / "base", pathlib.Path(folder) / "0"
        model = models.random_model(transformers.LlamaConfig(**DECODER), 7)
        model.save_pretrained(base)
        ids = torch.randint(4, 48, (2, 24), generator=torch.Generator().manual_seed(3))
        save_file({"input_ids": ids}, base / "batch.safetensors")
        adapted = get_peft_model(model, LoraConfig(r=4, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
        with torch.no_grad():
            for name, parameter in adapted.named_parameters():
                if "lora_" in name:
                    parameter.copy_(0.2 * torch.randn_like(parameter))
        adapted.save_pretrained(plain)
        config = json.loads((plain / "adapter_config.json").read_text())
        cases = [("", config)]
        for key in sorted(known):
            cases += [(key, {**config, key: value}) for value in VALUES + ADAPTER_VALUES.get(key, [])
                      if key not in config or config[key] != value or type(config[key]) is not type(value)]
        for number, (_, changed) in enumerate(cases):
            directory = pathlib.Path(folder) / str(number)
            if number:
                shutil.copytree(plain, directory)
            (directory / "adapter_config.json").write_text(json.dumps(changed))
        directories = [f"{folder}/{number}" for number in range(len(cases))]
        ours = subprocess.run([given.keys, "adapters", base, *directories], capture_output=True, text=True, check=False).stdout.splitlines()
        if len(ours) != len(cases):
            failures.add("adapters", f"oracle_keys ended after {len(ours)} of {len(cases)}")
        unchanged = adapter_numbers(base, plain, ids)
        counts = {"same": 0, "refused": 0}
        for (key, changed), directory, answer in zip(cases, directories, ours):
            name = f"adapter, {key}: {json.dumps(changed.get(key))}"
            theirs = adapter_numbers(base, directory, ids)
            if theirs is None:
                continue
            use, neutral = table.get(key, ("", []))
            if use == "harmless" and not is_near(theirs, unchanged, 1e-6):
                failures.add(name, f"the table says that it is harmless; {unchanged} becomes {theirs}")
            if answer.startswith("refused: "):
                counts["refused"] += 1
                if given.verbose:
                    print(f"{name}: {answer}")
                continue
            counts["same"] += 1
            if use == "refused" and changed[key] not in neutral:
                failures.add(name, "the table says that it is refused, and it is not")
            if not is_near([float(number) for number in answer.split()], theirs):
                failures.add(name, f"loss and norm {answer}, those of PEFT {theirs}")
        print(f"adapters: {counts}", flush=True)


def draw_expression(rng, depth=3):
    if depth == 0:
        return rng.choice(["a", "b", ".", r"\.", "[ab]", "[^a]", r"\w", r"\d", r"\bb", "1"])
    inner = [draw_expression(rng, depth - 1) for _ in range(rng.randint(1, 3))]
    text = rng.choice(["".join(inner), "(" + "|".join(inner) + ")", "(?:" + "".join(inner) + ")" + rng.choice(["*", "+", "?", "{1,2}", "{2}", "*?"]),
                       rng.choice(["(?=", "(?!"]) + "".join(inner) + ")" + inner[0]])
    return text


def check_expressions(given, failures):
    rng = random.Random(5)
    cases = [(draw_expression(rng), "".join(rng.choice("ab1.") for _ in range(rng.randint(0, 6))))
             for _ in range(20000 if given.wide else 3000)]
    answers = subprocess.run([given.keys, "expressions"], input="".join(f"{e}\t{name}\n" for e, name in cases),
                             capture_output=True, text=True, check=False).stdout.splitlines()
    if len(answers) != len(cases):
        failures.add("expressions", f"oracle_keys ended after {len(answers)} of {len(cases)}")
    for (expression, name), answer in zip(cases, answers):
        expected = "1" if re.fullmatch(expression, name) else "0"
        if answer != expected:
            failures.add("expressions", f"'{expression}' of '{name}': {answer}, of Python {expected}")
    print(f"expressions: {len(cases)}, {answers.count('1')} match", flush=True)


def compare_keys(name, known, table, failures, of_all=frozenset()):
    """of_all: keys of the table that only other families may have."""
    for key in sorted(known - table):
        failures.add(name, f"'{key}' is not in the table")
    for key in sorted(table - known - of_all):
        failures.add(name, f"'{key}' of the table is not known there")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=pathlib.Path, required=True)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--families", default=",".join([*NATIVE, "adapters", "expressions"]))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="also what is refused and changes nothing")
    given = parser.parse_args()
    given.memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity(transformers.utils.logging.CRITICAL)
    (table, given.of_all), failures, known_somewhere = read_table(given.keys), Failures(), set()
    for family in given.families.split(","):
        if family == "adapters":
            check_adapters(given, table["adapter_config.json", ""], failures)
            continue
        if family == "expressions":
            check_expressions(given, failures)
            continue
        known = known_to_transformers(family)
        if given.list:
            print(family, " ".join(sorted(known)))
            continue
        known_somewhere |= known
        compare_keys(family, known, set(table["config.json", family]), failures, given.of_all)
        variants = list(FAMILIES[family].variants)
        for variant in variants if given.wide else variants[:1]:
            check_family(given, family, variant, known, table, failures)
    if set(NATIVE) <= set(given.families.split(",")) and not given.list:
        compare_keys("all families", set(), given.of_all & set(table["config.json", NATIVE[0]]), failures, known_somewhere)
    print(f"{failures.count} failures")
    sys.exit(1 if failures.count else 0)


if __name__ == "__main__":
    main()
