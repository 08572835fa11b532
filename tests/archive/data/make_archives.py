#!/usr/bin/env python3
"""Writes the archives of this folder: small models in the format of torch.export.save. Needs torch. Not part
of the build.

usage: make_archives.py [DIRECTORY]

plain.pt2     a custom model with every feature of the format, and weights: a tied head, batch norms, a module
              called twice, a higher-order operator, an operator with a list of results, a constant, and a
              number as a result
skeleton.pt2  parameters without bytes, as tools/sluice_export.py writes them, with sluice.json and a second graph
"""
import json
import os
import sys
import tempfile
import warnings
import zipfile

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

AUTO = torch.export.Dim.AUTO


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.linear = torch.nn.Linear(4, 4)
        self.dropout = torch.nn.Dropout(0.1)
        self.register_buffer("scale", torch.linspace(1.0, 2.0, 4), persistent=False)

    def forward(self, x):
        y = self.dropout(self.linear(self.norm(x)))
        with torch.no_grad():
            z = torch.sin(self.scale) * torch.arange(x.shape[0])[:, None]
        return self.dropout(y) + z


class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(6, 4)
        self.blocks = torch.nn.ModuleList([Block() for _ in range(2)])
        self.head = torch.nn.Linear(4, 6, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids, Weights=None, flag=False, more=None):
        a, _, b = self.table(ids).split([1, 1, 2], -1)
        h = torch.cat([a, b, a], -1) + torch.tensor(2.0) + more[0].sum()
        for block in self.blocks:
            h = block(h)
        return {"logits": self.head(h), "hidden": h, "count": ids.shape[0] * 2}


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(6, 8)
        self.projection = torch.nn.Linear(8, 24)
        self.head = torch.nn.Linear(8, 6, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens):
        h = self.table(tokens)
        rows, length, width = h.shape
        q, k, v = self.projection(h).view(rows, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4).unbind()
        h = torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if self.training else 0.0)
        return self.head(h.transpose(1, 2).flatten(2))


def shorten(program):
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                if node.meta.get("stack_trace"):
                    node.meta["stack_trace"] = "make_archives.py:1"


def export(model, inputs, dynamic):
    program = torch.export.export(model, (), inputs, strict=False, dynamic_shapes=dynamic)
    shorten(program)
    program._example_inputs = None
    return program


def program_json(program, name):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        torch.export.save(program, path)
        with zipfile.ZipFile(path) as archive:
            return next(archive.read(entry).decode() for entry in archive.namelist()
                        if entry.endswith("/models/model.json"))


def main():
    warnings.filterwarnings("ignore")
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.manual_seed(0)
    plain = export(Plain().train(), dict(ids=torch.arange(5), flag=False, Weights=None, more=[torch.ones(3)]),
                   dict(ids={0: AUTO}, flag=None, Weights=None, more=[None]))
    torch.export.save(plain, os.path.join(folder, "plain.pt2"))

    model = Attention()
    inputs, dynamic = dict(tokens=torch.ones(2, 7, dtype=torch.int64)), dict(tokens={0: AUTO, 1: AUTO})
    with FakeTensorMode(allow_non_fake_inputs=True):
        for module in model.modules():
            for name, parameter in list(module._parameters.items()):
                if parameter is not None:
                    module._parameters[name] = torch.nn.Parameter(torch.empty(parameter.shape))
        training = export(model.train(), inputs, dynamic)
        evaluation = export(model.eval(), inputs, dynamic)
    facts = {"format": 1, "tool": "1", "torch": torch.__version__, "transformers": None, "class": "make_archives.Attention",
             "ties": [["head.weight", "table.weight"]],
             "sizes": [{"name": "rows", "symbol": "", "example": 2}, {"name": "length", "symbol": "", "example": 7}],
             "outputs": ["logits"], "config": {"model_type": "attention", "alpha": 1}, "dtype": "float32",
             "loss": {"output": "logits", "count": None, "sum": False}, "weights": False, "checked": "no",
             "evaluation": "other", "notes": ["A note."]}
    for size, symbol in zip(facts["sizes"], training.graph_module.graph.find_nodes(op="placeholder")[-1].meta["val"].shape):
        size["symbol"] = str(symbol)
    torch.export.save(training, os.path.join(folder, "skeleton.pt2"),
                      extra_files={"sluice.json": json.dumps(facts), "evaluation.json": program_json(evaluation, "e.pt2")})
    for name in ("plain.pt2", "skeleton.pt2"):
        print(name, os.path.getsize(os.path.join(folder, name)))


if __name__ == "__main__":
    main()
