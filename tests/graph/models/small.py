"""Small modules for the tests of tools/sluice_export.py. Each has one peculiarity."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Mlp(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


class Regression(nn.Module):
    """Returns a mean over rows. `is_other`: `scale` is used only in training mode."""

    def __init__(self, is_other=False, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(Mlp() for _ in range(depth))
        self.out = nn.Linear(8, 1)
        self.is_other = is_other

    def forward(self, features, target):
        x = features
        for block in self.blocks:
            x = block(x)
        if self.is_other and self.training:
            x = x * 1.5
        predicted = self.out(x).squeeze(-1)
        return {"loss": F.mse_loss(predicted, target), "predicted": predicted}


class Decides(Regression):
    """Branches on a value of a tensor."""

    def forward(self, features, target):
        if features.sum() > 0:
            features = -features
        return super().forward(features, target)


class Gate(nn.Module):
    """Data-dependent inside, but returns its input's shape. Exported as a custom operator."""

    def __init__(self, width=8):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, width))

    def forward(self, x):
        return x * self.weight if float(x.sum()) > 0 else x * self.weight * 2


class Gated(Regression):
    def __init__(self):
        super().__init__(depth=1)
        self.gates = nn.ModuleList(Gate() for _ in range(2))

    def forward(self, features, target):
        for gate in self.gates:
            features = gate(features)
        return super().forward(features, target)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.mlp = Mlp()
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.words.weight
        self.mlp.up.weight.requires_grad_(False)

    def forward(self, ids):
        return self.head(self.mlp(self.words(ids)))


class Loops(nn.Module):
    """A Python loop over the length."""

    def __init__(self):
        super().__init__()
        self.words, self.step = nn.Embedding(20, 8), nn.Linear(8, 8)

    def forward(self, ids, labels):
        state, found = 0, []
        for position in range(ids.shape[1]):
            state = torch.tanh(self.step(self.words(ids[:, position]) + state))
            found.append(state)
        logits = torch.stack(found, 1) @ self.words.weight.T
        return {"loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


class Checkpointed(Regression):
    def forward(self, features, target):
        for block in self.blocks:
            features = checkpoint(block, features, use_reentrant=False)
        predicted = self.out(features).squeeze(-1)
        return {"loss": F.mse_loss(predicted, target), "predicted": predicted}


def example():
    torch.manual_seed(0)
    return {"features": torch.randn(4, 8), "target": torch.randn(4)}


def regression():
    return Regression(), example()


def with_loss():
    return Regression(), example(), {"loss_output": "loss"}


def wrong_sum():
    """Declares a mean to be a sum over its count."""

    class Wrong(Regression):
        def forward(self, features, target):
            found = super().forward(features, target)
            return {"loss": found["loss"], "count": (target > -100).sum()}

    return Wrong(), example(), {"loss_output": "loss", "loss_count": "count"}


def other():
    return Regression(is_other=True), example()


def decides():
    return Decides(), example()


def gated():
    return Gated(), example()


def tied():
    return Tied(), {"ids": torch.randint(20, (2, 6))}, {
        "sizes": {"rows": {"ids": 0}, "length": {"ids": 1}}, "ranges": {"length": (1, 32)}, "limits": {"ids": 20},
        "outputs": ["logits"]}


def loops():
    ids = torch.randint(20, (2, 6))
    return Loops(), {"ids": ids, "labels": ids.clone()}, {
        "sizes": {"rows": {"ids": 0, "labels": 0}, "length": {"ids": 1, "labels": 1}}, "loss_output": "loss"}


def checkpointed():
    return Checkpointed(), example()


class Remembers(Regression):
    """The forward changes buffers in place and by assignment, a tensor that is not a buffer, and plain
    values."""

    made = []  # the modules that `remembers` saw

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.full((3,), 0.5), persistent=False)
        self.calls, self.seen = 0, []

    def forward(self, features, target):
        self.count += 1
        with torch.no_grad():
            self.mean.mul_(0.9).add_(features.mean(0)[:3], alpha=0.1)
        self.calls += 1
        self.seen.append(self.calls)
        found = super().forward(features, target)
        return {"loss": found["loss"] * (1 + self.count) + self.mean.sum() + self.calls}


def remembers():
    module = Remembers()
    Remembers.made.append(module)
    return module, example(), {"loss_output": "loss"}


def not_a_module():
    return 3
