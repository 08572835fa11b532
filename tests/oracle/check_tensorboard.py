#!/usr/bin/env python3
"""Reads the output of `sluice metrics tensorboard` with tensorboard. Every number of metrics.jsonl must be
there, at its step.

usage: check_tensorboard.py --sluice build/bin/sluice
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

LINES = [
    {"step": step, "loss": 3.0 / step, "grad_norm": 0.5, "lr": 1e-3 * step, "tokens": 4096, "step_seconds": 0.25,
     "memory_bytes": [1000 * step, 2000], "rank_seconds": [{"compute": 0.1}, {"compute": 0.2}],
     **({"validation_loss": 2.0, "continuations": [{"prompt": "a", "text": "b"}]} if step % 10 == 0 else {})}
    for step in range(1, 301)
]


def scalars(line):
    for name, value in line.items():
        if isinstance(value, (int, float)) and name != "step":
            yield name, value
    for rank, value in enumerate(line["memory_bytes"]):
        yield f"memory_bytes/rank_{rank}", value
    for rank, parts in enumerate(line["rank_seconds"]):
        yield f"rank_seconds/rank_{rank}/compute", parts["compute"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sluice", required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "metrics.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in LINES))
        subprocess.run([given.sluice, "metrics", "tensorboard", folder, "--out", f"{folder}/events"], check=True)
        read = EventAccumulator(f"{folder}/events", size_guidance={"scalars": 0})
        read.Reload()
        found = {(tag, event.step): event.value for tag in read.Tags()["scalars"] for event in read.Scalars(tag)}
        times = [event.wall_time for event in read.Scalars("loss")]
    wanted = {(tag, line["step"]): value for line in LINES for tag, value in scalars(line)}
    assert set(found) == set(wanted), sorted(set(found) ^ set(wanted))[:4]
    assert all(numpy.float32(wanted[key]) == numpy.float32(found[key]) for key in wanted)
    assert numpy.allclose(numpy.diff(times), 0.25), "wall times are not the steps' own"
    print(f"{len(found)} numbers of {len(LINES)} steps")


if __name__ == "__main__":
    sys.exit(main())
