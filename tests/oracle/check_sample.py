#!/usr/bin/env python3
"""Compares `sluice sample` with transformers' `generate(do_sample=False)`, token for token.

usage: check_sample.py --sluice build/bin/sluice [--wide] [--families a,b]

Uses a tiny model of every family with a vocabulary of bytes. One prompt continues to the end of the model's
positions. Another stops at an end token, the second of a list in generation_config.json or config.json. Each runs on
one rank and on several. --wide: every variant of a family.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = str(pathlib.Path(__file__).resolve().parent)
sys.path[:] = [p for p in sys.path if p != HERE] + [HERE]  # a script of this folder has the name of a package

import torch
import transformers

import models
from families import FAMILIES

VOCABULARY = 259  # 256 bytes and three special tokens
PROMPT = "The quick brown fox"


def sampled(sluice, directory, tokens, *more):
    done = subprocess.run([sluice, "sample", directory, "--prompt", PROMPT, "--tokens", str(tokens), "--json", *more],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"sample exits {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def generated(model, ids, tokens, ends):
    """Generates new tokens with one forward of the whole sequence per token."""
    with torch.no_grad():
        out = model.generate(torch.tensor([ids]), max_new_tokens=tokens, do_sample=False, use_cache=False,
                             eos_token_id=ends, pad_token_id=0)
    return out[0, len(ids):].tolist()


def room_of(config, ids):
    text = config.get_text_config()
    most = getattr(text, "n_positions", None) or text.max_position_embeddings
    return most - len(ids)


def check(sluice, directory, config, seed, failures):
    def expect(ours, theirs, ended, what):
        if ours["tokens"] != theirs or ours["ended"] != ended:
            failures.append(f"{directory.name}, {what}: {ours['tokens']} ({ours['ended']}), not {theirs} ({ended})")

    config.get_text_config().vocab_size = VOCABULARY
    model = models.random_model(config, seed)
    model.generation_config = transformers.GenerationConfig(pad_token_id=0)
    model.save_pretrained(directory)
    ids = list(PROMPT.encode())
    room = room_of(config, ids)
    theirs = generated(model, ids, room, None)
    settings = directory / "generation_config.json"
    settings.write_text(json.dumps({"pad_token_id": 0}))
    layers = config.get_text_config().num_hidden_layers
    for ranks in sorted({1, min(2, layers), layers}):
        ours = sampled(sluice, directory, room + 5, "--parallelism.pipeline_parallel_degree", str(ranks))
        if ours["prompt_tokens"] != ids:
            failures.append(f"{directory.name}: the prompt is {ours['prompt_tokens']}")
        expect(ours, theirs, "length", f"{ranks} ranks")
    expect(sampled(sluice, directory, 3), theirs[:3], "tokens", "three tokens")

    end = theirs[room // 2]
    ended = generated(model, ids, room, [VOCABULARY - 1, end])
    settings.write_text(json.dumps({"eos_token_id": [VOCABULARY - 1, end]}))
    expect(sampled(sluice, directory, room), ended, "end token", "an end token of a list")
    settings.unlink()
    file = directory / "config.json"
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "eos_token_id": end}))
    expect(sampled(sluice, directory, room), generated(model, ids, room, end), "end token", "the end token of config.json")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sluice", required=True)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--families", default=",".join(FAMILIES))
    given = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    failures, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        variants = "all" if given.wide else "first"
        for name, family, arguments, seed in models.cases(given.families.split(","), variants, 0, 0):
            try:
                check(given.sluice, pathlib.Path(folder) / name, models.config_of(family, arguments), seed, failures)
            except RuntimeError as error:
                failures.append(f"{name}: {error}")
            count += 1
    for failure in failures:
        print("DIFFERS", failure)
    print(f"{count} models, {len(failures)} differences")
    return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
