#!/usr/bin/env python3
"""Writes tests/reference/adapters: small LoRA adapters of models in tests/reference/models_extra as PEFT
saves them, with PEFT's answers. Needs torch, transformers and peft. Not part of the build.

usage: make_reference_adapters.py [NAME ...]      (all without a name)

Every directory has adapter_config.json, adapter_model.safetensors and expected.json:
  model               the folder of the base in models_extra
  input_ids, labels   two rows; some labels are -100
  loss, counted       mean over the counted labels, and their number
  logits              sum, abs_sum, and all logits of the last token of every row
  grad_norms          of every parameter of the adapter, after a backward from that loss
  merged              sum and abs_sum of every weight that merge_and_unload() changes
"""
import json
import pathlib
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

REFERENCE = pathlib.Path(__file__).resolve().parent.parent / "tests" / "reference"

# name -> base, configuration of the adapter
ADAPTERS = {
    "plain": ("grouped_query", dict(r=4, lora_alpha=16, target_modules=["q_proj", "v_proj"])),
    "all_linear": ("biases", dict(r=2, lora_alpha=3, target_modules="all-linear")),
    "patterns": ("qwen2", dict(r=3, lora_alpha=8, use_rslora=True, target_modules=r".*\.(0|1)\.(self_attn|mlp)\.(o|up|down)_proj",
                               rank_pattern={"up_proj": 5}, alpha_pattern={"layers.1.self_attn.o_proj": 2})),
    "head": ("grouped_query", dict(r=2, lora_alpha=4, target_modules=["lm_head", "down_proj"])),
    "conv1d": ("gpt2_untied_inner", dict(r=3, lora_alpha=6, target_modules=["c_attn", "mlp.c_proj"], fan_in_fan_out=True)),
}


def write(name):
    base, settings = ADAPTERS[name]
    directory = REFERENCE / "models_extra" / base
    generator = torch.Generator().manual_seed(len(name) * 7919 + ord(name[0]))
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager")
    adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **settings))
    with torch.no_grad():
        for key, value in adapted.named_parameters():
            if "lora_" in key:
                value.copy_(torch.randn(value.shape, generator=generator) * 0.2)
    out = REFERENCE / "adapters" / name
    out.mkdir(parents=True, exist_ok=True)
    adapted.save_pretrained(out)
    (out / "README.md").unlink(missing_ok=True)
    config = json.loads((out / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = base  # replaces the path on the machine that made it
    (out / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")

    vocabulary = model.config.vocab_size
    ids = torch.randint(0, vocabulary, (2, 9), generator=generator)
    labels = ids.clone()
    labels[0, :3] = -100
    labels[1, -1] = -100
    adapted.train(False)
    result = adapted(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels)
    result.loss.backward()
    logits = result.logits.detach()
    expected = {
        "model": base,
        "input_ids": ids.tolist(),
        "labels": labels.tolist(),
        "loss": result.loss.item(),
        "counted": int((labels[:, 1:] != -100).sum()),
        "logits": {"sum": logits.sum().item(), "abs_sum": logits.abs().sum().item(), "last_tokens": logits[:, -1].tolist()},
        "grad_norms": {
            key.removeprefix("base_model.model.").replace(".default", ""): value.grad.norm().item()
            for key, value in adapted.named_parameters() if value.requires_grad
        },
    }
    before = {key: value.clone() for key, value in AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).state_dict().items()}
    merged = adapted.merge_and_unload().state_dict()
    expected["merged"] = {
        key: {"sum": value.double().sum().item(), "abs_sum": value.double().abs().sum().item()}
        for key, value in merged.items() if not torch.equal(value, before[key])
    }
    (out / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    print(name, "loss", expected["loss"], "merged", len(expected["merged"]))


if __name__ == "__main__":
    for wanted in sys.argv[1:] or ADAPTERS:
        write(wanted)
