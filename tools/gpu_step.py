#!/usr/bin/env python3
"""Times a training step of eager torch in one process on one GPU: the Llama of a config.json as plain
modules.

    tools/gpu_step.py CONFIG.json      prints one line: the median step in float32 and under bfloat16 autocast

The work is that of sluice's step in tools/gpu_check.sh: 4 microbatches of 2 sequences of 256 tokens, gradients clipped,
fused AdamW. Needs torch with CUDA, nothing else.
"""

import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

MICROBATCHES, ROWS, LENGTH, STEPS, WARMUP = 4, 2, 256, 12, 2


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, inner = c["hidden_size"], c["intermediate_size"]
        self.heads = c["num_attention_heads"]
        self.norms = nn.ModuleList([nn.RMSNorm(width, c["rms_norm_eps"]) for _ in range(2)])
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, cos, sin):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(self.norms[0](x)).chunk(3, -1))
        q, k = (t * cos + torch.cat((-t[..., t.shape[-1] // 2:], t[..., :t.shape[-1] // 2]), -1) * sin
                for t in (q, k))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        h = self.norms[1](x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.blocks = nn.ModuleList([Block(c) for _ in range(c["num_hidden_layers"])])
        self.norm = nn.RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)
        dim = c["hidden_size"] // c["num_attention_heads"]
        angles = torch.outer(torch.arange(LENGTH), c["rope_theta"] ** (-torch.arange(0, dim, 2) / dim))
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, self.cos.to(x.dtype), self.sin.to(x.dtype))
        return self.head(self.norm(x))


def median_step(config, autocast):
    torch.manual_seed(0)
    model = Llama(config).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    batch = torch.randint(config["vocab_size"], (MICROBATCHES, ROWS, LENGTH), device="cuda")
    seconds = []
    for _ in range(STEPS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for ids in batch:
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                logits = model(ids)
            loss = F.cross_entropy(logits[:, :-1].float().flatten(0, 1), ids[:, 1:].flatten())
            (loss / MICROBATCHES).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[WARMUP:])


def main():
    if not torch.cuda.is_available():
        sys.exit("torch eager: this python's torch has no GPU")
    with open(sys.argv[1], encoding="utf-8") as file:
        config = json.load(file)
    print(f"torch {torch.__version__} eager, median step: {median_step(config, False):.4f} s,"
          f" bfloat16 {median_step(config, True):.4f} s")


if __name__ == "__main__":
    main()
