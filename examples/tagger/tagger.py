"""A model of your own for the export tool (docs/any-model.md)."""
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mix, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        query, key, value = self.mix(self.norm(x)).chunk(3, -1)
        return x + self.drop(self.out(F.scaled_dot_product_attention(query, key, value)))


class Tagger(nn.Module):
    def __init__(self, words=100, tags=5, width=32, depth=4):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.tags = nn.Linear(width, tags)

    def forward(self, words, tags):
        x = self.words(words)
        for block in self.blocks:
            x = block(x)
        logits = self.tags(x)
        loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten(), reduction="sum")
        return {"loss": loss, "count": (tags >= 0).sum(), "logits": logits}


def make():
    inputs = {"words": torch.zeros(4, 12, dtype=torch.int64), "tags": torch.zeros(4, 12, dtype=torch.int64)}
    return Tagger(), inputs, {
        # dimensions that may vary
        "sizes": {"rows": {"words": 0, "tags": 0}, "length": {"words": 1, "tags": 1}},
        # upper bounds of integers
        "limits": {"words": 100, "tags": 5},
        # the loss is a sum over `count` words
        "loss_output": "loss", "loss_count": "count"}
