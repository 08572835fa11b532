#!/usr/bin/env python3
"""Exports small models with tools/sluice_export.py and records what Python computes with them, for tests.

usage: make_archives.py DIR [NAME ...]      (default: all of MODELS; causal_FAMILY: one of causal_families.py)
       make_archives.py --list

Needs torch and transformers. The same versions make the same files. For each NAME, writes to DIR:
  NAME/                         config.json and model.safetensors as transformers saves them; not for a factory
  NAME.pt2                      the archive
  NAME.expected.safetensors     one forward and backward of the exported program in training mode, without dropout
    input.*                     the batch
    output.*, cotangent.*       results and their gradients: the backward starts from sum(output * cotangent)
    grad.*, buffer.*            gradients of parameters; buffers that the program has changed
  NAME.steps.safetensors        for models with a loss: five steps of AdamW without weight decay and dropout
    batch.STEP.MICROBATCH.*     two microbatches per step
    losses, learning_rate       per step, over both microbatches
    after.*                     parameters after the last step
"""
import contextlib
import dataclasses
import io
import json
import pathlib
import sys

import torch
import transformers as tf
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE / "models"))
sys.path.insert(0, str(HERE.parent.parent / "tools"))

import causal_families  # noqa: E402
import sluice_export  # noqa: E402

STEPS = 5
LEARNING_RATE = 1e-3
WIDTHS = dict(vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
              max_position_embeddings=64)
GROUPED = dict(WIDTHS, num_key_value_heads=2)
BLOCKS = dict(WIDTHS, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)


@dataclasses.dataclass
class Model:
    """A model to export: a class and configuration of transformers, or a factory, and the exporter's options."""
    model_class: type | None
    config: object
    options: tuple = ()
    factory: str = ""


MODELS = {
    "llama": Model(tf.LlamaForCausalLM, tf.LlamaConfig(**GROUPED)),
    "llama_loss": Model(tf.LlamaForCausalLM, tf.LlamaConfig(**GROUPED), ("--loss",)),
    "llama_bfloat16": Model(tf.LlamaForCausalLM, tf.LlamaConfig(**GROUPED), ("--dtype", "bfloat16")),
    "gpt2": Model(tf.GPT2LMHeadModel, tf.GPT2Config(vocab_size=128, n_embd=32, n_layer=2, n_head=4, n_positions=64)),
    "t5": Model(tf.T5ForConditionalGeneration,
                tf.T5Config(vocab_size=128, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                            decoder_start_token_id=0), ("--loss",)),
    "t5_logits": Model(tf.T5ForConditionalGeneration,
                       tf.T5Config(vocab_size=128, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                                   decoder_start_token_id=0)),
    "bart": Model(tf.BartForConditionalGeneration,
                  tf.BartConfig(vocab_size=128, d_model=32, encoder_layers=2, decoder_layers=2,
                                encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
                                decoder_ffn_dim=64, max_position_embeddings=64), ("--loss",)),
    "bert": Model(tf.BertForMaskedLM, tf.BertConfig(**BLOCKS), ("--loss", "--input", "attention_mask")),
    "vit": Model(tf.ViTForImageClassification,
                 tf.ViTConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                              image_size=16, patch_size=4, num_labels=10, hidden_dropout_prob=0.1), ("--loss",)),
    "mamba2": Model(tf.Mamba2ForCausalLM,
                    tf.Mamba2Config(vocab_size=128, hidden_size=32, num_hidden_layers=2, state_size=8, num_heads=4,
                                    head_dim=16, n_groups=2, chunk_size=8, expand=2)),
    "gemma3": Model(tf.Gemma3ForCausalLM,
                    tf.Gemma3TextConfig(head_dim=8, sliding_window=8,
                                        layer_types=["sliding_attention", "full_attention"], **GROUPED)),
    "qwen3_moe": Model(tf.Qwen3MoeForCausalLM,
                       tf.Qwen3MoeConfig(head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                                         **GROUPED), ("--weights",)),
    "windows": Model(None, None, (), "windows:make"),
    "unet": Model(None, None, (), "unet:make"),
}


# Names of the archives of the families in causal_families.py.
FAMILY_NAMES = {"causal_" + family.replace("-", "_"): family for family in causal_families.FAMILIES}


def model_of(name):
    if name in MODELS:
        return MODELS[name]
    if name in FAMILY_NAMES:
        return Model(*causal_families.make(FAMILY_NAMES[name]))
    sys.exit(f"make_archives.py: no model '{name}'; known: {', '.join([*MODELS, *FAMILY_NAMES])}")


def save_model(model, directory):
    """Draws the weights so that no tensor is all zeros or all ones."""
    torch.manual_seed(0)
    made = model.model_class(model.config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    with contextlib.redirect_stderr(io.StringIO()):  # progress bars
        made.save_pretrained(directory)


def export(name, model, directory):
    options = list(model.options)
    options += ["--factory", model.factory] if model.factory else ["--model", str(directory / name)]
    written = io.StringIO()
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(written):
        code = sluice_export.main([*options, "--out", str(directory / f"{name}.pt2")])
    if code != 0:
        raise RuntimeError(written.getvalue().strip())
    return written.getvalue().strip()


def without_dropout(module):
    """Turns dropout off in an exported program that otherwise stays in training mode."""
    for owner in module.modules():
        if not isinstance(owner, torch.fx.GraphModule):
            continue
        for node in owner.graph.nodes:
            if node.target is torch.ops.aten.dropout.default:
                node.args = (node.args[0], 0.0, node.args[2])
            elif node.target is torch.ops.aten.scaled_dot_product_attention.default:
                if len(node.args) > 4:
                    node.args = (*node.args[:4], 0.0, *node.args[5:])
                elif "dropout_p" in node.kwargs:
                    node.kwargs = {**node.kwargs, "dropout_p": 0.0}
        owner.recompile()
    return module


class Program:
    """An exported program that runs with the weights of its folder."""

    def __init__(self, name, model, directory):
        extra = {"sluice.json": ""}
        program = torch.export.load(directory / f"{name}.pt2", extra_files=extra)
        self.facts = json.loads(extra["sluice.json"])
        self.module = without_dropout(program.module())
        ties = {tied: first for tied, first in self.facts["ties"]}
        if not self.facts["weights"]:
            weights = load_file(directory / name / "model.safetensors")
            renamed = dict(self.facts["stored"])
            weights = {own: weights[renamed.get(own, own)] for own, _ in self.module.named_parameters(remove_duplicate=False)
                       if renamed.get(own, own) in weights}
            made = {}
            for owner, key, full, parameter in sluice_export.parameters_of(self.module):
                first = ties.get(full, full)
                stored = full if full in weights else first if first in weights else next(
                    tied for tied, of in ties.items() if of == first and tied in weights)
                if first not in made:
                    value = weights[stored].to(parameter.dtype)
                    made[first] = torch.nn.Parameter(value, requires_grad=parameter.requires_grad)
                owner._parameters[key] = made[first]
        self.outputs = self.facts["outputs"]

    def run(self, inputs):
        flat = sluice_export.flat_outputs(torch, self.module(**inputs))
        return dict(zip(self.outputs, flat))

    def loss(self, outputs, inputs):
        """Returns (sum or mean, weight)."""
        facts = self.facts["loss"]
        if facts:
            value = outputs[facts["output"]]
            count = outputs[facts["count"]] if facts["count"] else len(next(iter(inputs.values())))
            return value, count, facts["sum"]
        if "input_ids" in inputs and len(inputs) == 1 and "logits" in outputs:
            logits = outputs["logits"][:, :-1].float()
            labels = inputs["input_ids"][:, 1:]
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten()), labels.numel(), False
        return None


def batches(name, model, directory):
    """Returns a function that draws inputs for given sizes."""
    options = list(model.options)
    options += ["--factory", model.factory] if model.factory else ["--model", str(directory / name)]
    arguments = sluice_export.parse_arguments([*options, "--out", "x.pt2"])
    if model.factory:
        subject = sluice_export.subject_of_factory(torch, arguments, {})
    else:
        subject = sluice_export.subject_of_model(torch, arguments, {})
    return lambda sizes, generator: subject.at(torch, {**subject.examples, **sizes}, generator)


def write_expected(name, program, draw, directory):
    generator = torch.Generator().manual_seed(7)
    inputs = draw({}, generator)
    before = {key: buffer.clone() for key, buffer in program.module.named_buffers()}
    outputs = program.run(inputs)
    saved = {f"input.{key}": value for key, value in inputs.items()}
    total = 0
    for key, output in outputs.items():
        saved[f"output.{key}"] = output.detach()
        if output.requires_grad:
            cotangent = torch.randn(output.shape, generator=generator).to(output.dtype)
            saved[f"cotangent.{key}"] = cotangent
            total = total + (output.float() * cotangent.float()).sum()
    total.backward()
    for key, parameter in program.module.named_parameters():
        if parameter.grad is not None:
            saved[f"grad.{key}"] = parameter.grad
            parameter.grad = None
    with torch.no_grad():
        for key, buffer in program.module.named_buffers():
            if not torch.equal(buffer, before[key]):
                saved[f"buffer.{key}"] = buffer.clone()
                buffer.copy_(before[key])
    save_file({key: value.contiguous().clone() for key, value in saved.items()},
              directory / f"{name}.expected.safetensors")


def write_steps(name, program, draw, directory):
    generator = torch.Generator().manual_seed(8)
    optimizer = torch.optim.AdamW(program.module.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    saved, losses = {}, []
    for step in range(STEPS):
        parts = [draw({}, generator) for _ in range(2)]
        found = []
        for number, inputs in enumerate(parts):
            saved.update({f"batch.{step}.{number}.{key}": value for key, value in inputs.items()})
            loss = program.loss(program.run(inputs), inputs)
            if loss is None:
                return False
            found.append(loss)
        weight = sum(float(count) for _, count, _ in found)
        total = sum(value.float() if is_sum else value.float() * count for value, count, is_sum in found) / weight
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        losses.append(float(total.detach()))
    saved["losses"] = torch.tensor(losses, dtype=torch.float64)
    saved["learning_rate"] = torch.tensor([LEARNING_RATE], dtype=torch.float64)
    saved.update({f"after.{key}": value.detach() for key, value in program.module.named_parameters()})
    save_file({key: value.contiguous().clone() for key, value in saved.items()},
              directory / f"{name}.steps.safetensors")
    return True


def make(name, directory):
    model = model_of(name)
    if not model.factory:
        save_model(model, directory / name)
    said = export(name, model, directory)
    torch.manual_seed(0)
    draw = batches(name, model, directory)
    program = Program(name, model, directory)
    write_expected(name, program, draw, directory)
    write_steps(name, program, draw, directory)
    return said


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join([*MODELS, *FAMILY_NAMES]))
        return 0
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in sys.argv[2:] or MODELS:
        try:
            print(make(name, directory), flush=True)
        except RuntimeError as error:
            failed += 1
            print(f"make_archives.py: {name}: {error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
