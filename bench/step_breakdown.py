#!/usr/bin/env python3
"""Shows where the step of a schedule loses time, from the trace that `sluice train --profile` writes.

    python3 bench/step_breakdown.py [--size S] [--microbatches 8] [--ranks 2] [--schedules 1F1B,...] [--rank-rows]
    python3 bench/step_breakdown.py --trace FILE.json           for an existing trace

Prints shares of the fastest traced step, averaged over the ranks:

  compute   forward, input and weight gradients
  order     idle because of the order: the rest if every action took its measured time and started as early as its
            inputs and its rank's order allow. Bubble, and unequal stages
  late      idle beyond that: transfers, wake-up of threads, work of the executor between instructions
  end       after the last compute of all ranks: sums of ties, loss, norm, update
  begin     before the first compute: waiting for all ranks, the batch

wake: microseconds (median and maximum) from the start of a SEND until the waiting rank continues. sends: the longest
SEND. Needs no Python packages.
"""

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile

from torch_comparison.sluice_run import write_config
from torch_comparison.workload import SCHEDULES, SIZES

ACTION = re.compile(r"(\d+)([FIWB])(\d+)")


def make_inputs(folder, size, num_rows):
    """Writes FOLDER/model/config.json, for random weights, and FOLDER/rows.jsonl."""
    os.mkdir(f"{folder}/model")
    with open(f"{folder}/model/config.json", "w", encoding="utf-8") as file:
        json.dump({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": size.vocab,
                   "hidden_size": size.hidden, "intermediate_size": size.ffn, "num_hidden_layers": size.layers,
                   "num_attention_heads": size.heads, "num_key_value_heads": size.kv_heads, "rms_norm_eps": 1e-6,
                   "max_position_embeddings": size.seq_len, "tie_word_embeddings": False, "hidden_act": "silu"}, file)
    with open(f"{folder}/rows.jsonl", "w", encoding="utf-8") as file:
        for _ in range(num_rows):
            row = [random.randrange(size.vocab) for _ in range(size.seq_len)]
            file.write(json.dumps({"input_ids": row}) + "\n")


class Trace:
    """The events of one step. Times are in microseconds. `compute`: for each rank, in order, (parts, begin,
    end). A part is (stage, kind, microbatch, duration without waiting). A pair (OVERLAP_F_B) has two
    parts."""

    def __init__(self, events, step):
        self.compute, self.waits, self.sends, self.ends = {}, [], {}, []
        for event in sorted((e for e in events if e.get("ph") == "X" and e["args"].get("step") == step),
                            key=lambda event: event["ts"]):
            rank, name, begin, end = event["pid"], event["name"], event["ts"], event["ts"] + event["dur"]
            if event["cat"] == "compute":
                self.compute.setdefault(rank, []).append((ACTION.findall(name), begin, end))
            elif event["cat"] == "waits" and ACTION.search(name):
                self.waits.append((rank, ACTION.findall(name), begin, end))
            elif match := re.fullmatch(r"(\d+)SEND_([FB])(\d+)", name):
                self.sends[match.groups()] = (begin, end)
            self.ends.append(end)
        for rank, actions in self.compute.items():
            waits = [wait for wait in self.waits if wait[0] == rank]
            self.compute[rank] = [(self.parts_of(names, begin, end, waits), begin, end)
                                  for names, begin, end in actions]
        self.begin = min(begin for actions in self.compute.values() for _, begin, _ in actions)
        self.compute_end = max(end for actions in self.compute.values() for _, _, end in actions)

    @staticmethod
    def parts_of(names, begin, end, waits):
        """Divides a pair into its two halves. A pair waits between them, within its event: the second half
        begins with its wait. Without a wait it begins after a third, because a backward takes twice as
        long as its forward."""
        if len(names) == 1:
            return [(*names[0], end - begin)]
        inside = {tuple(wait[1][0]): wait for wait in waits if begin <= wait[2] and wait[3] <= end}
        first, second = inside.get(tuple(names[0])), inside.get(tuple(names[1]))
        cut = second[2] if second else begin + (end - begin) / 3
        return [(*names[0], cut - begin - (first[3] - first[2] if first else 0)),
                (*names[1], end - cut - (second[3] - second[2] if second else 0))]

    def busy(self, rank):
        return sum(part[3] for parts, _, _ in self.compute[rank] for part in parts)

    def wake_ups(self):
        """Returns the times from the start of a SEND to the end of the wait for it, if the wait had begun
        before."""
        late = []
        for _, actions, begin, end in self.waits:
            stage, kind, microbatch = actions[0]
            source = (str(int(stage) - 1), "F", microbatch) if kind == "F" else (str(int(stage) + 1), "B", microbatch)
            sent = self.sends.get(source)
            if sent and begin < sent[0] <= end:
                late.append(end - sent[0])
        return late

    def ideal(self):
        """Returns the end of the last compute, relative to the start of the first, if actions followed each
        other without delay."""
        last = max(int(part[0]) for actions in self.compute.values() for parts, _, _ in actions for part in parts)
        done, at, clock = {}, dict.fromkeys(self.compute, 0), dict.fromkeys(self.compute, 0.0)

        def needs(stage, kind, microbatch):
            stage = int(stage)
            if kind == "F":
                return [("F", stage - 1, microbatch)] if stage > 0 else []
            if kind == "W":
                return []  # W follows its own rank's I in the row
            return [("B", stage + 1, microbatch)] if stage < last else [("F", stage, microbatch)]

        left = sum(map(len, self.compute.values()))
        while left:
            before = left
            for rank, actions in self.compute.items():
                while at[rank] < len(actions):
                    parts = actions[at[rank]][0]
                    inputs = [needs(*part[:3]) for part in parts]
                    if any(need not in done for needed in inputs for need in needed):
                        break
                    for part, needed in zip(parts, inputs):
                        clock[rank] = max([clock[rank], *(done[need] for need in needed)]) + part[3]
                    for stage, kind, microbatch, _ in parts:  # both halves send when the pair has ended
                        if kind != "W":
                            done["F" if kind == "F" else "B", int(stage), microbatch] = clock[rank]
                    at[rank] += 1
                    left -= 1
            if left == before:
                raise ValueError("the trace lacks actions that others need")
        return max(clock.values())


def fastest(events):
    """Returns (step, Trace) of the step that took least from its first to its last event."""
    steps = sorted({e["args"]["step"] for e in events if e.get("ph") == "X"})
    traces = [(step, Trace(events, step)) for step in steps]
    return min(traces, key=lambda pair: max(pair[1].ends) - pair[1].begin)


def report(name, events, step_seconds, rank_rows):
    step, trace = fastest(events)
    total = 1e6 * step_seconds[step] if step in step_seconds else max(trace.ends) - trace.begin
    ranks = sorted(trace.compute)
    span, ideal = trace.compute_end - trace.begin, trace.ideal()
    end = max(trace.ends) - trace.compute_end
    compute = sum(map(trace.busy, ranks)) / len(ranks)
    wakes = trace.wake_ups()
    wake = f"{statistics.median(wakes):>7.0f}{max(wakes):>7.0f}" if wakes else f"{'-':>7}{'-':>7}"
    send = max((e - b for b, e in trace.sends.values()), default=0)
    parts = [compute, ideal - compute, span - ideal, end, total - span - end]
    print(f"{name:<22}{total / 1e3:>8.1f}" + "".join(f"{100 * part / total:>8.1f}%" for part in parts) +
          f"{wake}{send:>8.0f}", flush=True)
    if rank_rows:
        for rank in ranks:
            first, last = trace.compute[rank][0][1], trace.compute[rank][-1][2]
            print(f"    rank {rank}: compute {trace.busy(rank) / 1e3:.1f} ms from {(first - trace.begin) / 1e3:.1f} to "
                  f"{(last - trace.begin) / 1e3:.1f}, idle between {(last - first - trace.busy(rank)) / 1e3:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sluice", default="build/bin/sluice")
    parser.add_argument("--trace", help="of this file, instead of training")
    parser.add_argument("--size", default="S", choices=SIZES)
    parser.add_argument("--schedules", default=",".join(SCHEDULES))
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6, help="the first is not looked at")
    parser.add_argument("--rank-rows", action="store_true", help="also a line a rank")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    arguments = parser.parse_args()
    print(f"{'':<22}{'step ms':>8}{'compute':>9}{'order':>9}{'late':>9}{'end':>9}{'begin':>9}{'wake us':>14}"
          f"{'sends':>8}")
    if arguments.trace:
        with open(arguments.trace, encoding="utf-8") as file:
            report(os.path.basename(arguments.trace), json.load(file)["traceEvents"], {}, arguments.rank_rows)
        return
    with tempfile.TemporaryDirectory() as folder:
        size = SIZES[arguments.size]
        make_inputs(folder, size, arguments.microbatches * arguments.steps)
        for schedule in arguments.schedules.split(","):
            command = write_config(folder, "run", size, schedule, arguments.microbatches, arguments.ranks,
                                   arguments.steps, ["model.path=", f"model.config={folder}/model/config.json",
                                                     *arguments.set])
            done = subprocess.run([arguments.sluice, "train", *command, "--profile", f"{folder}/trace.json",
                                   "--profile-steps", f"2:{arguments.steps}"], stdout=subprocess.DEVNULL, check=False)
            if done.returncode:
                sys.exit(f"step_breakdown: sluice failed with {schedule}")
            with open(f"{folder}/trace.json", encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
            with open(f"{folder}/run/metrics.jsonl", encoding="utf-8") as file:
                seconds = {line["step"]: line["step_seconds"] for line in map(json.loads, file)}
            report(schedule, events, seconds, arguments.rank_rows)
            subprocess.run(["rm", "-r", f"{folder}/run", f"{folder}/trace.json"], check=True)


if __name__ == "__main__":
    main()
