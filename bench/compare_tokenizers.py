#!/usr/bin/env python3
"""Compares the speed of `sluice data tokenize` with the package `tokenizers`, one thread each.

The text consists of the sources of Python's standard library, in pieces of about 4 KB, and the same number of words in
other scripts. Tokenizers of 16,000 tokens are trained on a part of it. A pair runs both sides one after the other, and
the order alternates. CPU time is measured, so that other programs matter little. For `tokenizers` it is the fastest
single-threaded call (encode_batch_fast), ids only. For sluice it is the whole program, including start, parsing of its
lines and printing of the ids.

  python bench/compare_tokenizers.py --sluice build/bin/sluice [--pairs N] [--megabytes N] [--decode]
"""

import argparse
import importlib.util
import json
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sysconfig
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from tokenizers import Tokenizer  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("oracle", ROOT / "tests" / "oracle" / "tokenizers.py")
oracle = importlib.util.module_from_spec(spec)
spec.loader.exec_module(oracle)

NAMES = ["gpt2", "llama3", "qwen2", "deepseek", "llama2", "mistral"]


def texts(megabytes, rng):
    pieces, size = [], 0
    for path in sorted(pathlib.Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if size > megabytes * 1e6 or "site-packages" in path.parts:
            continue
        source = path.read_text(errors="replace")
        for at in range(0, len(source), 4096):
            pieces.append(source[at:at + 4096])
            size += len(pieces[-1])
            if len(pieces) % 8 == 0:
                pieces.append(" ".join(rng.choice(oracle.WORDS) for _ in range(600)))
    return pieces


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sluice", required=True)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=6)
    parser.add_argument("--decode", action="store_true", help="ids to text instead")
    arguments = parser.parse_args()
    rng = random.Random(0)
    documents = texts(arguments.megabytes, rng)
    megabytes = sum(len(d.encode()) for d in documents) / 1e6
    oracle.SCALE = 16.0
    oracle.corpus = lambda _: documents[::6]
    print(f"{len(documents)} texts, {megabytes:.1f} MB, MB/s of CPU time, median of {arguments.pairs} pairs\n")
    print(f"{'':10} {'tokens':>10} {'tokenizers':>11} {'sluice':>8} {'ratio':>7}  (least .. most)")
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            path, lines = f"{folder}/{name}.json", f"{folder}/lines"
            getattr(oracle, name)(rng).save(path)
            tokenizer = Tokenizer.from_file(path)
            ids = [e.ids for e in tokenizer.encode_batch_fast(documents)]
            with open(lines, "w") as file:
                file.writelines(json.dumps(x) + "\n" for x in (ids if arguments.decode else documents))
            command = [arguments.sluice, "data", "tokenize", "--tokenizer", path, lines]
            if arguments.decode:
                command.append("--decode")

            def ours():
                start = children_seconds()
                with open(f"{folder}/out", "w") as out:
                    subprocess.run(command, stdout=out, check=True)
                return children_seconds() - start

            def theirs():
                fresh = Tokenizer.from_file(path)
                start = time.process_time()
                if arguments.decode:
                    fresh.decode_batch(ids, skip_special_tokens=False)
                else:
                    fresh.encode_batch_fast(documents)
                return time.process_time() - start

            times = {"ours": [], "theirs": []}
            for pair in range(arguments.pairs):
                for side in (("ours", "theirs") if pair % 2 else ("theirs", "ours")):
                    times[side].append(ours() if side == "ours" else theirs())
            if not arguments.decode:
                with open(f"{folder}/out") as out:
                    assert [json.loads(line) for line in out] == ids, name
            ratios = [t / o for t, o in zip(times["theirs"], times["ours"])]
            print(f"{name:10} {sum(map(len, ids)):10} {megabytes / statistics.median(times['theirs']):11.2f} "
                  f"{megabytes / statistics.median(times['ours']):8.2f} {statistics.median(ratios):7.2f}  "
                  f"({min(ratios):.2f} .. {max(ratios):.2f})", flush=True)


if __name__ == "__main__":
    main()
