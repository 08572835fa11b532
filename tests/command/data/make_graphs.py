#!/usr/bin/env python3
"""Writes the archives of this folder with tools/sluice_export.py and prints the results that
tests/command/graph_data_run_test.cpp expects. Needs torch. Not part of the build.

usage: make_graphs.py [DIRECTORY]

images.pt2       pixel_values [rows, 3, 8, 8], labels [rows]. The loss is a mean over rows, without a count.
translation.pt2  input_ids [rows, length], decoder_input_ids and labels [rows, decoder_length]. The loss is a sum, with the
                 count of labels other than -100.
modes.pt2        features [rows, 8, 2], target [rows]. model.eval() has a different graph: without one head, with the
                 running statistics of a batch norm, and with a skip connection around the blocks.
decays.pt2       input_ids [rows, length] of bytes. Exported without weights. A_log is neither a weight nor a bias.
decoder.pt2      input_ids [rows, length] of bytes. Logits of a decoder with dropout and a tied head.
"""
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent.parent.parent / "tools"))

import sluice_export  # noqa: E402

STEPS, MICROBATCHES, LEARNING_RATE = 3, 2, 1e-2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(8, 5)

    def forward(self, pixel_values, labels):
        x = self.patches(pixel_values).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        logits = self.head(x.mean(1))
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


class Decays(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(256, 8), nn.Linear(8, 256)
        self.A_log = nn.Parameter(torch.zeros(8))

    def forward(self, input_ids):
        return {"logits": self.head(self.words(input_ids) * torch.exp(-torch.exp(self.A_log)))}


class Translation(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.encoder = nn.ModuleList(Block() for _ in range(1))
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(8, 11)

    def forward(self, input_ids, decoder_input_ids, labels):
        memory = self.words(input_ids)
        for block in self.encoder:
            memory = block(memory)
        x = self.words(decoder_input_ids) + memory.mean(1, keepdim=True)
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
        return {"loss": loss, "count": (labels != -100).sum(), "logits": logits}


class Modes(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.aside, self.head = nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, features, target):
        x = first = self.norm(features).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        x = x + self.aside(x) if self.training else x + first
        predicted = self.head(x).mean((1, 2))
        return {"loss": F.mse_loss(predicted, target), "predicted": predicted}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24, bias=False), nn.Linear(8, 8, bias=False)

    def forward(self, x):
        query, key, value = self.qkv(x).chunk(3, -1)
        return self.out(F.scaled_dot_product_attention(query, key, value, is_causal=True))


class DecoderBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix, self.feed = nn.LayerNorm(8, bias=False), Attention(), nn.Linear(8, 8, bias=False)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        x = x + self.dropout(self.mix(self.norm(x)))
        return x + self.dropout(self.feed(F.gelu(x)))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(256, 8), nn.Embedding(128, 8)
        self.blocks = nn.ModuleList(DecoderBlock() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(8, bias=False), nn.Linear(8, 256, bias=False)
        self.head.weight = self.words.weight

    def forward(self, input_ids):
        x = self.words(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return {"logits": self.head(self.norm(x))}


def seeded(model):
    generator = torch.Generator().manual_seed(3)
    torch.manual_seed(3)  # for the example's inputs
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def images():
    inputs = {"pixel_values": torch.randn(2, 3, 8, 8), "labels": torch.tensor([1, 4])}
    return seeded(Images()), inputs, {"limits": {"labels": 5}, "loss_output": "loss"}


def translation():
    inputs = {"input_ids": torch.randint(11, (2, 6)), "decoder_input_ids": torch.randint(11, (2, 5)),
              "labels": torch.randint(11, (2, 5))}
    sizes = {"rows": {name: 0 for name in inputs}, "length": {"input_ids": 1},
             "decoder_length": {"decoder_input_ids": 1, "labels": 1}}
    options = {"sizes": sizes, "limits": {name: 11 for name in inputs}, "loss_output": "loss", "loss_count": "count"}
    return seeded(Translation()), inputs, options


def modes():
    inputs = {"features": torch.randn(2, 8, 2), "target": torch.randn(2)}
    return seeded(Modes()), inputs, {"loss_output": "loss"}


def decoder():
    inputs = {"input_ids": torch.randint(256, (2, 16))}
    return seeded(Decoder()), inputs, {"sizes": {"rows": {"input_ids": 0}, "length": {"input_ids": 1}},
                                       "limits": {"input_ids": 256}}


def decays():
    inputs = {"input_ids": torch.randint(256, (2, 16))}
    return seeded(Decays()), inputs, {"sizes": {"rows": {"input_ids": 0}, "length": {"input_ids": 1}},
                                      "limits": {"input_ids": 256}}


def evaluated():
    """The decoder's loss over the rows of tests/cli/graph_fixture.h."""
    model = decoder()[0].eval()
    rows = torch.tensor([[(7 * i + 13 * row) % 256 for i in range(16)] for row in range(8)])
    with torch.no_grad():
        logits = model(rows)["logits"][:, :-1]
    return round(F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).item(), 6)


# Rows as in the test. Microbatches of the translation differ in length.
def image_row(row):
    pixels = torch.tensor([((37 * i + 11 * row) % 17) / 8 - 1 for i in range(192)]).view(3, 8, 8)
    return {"pixel_values": pixels, "labels": torch.tensor(row % 5)}


def modes_row(row):
    features = torch.tensor([((5 * i + 3 * row) % 13) / 4 - 1.5 for i in range(16)])
    return {"features": features.view(8, 2), "target": torch.tensor((row % 7) / 2.0)}


def translation_row(row):
    length, target = 3 + row // 2 % 3, 2 + row // 2 % 2
    ids = torch.tensor([(3 * i + 5 * row) % 11 for i in range(length)])
    decoder = torch.tensor([(7 * i + row) % 11 for i in range(target)])
    labels = torch.tensor([(i + 2 * row) % 11 for i in range(target)])
    if row % 3 == 0:
        labels[0] = -100
    return {"input_ids": ids, "decoder_input_ids": decoder, "labels": labels}


def trained(make, row_of, rows_to_evaluate=0):
    """Returns the loss of each step of two microbatches of two rows, then optionally the loss of model.eval()."""
    model, _, options = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.0)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        sums, total = [], 0
        for microbatch in range(MICROBATCHES):
            first = 2 * (MICROBATCHES * step + microbatch)
            rows = [row_of(first), row_of(first + 1)]
            results = model(**{name: torch.stack([row[name] for row in rows]) for name in rows[0]})
            count = results["count"].item() if "count" in results else 2
            sums.append(results["loss"] if "count" in results else results["loss"] * 2)
            total += count
        loss = sum(sums) / total
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 6))
    if rows_to_evaluate:
        rows = [row_of(row) for row in range(rows_to_evaluate)]
        with torch.no_grad():
            loss = model.eval()(**{name: torch.stack([row[name] for row in rows]) for name in rows[0]})["loss"]
        losses.append(round(loss.item(), 6))
    return losses


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for make, row_of, to_evaluate in ((images, image_row, 0), (translation, translation_row, 0), (modes, modes_row, 12)):
        out = str(folder / f"{make.__name__}.pt2")
        code = sluice_export.main(["--factory", f"make_graphs:{make.__name__}", "--weights", "--out", out])
        if code != 0:
            sys.exit(code)
        print(make.__name__, trained(make, row_of, to_evaluate))
    code = sluice_export.main(["--factory", "make_graphs:decoder", "--weights", "--out", str(folder / "decoder.pt2")])
    if code != 0:
        sys.exit(code)
    print("decoder", evaluated())
    sys.exit(sluice_export.main(["--factory", "make_graphs:decays", "--no-weights", "--out", str(folder / "decays.pt2")]))


if __name__ == "__main__":
    main()
