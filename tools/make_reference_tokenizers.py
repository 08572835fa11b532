#!/usr/bin/env python3
"""Writes tests/reference/tokenizers: small tokenizers, trained on made-up text, with the results of the
package `tokenizers` for several hundred strings. Needs that package. Not part of the build.

strings.json has the strings. Each tokenizer has NAME.json, and NAME.expected.json with
  ids      of every string, without the tokens of the post-processor
  before   tokens that the post-processor adds before the ids
  after    tokens that it adds after them
  text     the decoded `ids`, with special tokens

usage: make_reference_tokenizers.py
"""
import importlib.util
import json
import pathlib
import random

from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests" / "reference" / "tokenizers"
NAMES = ["gpt2", "llama3", "qwen2", "deepseek", "o200k", "llama2", "mistral", "gemma", "words", "no_fallback", "behaviours",
         "bytes_normalized"]

spec = importlib.util.spec_from_file_location("oracle", ROOT / "tests" / "oracle" / "tokenizers.py")
oracle = importlib.util.module_from_spec(spec)
spec.loader.exec_module(oracle)
oracle.SCALE = 0.5


def write(name, value):
    (OUT / name).write_text(json.dumps(value, separators=(",", ":")) + "\n")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    strings = [""] + oracle.WORDS + [oracle.make_string(rng) for _ in range(150)]
    write("strings.json", strings)
    for name in NAMES:
        getattr(oracle, name)(random.Random(0)).save(str(OUT / f"{name}.json"), pretty=False)
        tokenizer = Tokenizer.from_file(str(OUT / f"{name}.json"))
        ids = [tokenizer.encode(s, add_special_tokens=False).ids for s in strings]
        whole, part = tokenizer.encode("a").ids, tokenizer.encode("a", add_special_tokens=False).ids
        at = next(i for i in range(len(whole)) if whole[i:i + len(part)] == part)
        write(f"{name}.expected.json", {
            "ids": ids,
            "before": whole[:at],
            "after": whole[at + len(part):],
            "text": [tokenizer.decode(i, skip_special_tokens=False) if i else "" for i in ids],
        })


if __name__ == "__main__":
    main()
