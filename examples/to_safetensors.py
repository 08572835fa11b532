#!/usr/bin/env python3
"""Converts weights that torch has pickled: to_safetensors.py SOURCE OUT.safetensors.

SOURCE: a file written by torch.save, a folder with pytorch_model*.bin, or a torch.distributed.checkpoint folder.
"""
import pathlib, sys, tempfile
import torch
from safetensors.torch import save_file
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

def tensors_in(state, prefix=""):
    if isinstance(state, torch.Tensor):
        yield prefix, state
    elif isinstance(state, dict):
        for key, value in state.items():
            yield from tensors_in(value, f"{prefix}.{key}" if prefix else str(key))

def load(source):
    if source.is_file():
        return torch.load(source, map_location="cpu", weights_only=True)
    if not (source / ".metadata").exists():
        parts = sorted(source.glob("pytorch_model*.bin"))
        return {name: tensor for part in parts for name, tensor in load(part).items()}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "state.pt"
        dcp_to_torch_save(source, file)
        return load(file)

source, out = map(pathlib.Path, sys.argv[1:3])
state = load(source)
state = state.get("model", state.get("state_dict", state))  # the weights, without the optimizer
weights, first_use = {}, {}
for name, tensor in tensors_in(state):
    place = (tensor.data_ptr(), tensor.shape, tensor.stride())
    if tensor.numel() and place in first_use:  # tied weights are stored once
        print(f"{name} is tied to {first_use[place]}")
        continue
    first_use[place] = name
    weights[name] = tensor.clone(memory_format=torch.contiguous_format)
save_file(weights, out, metadata={"format": "pt"})
