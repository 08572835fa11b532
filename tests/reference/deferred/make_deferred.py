"""Writes the files of this folder: programs of torch 2.13, with and without its deferred receives.

    python make_deferred.py FOLDER

Two ranks, four stages, four microbatches. torch's own passes make every row.
"""
import csv
import os
import sys

from torch.distributed.pipelining import schedules

RANKS, STAGES_PER_RANK, MICROBATCHES = 2, 2, 4
STAGES = RANKS * STAGES_PER_RANK
LOOP, V = [0, 1, 0, 1], [0, 1, 1, 0]


def compute_order(kind):
    """The rows that the constructor of a schedule makes. It reads only these numbers of its stages."""
    rows = {}
    for rank in range(RANKS):
        made = object.__new__(kind)
        made.rank = rank
        made.pp_group_size = RANKS
        made.num_stages = made._num_stages = STAGES
        made.n_local_stages = STAGES_PER_RANK
        made._n_microbatches = MICROBATCHES
        made.number_of_rounds = MICROBATCHES // RANKS
        made.microbatches_per_round = RANKS
        rows[rank] = made._calculate_single_rank_operations(rank)
    if hasattr(kind, "_add_bubbles_to_actions"):
        made.pipeline_order = rows
        rows = made._add_bubbles_to_actions(STAGES)
    return rows


def write(path, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([str(action) for action in rows[rank]] for rank in sorted(rows))


for name, ranks in (("ZBVZeroBubble", V), ("InterleavedZeroBubble", LOOP), ("Interleaved1F1B", LOOP), ("DualPipeV", V)):
    lowered = {rank: schedules._add_reduce_grad(schedules._add_unshard_reshard(row), MICROBATCHES)
               for rank, row in compute_order(getattr(schedules, "Schedule" + name)).items()}
    plain = schedules._add_send_recv(lowered, stage_to_rank=lambda stage: ranks[stage], num_stages=STAGES)
    deferred = schedules._defer_recv_ops(plain, stage_to_rank=lambda stage: ranks[stage])
    write(os.path.join(sys.argv[1], name + "_plain.csv"), plain)
    write(os.path.join(sys.argv[1], name + "_deferred.csv"), deferred)
