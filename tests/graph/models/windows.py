"""Attention to the neighbours of each token, for `sluice_export.py --factory windows:make`. As in Longformer
and LED, the windows are a view with custom strides."""
import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, WIDTH, BESIDE = 96, 16, 2  # BESIDE: tokens on each side


class Windows(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(dropout)

    @staticmethod
    def windows(x):
        """Views [rows, length, width] as [rows, length, 2 * BESIDE + 1, width] without a copy."""
        rows, length, width = x.shape
        padded = F.pad(x, (0, 0, BESIDE, BESIDE))
        by_row, by_token, by_channel = padded.stride()
        return padded.as_strided((rows, length, 2 * BESIDE + 1, width), (by_row, by_token, by_token, by_channel))

    def forward(self, x):
        query, key, value = self.qkv(self.norm(x)).chunk(3, -1)
        scores = (self.windows(key) @ query.unsqueeze(-1)) / WIDTH**0.5
        return x + self.dropout(self.out((scores.softmax(2) * self.windows(value)).sum(2)))


class Model(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Windows(dropout) for _ in range(3))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids, labels):
        x = self.words(input_ids)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(x)
        return {"loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


def make(dropout=0.1):
    """Returns the module, example inputs, and facts that the exporter cannot derive."""
    torch.manual_seed(0)
    inputs = {name: torch.randint(VOCABULARY, (2, 16)) for name in ("input_ids", "labels")}
    sizes = {"rows": {"input_ids": 0, "labels": 0}, "length": {"input_ids": 1, "labels": 1}}
    return Model(dropout), inputs, {"sizes": sizes, "loss_output": "loss",
                                    "limits": {"input_ids": VOCABULARY, "labels": VOCABULARY}}


def make_without_dropout():
    return make(0.0)
