#!/usr/bin/env python3
"""Compares LoRA adapters with PEFT. PEFT loads and merges what `sluice train` writes, and sluice trains on
what PEFT writes, as PEFT does. Needs torch, transformers and peft. Exits 1 at the first difference.

usage: check_adapters.py --sluice build/bin/sluice --work DIR [NAME ...]
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen2Config

LENGTH, ROWS, STEPS = 16, 24, 6
# Standard deviation of adapters that PEFT initializes. With 0.1 the GPT-2 diverges: at step 4 PyTorch's
# float32 losses differ from its float64 losses by 1e-3. With 0.03 they differ by 5e-7.
START = 0.03
LLAMA = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.08, tie_word_embeddings=False,
             bos_token_id=1, eos_token_id=2)
GPT2 = dict(vocab_size=64, n_embd=32, n_layer=4, n_head=4, n_positions=32, initializer_range=0.08, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2)

# name -> (base model, sluice's keys, equivalent PEFT settings)
CASES = {
    "llama": (LlamaConfig(**LLAMA), {"rank": 4}, dict(r=4, lora_alpha=16, target_modules=["q_proj", "v_proj"])),
    "llama_some_layers": (
        LlamaConfig(**LLAMA), {"rank": 3, "alpha": 5.5, "target": ["*layers.2.*proj", "lm_head"]},
        dict(r=3, lora_alpha=5.5, target_modules=r".*layers\.2\..*proj|lm_head")),
    "qwen2_tied": (
        Qwen2Config(**{**LLAMA, "tie_word_embeddings": True}), {"rank": 2, "target": ["*mlp*"]},
        dict(r=2, lora_alpha=16, target_modules=["gate_proj", "up_proj", "down_proj"])),
    "gpt2": (
        GPT2Config(**GPT2), {"rank": 4, "target": ["*c_attn", "*c_proj", "*c_fc"]},
        dict(r=4, lora_alpha=16, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)),
    "rank_stabilized": (
        LlamaConfig(**LLAMA), None,
        dict(r=4, lora_alpha=6, use_rslora=True, target_modules="all-linear", rank_pattern={"up_proj": 2},
             alpha_pattern={"layers.1.self_attn.q_proj": 3})),
}

SHARDED = ("llama_some_layers",)


class Failure(Exception):
    pass


def require_near(what, found, expected, tolerance):
    difference = abs(found - expected)
    if not difference <= tolerance:
        raise Failure(f"{what}: {found} and {expected} differ by {difference}, more than {tolerance}")


class Case:
    def __init__(self, name, sluice, work):
        self.name, self.sluice = name, sluice
        self.folder = work / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.config, self.keys, self.settings = CASES[name]
        self.base = self.folder / "base"
        generator = torch.Generator().manual_seed(len(name))
        torch.manual_seed(len(name) + 1)
        shards = {"max_shard_size": "20KB"} if name in SHARDED else {}
        AutoModelForCausalLM.from_config(self.config).float().save_pretrained(self.base, **shards)
        self.rows = torch.randint(3, 64, (ROWS, LENGTH), generator=generator)
        (self.folder / "rows.jsonl").write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in self.rows.tolist()))
        (self.folder / "run.toml").write_text(f"""
[model]
path = "base"
[data]
files = ["rows.jsonl"]
shuffle = false
[training]
steps = {STEPS}
local_batch_size = 4
microbatch_size = 2
seq_len = {LENGTH}
[optimizer]
lr = 1e-2
[parallelism]
pipeline_parallel_degree = 2
[checkpoint]
folder = "out/checkpoint"
[metrics]
folder = "out"
""")

    def run(self, *arguments):
        command = [str(self.sluice), *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise Failure(f"{' '.join(command)}: exit {result.returncode}: {result.stderr.strip()}")
        return result.stdout

    def load_base(self):
        return AutoModelForCausalLM.from_pretrained(self.base, dtype=torch.float32)

    def loss_of(self, model):
        model.eval()
        with torch.no_grad():
            return model(input_ids=self.rows, labels=self.rows).loss.item()

    def train(self, folder, *options):
        self.run("train", self.folder / "run.toml", f"--checkpoint.folder={folder}/checkpoint", f"--metrics.folder={folder}",
                 *options)
        return folder / "checkpoint" / f"step-{STEPS:08d}"

    def check_written(self, step):
        """PEFT must load sluice's adapter with the same loss, and merge it into the same weights."""
        evaluated = json.loads(self.run("eval", self.folder / "run.toml", "--json", f"--checkpoint={step}"))
        adapted = PeftModel.from_pretrained(self.load_base(), step)
        if list(adapted.active_adapters) != ["default"]:
            raise Failure("PEFT has loaded no adapter")
        require_near("loss of the adapter", evaluated["loss"], self.loss_of(adapted), 1e-5)
        base_loss = self.loss_of(self.load_base())
        if abs(evaluated["loss"] - base_loss) < 1e-3:
            raise Failure("the adapter has learnt nothing, so nothing is compared")
        out = step.parent.parent / "merged"
        self.run("checkpoint", "export", step, out, "--merge")
        names = {path.name for path in self.base.glob("model*")}
        if {path.name for path in out.glob("model*")} != names:
            raise Failure("the merged model is not in the files of its base")
        ours = {key: value for shard in out.glob("*.safetensors") for key, value in load_file(shard).items()}
        theirs = adapted.merge_and_unload().state_dict()
        for key, value in ours.items():
            require_near(f"merged {key}", (value - theirs[key]).abs().max().item(), 0, 1e-6)
        require_near("loss of the merged model",
                     self.loss_of(AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32)), evaluated["loss"], 1e-5)

    def check_new(self):
        options = [f"--lora.{key}={json.dumps(value)}" for key, value in self.keys.items()]
        self.check_written(self.train(self.folder / "new", *options))

    def check_continued(self):
        """PEFT makes an adapter; sluice and PEFT both train it and must get the same losses and weights."""
        adapted = get_peft_model(self.load_base(), LoraConfig(task_type="CAUSAL_LM", **self.settings))
        generator = torch.Generator().manual_seed(5)
        with torch.no_grad():
            for key, value in adapted.named_parameters():
                if "lora_" in key:
                    value.copy_(torch.randn(value.shape, generator=generator) * START)
        directory = self.folder / "peft"
        adapted.save_pretrained(directory)
        out = self.folder / "continued"
        step = self.train(out, f"--model.adapter={directory}")
        losses = [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()]

        # Uses float64, because Adam turns the rounding errors of tiny gradients into full steps.
        adapted = adapted.double()
        parameters = [value for value in adapted.parameters() if value.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
        adapted.train()
        for number, loss in enumerate(losses):
            rows = self.rows[4 * number:4 * number + 4]
            result = adapted(input_ids=rows, labels=rows).loss
            require_near(f"loss of step {number + 1}", loss, result.item(), 2e-5)
            optimizer.zero_grad()
            result.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
        ours = load_file(step / "adapter_model.safetensors")
        theirs = {key.replace(".default", ""): value for key, value in adapted.named_parameters() if value.requires_grad}
        if set(ours) != set(theirs):
            raise Failure(f"the adapters have other tensors: {sorted(set(ours) ^ set(theirs))[:4]}")
        for key, value in ours.items():
            require_near(key, (value - theirs[key].detach()).abs().max().item(), 0, 1e-3)
        self.check_written(step)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sluice", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="a folder for what the tests write")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.names or CASES:
        case = Case(name, arguments.sluice.resolve(), arguments.work.resolve())
        try:
            if case.keys is not None:
                case.check_new()
            case.check_continued()
        except Failure as failure:
            print(f"{name}: {failure}", file=sys.stderr)
            return 1
        print(f"{name}: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
