#!/usr/bin/env python3
"""Checks that fields missing in a config.json get the defaults of their classes in transformers.

usage: check_defaults.py --sluice build/bin/sluice [--seed N] [--rounds N]

For nested configurations, transformers 4 wrote only the fields that differ from their class. For every family and
every vision-language model, this script writes config.json with only model_type, with an empty text_config,
without a text_config, and with random sets of fields. `sluice split` and transformers must agree on the number of
elements of the language model. transformers builds the model without memory ("meta").
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = str(pathlib.Path(__file__).resolve().parent)
sys.path[:] = [p for p in sys.path if p != HERE] + [HERE]  # a script of this folder has the name of a package

import torch
import transformers

from families import FAMILIES, WHOLES

# Sizes that are small enough to build quickly and compatible with any choice of the others.
SIZES = {"vocab_size": 40_000, "hidden_size": 6144, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 64,
         "num_key_value_heads": 4, "head_dim": 64}
GPT2_SIZES = {"vocab_size": 60_000, "n_embd": 1536, "n_layer": 3, "n_head": 6, "n_positions": 40, "n_inner": 96}


def elements(config):
    """Counts the elements of the language model. A tied head counts twice, as in `sluice split`."""
    is_whole = getattr(config, "text_config", None) is not None
    cls = transformers.AutoModelForImageTextToText if is_whole else transformers.AutoModelForCausalLM
    with torch.device("meta"):
        model = cls.from_config(config)
    seen = ("vision", "visual", "projector", "connector", "image_newline", "patch_merger")
    return sum(parameter.numel() for name, parameter in model.named_parameters(remove_duplicate=False)
               if not any(part in name for part in seen))


def ours(program, file):
    ran = subprocess.run([program, "split", "--model", file, "--layers-per-stage", "1000000", "--round", "up", "--pp", "1", "--json"],
                         capture_output=True, text=True, check=False)
    if ran.returncode:
        return ran.stderr.strip()
    return sum(stage["num_parameters"] for stage in json.loads(ran.stdout)["stages"])


def cases(name, rng, rounds):
    yield {"model_type": name}
    sizes = GPT2_SIZES if name == "gpt2" else dict(SIZES)
    # in these families a head has hidden_size / num_attention_heads channels
    if name in ("olmoe", "gpt_neox"):
        sizes.pop("head_dim")
    chosen = [{key: value for key, value in sizes.items() if rng.random() < 0.5} for _ in range(rounds)]
    if name not in WHOLES:
        yield from ({"model_type": name, **fields} for fields in chosen)
        return
    yield {"model_type": name, "text_config": {}}
    for fields in chosen:
        yield {"model_type": name, "text_config": fields}
        yield {"model_type": name, "text_config": fields, "vocab_size": 77, "hidden_size": 128}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sluice", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    rng, failures, same, skipped = random.Random(given.seed), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name in FAMILIES:
            for document in cases(name, rng, given.rounds):
                file = pathlib.Path(folder, "config.json")
                file.write_text(json.dumps(document))
                try:
                    theirs = elements(transformers.AutoConfig.from_pretrained(folder))
                except Exception:  # incompatible sizes
                    skipped += 1
                    continue
                found = ours(given.sluice, file)
                if found != theirs:
                    failures += 1
                    print(f"DIFFERS {json.dumps(document)}: {found}, transformers has {theirs}", flush=True)
                else:
                    same += 1
    print(f"{same} configurations have the same parameters, {skipped} are none to transformers, {failures} differ")
    sys.exit(1 if failures or not same else 0)


if __name__ == "__main__":
    main()
