"""A server process for training steps of a whole model on one thread: FOLDER MICROBATCHES KIND. Each input
line is a number of steps; the answer has the loss and seconds of each. KIND "program": loads
FOLDER/model.pt2 with torch.export and runs it eagerly. KIND "transformers": the model's own forward. Both
start again from the weights of FOLDER/model."""

import json
import os
import sys
import time

import torch
from transformers import LlamaForCausalLM

from torch_comparison.workload import BETAS, EPS, LR, MAX_NORM, WEIGHT_DECAY, loss_of, read_rows


class Whole:
    def __init__(self, folder, microbatches, is_program):
        model = LlamaForCausalLM.from_pretrained(f"{folder}/model", attn_implementation="sdpa").train()
        model.config.use_cache = False
        self.weights = {name: value.clone() for name, value in model.named_parameters()}
        if is_program:
            program = torch.export.load(f"{folder}/model.pt2").module()
            self.call = lambda ids: program(input_ids=ids)["logits"]
            self.owner = program
        else:
            self.call = lambda ids: model(input_ids=ids).logits
            self.owner = model
        self.rows, self.labels = read_rows(folder)
        self.microbatches = microbatches

    def run(self, steps):
        parameters = dict(self.owner.named_parameters())
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(self.weights[name])
                parameter.grad = None
        optimizer = torch.optim.AdamW(parameters.values(), lr=LR, betas=BETAS, eps=EPS, weight_decay=WEIGHT_DECAY,
                                      fused=True)
        answer = {"losses": [], "seconds": []}
        for step in range(steps):
            started = time.perf_counter()
            losses = []
            for row in range(step * self.microbatches, (step + 1) * self.microbatches):
                loss = loss_of(self.call(self.rows[row:row + 1]), self.labels[row:row + 1]) / self.microbatches
                loss.backward()
                losses.append(loss.detach())
            torch.nn.utils.clip_grad_norm_(parameters.values(), MAX_NORM)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            answer["losses"].append(sum(losses).item())
            answer["seconds"].append(time.perf_counter() - started)
        return answer


def main():
    folder, microbatches, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # keeps output of libraries out of the answers
    torch.set_num_threads(1)
    whole = Whole(folder, microbatches, kind == "program")
    for line in sys.stdin:
        print(json.dumps(whole.run(int(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
