"""A small diffusion U-Net for `sluice_export.py --factory unet:make`. It has skips, BatchNorm, GroupNorm,
attention and dropout. Its loss is the error of predicting the noise that was added to a picture.

Export it from this folder: `python sluice_export.py --factory unet:make --out unet.pt2`.
"""
import torch
from torch import nn
from torch.nn import functional as F

CHANNELS = 8
SIDE = 8
STEPS = 100


class Block(nn.Module):
    """Two convolutions with a group norm and a batch norm, the time embedding between them, and a residual."""

    def __init__(self, inner, outer, dropout):
        super().__init__()
        self.first_norm = nn.GroupNorm(4, inner)
        self.first = nn.Conv2d(inner, outer, 3, padding=1)
        self.time = nn.Linear(4 * CHANNELS, outer)
        self.second_norm = nn.BatchNorm2d(outer)
        self.dropout = nn.Dropout(dropout)
        self.second = nn.Conv2d(outer, outer, 3, padding=1)
        self.skip = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x, time):
        hidden = self.first(F.silu(self.first_norm(x))) + self.time(time)[:, :, None, None]
        return self.skip(x) + self.second(self.dropout(F.silu(self.second_norm(hidden))))


class Attention(nn.Module):
    """Self-attention over the positions of a picture."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm = nn.GroupNorm(4, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        rows, width, height, length = x.shape
        places = self.norm(x).flatten(2).transpose(1, 2)
        qkv = self.qkv(places).view(rows, height * length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value)
        mixed = self.out(mixed.transpose(1, 2).reshape(rows, height * length, width))
        return x + mixed.transpose(1, 2).reshape(rows, width, height, length)


class UNet(nn.Module):
    def __init__(self, dropout=0.1):
        super().__init__()
        self.time = nn.Sequential(nn.Embedding(STEPS, CHANNELS), nn.Linear(CHANNELS, 4 * CHANNELS), nn.SiLU())
        self.enter = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.down = nn.ModuleList([Block(CHANNELS, CHANNELS, dropout), Block(CHANNELS, 2 * CHANNELS, dropout)])
        self.middle = Block(2 * CHANNELS, 2 * CHANNELS, dropout)
        self.attention = Attention(2 * CHANNELS, 2)
        self.up = nn.ModuleList([Block(4 * CHANNELS, CHANNELS, dropout), Block(2 * CHANNELS, CHANNELS, dropout)])
        self.leave = nn.Conv2d(CHANNELS, 3, 3, padding=1)

    def forward(self, pixel_values, noise, time):
        """pixel_values, noise: [rows, 3, SIDE, SIDE]. time: [rows], from 0 to STEPS - 1."""
        kept = torch.cos(time / STEPS * (torch.pi / 2))[:, None, None, None]
        embedded = self.time(time)
        x = self.enter(kept * pixel_values + (1 - kept**2).clamp(min=0).sqrt() * noise)
        skips = []
        for block in self.down:
            x = block(x, embedded)
            skips.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.attention(self.middle(x, embedded))
        for block in self.up:
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(torch.cat([x, skips.pop()], 1), embedded)
        predicted = self.leave(x)
        return {"loss": F.mse_loss(predicted, noise), "predicted": predicted}


def make(dropout=0.1):
    """Returns the module, example inputs, and facts that the exporter cannot derive."""
    torch.manual_seed(0)
    inputs = {
        "pixel_values": torch.randn(4, 3, SIDE, SIDE),
        "noise": torch.randn(4, 3, SIDE, SIDE),
        "time": torch.randint(0, STEPS, (4,)),
    }
    sizes = {"rows": {"pixel_values": 0, "noise": 0, "time": 0}}
    return UNet(dropout), inputs, {"sizes": sizes, "loss_output": "loss"}


def make_without_dropout():
    return make(0.0)
