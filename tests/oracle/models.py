#!/usr/bin/env python3
"""Makes tiny models of the families with transformers, and its answers.

usage: models.py OUT [--families a,b] [--variants all|first] [--fuzz N] [--seed S]

Below OUT a directory each, FAMILY-VARIANT, as save_pretrained writes it (random weights, also of norms and
biases), and reference.safetensors with KIND/NAME for every kind of batch (`batches`):
  input_ids, labels, attention_mask, position_ids   what goes in (the last two where the kind has them)
  loss, logits, gradient/PARAMETER                  what comes out, by the parameters' names in the file
  curve/losses, curve/norms                         of five steps of AdamW on this batch, where CURVES has the kind
`padded_logits` is there where the logits of padded tokens are defined (not by plain attention).
"""
import argparse
import copy
import json
import pathlib
import random
import sys
import tempfile

HERE = str(pathlib.Path(__file__).resolve().parent)
sys.path[:] = [p for p in sys.path if p != HERE] + [HERE]  # a script of this folder has the name of a package

import torch
import transformers
from safetensors.torch import load_file, save_file

from families import FAMILIES, LENGTH, WHOLES

ROWS = 4
CURVES = ("plain", "left", "packed")
STEPS = 5
# These give their language model a mask of ones, with which it does not look for documents in positions.
MASKED = ("idefics3", "smolvlm")
# As [optimizer] of the configuration that the driver writes.
OPTIMIZER = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
MAX_NORM = 1.0


def batches(vocab_size, generator):
    """KIND -> the arguments of a forward."""
    def ids():
        return torch.randint(4, vocab_size, (ROWS, LENGTH), generator=generator)

    def masked(mask):
        tokens = ids()
        return dict(input_ids=tokens.masked_fill(mask == 0, 3), attention_mask=mask,
                    labels=tokens.masked_fill(mask == 0, -100))

    places = torch.arange(LENGTH).expand(ROWS, LENGTH)
    lengths = torch.tensor([LENGTH, 5, LENGTH - 1, 1])[:, None]
    made = {}
    tokens = ids()
    labels = tokens.clone()
    labels[0, 2:5] = -100
    labels[1, -2:] = -100
    labels[2] = -100
    made["plain"] = dict(input_ids=tokens, labels=labels)
    made["right"] = masked((places < lengths).long())
    left = (places >= LENGTH - lengths.clamp(min=2)).long()
    made["left"] = masked(left)
    made["left_positions"] = {**masked(left), "position_ids": (left.cumsum(-1) - 1).clamp(min=0)}
    hole = torch.ones(ROWS, LENGTH, dtype=torch.long)
    hole[0, 3:6] = hole[1, 0] = hole[2, 7:] = 0
    made["holes"] = masked(hole)
    positions = torch.stack([torch.cat([torch.arange(n) for n in row]) for row in
                             ([24], [9, 15], [1, 1, 22], [7, 8, 5, 4])])
    tokens = ids()
    made["packed"] = dict(input_ids=tokens, labels=tokens.masked_fill(positions == 0, -100), position_ids=positions)
    return made


def is_plain(config):
    """Attention by plain operators: transformers has no other where scores may be capped."""
    return config.get_text_config().model_type == "gemma2"


def auto_class(config):
    return transformers.AutoModelForImageTextToText if config.model_type in WHOLES else transformers.AutoModelForCausalLM


def arguments_of(model, batch):
    """The batch as the model takes it."""
    if "_vl" not in model.config.model_type or "position_ids" not in batch:
        return batch
    # Positions of the mask, of time, of height and of width.
    return {**batch, "position_ids": batch["position_ids"].expand(4, ROWS, LENGTH)}


def random_model(config, seed):
    torch.manual_seed(seed)
    kind = "eager" if is_plain(config) else "sdpa"
    model = auto_class(config).from_config(config, attn_implementation=kind).float().eval()
    # The default is a kernel for which rows of weights must be multiples of 16 bytes.
    if getattr(model, "_can_set_experts_implementation", lambda: True)():
        model.set_experts_implementation("eager")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def by_stored_name(model, values):
    """What save_pretrained would write if the parameters had these values ({parameter: tensor})."""
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for (_, to), of in zip(twin.named_parameters(), model.parameters(), strict=True):
            to.copy_(values[of])
    with tempfile.TemporaryDirectory() as folder:
        twin.save_pretrained(folder)
        return load_file(f"{folder}/model.safetensors")


def answers(model, batch):
    model.zero_grad()
    output = model(**arguments_of(model, batch))
    output.loss.backward()
    # A parameter that nothing was computed with, as of an expert without a token, has a gradient of zeros.
    gradients = {p: torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()}
    found = {"loss": output.loss.detach().double(), "logits": output.logits.detach()}
    if not is_plain(model.config):
        found["padded_logits"] = torch.tensor(1)
    for name, gradient in by_stored_name(model, gradients).items():
        found[f"gradient/{name}"] = gradient
    model.zero_grad()
    return found


def curve(model, batch):
    model = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), **OPTIMIZER)
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(**arguments_of(model, batch)).loss
        loss.backward()
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM).item())
        optimizer.step()
    return {"curve/losses": torch.tensor(losses, dtype=torch.float64),
            "curve/norms": torch.tensor(norms, dtype=torch.float64)}


def write(directory, config, seed):
    """Model and answers; returns the model."""
    model = random_model(config, seed)
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=1, eos_token_id=2, pad_token_id=0)
    model.save_pretrained(directory)
    found = {}
    generator = torch.Generator().manual_seed(seed)
    for kind, batch in batches(config.get_text_config().vocab_size, generator).items():
        if kind == "packed" and config.model_type in MASKED:
            continue
        given = {**batch, **answers(model, batch), **(curve(model, batch) if kind in CURVES else {})}
        found.update({f"{kind}/{name}": value.clone().contiguous() for name, value in given.items()})
    save_file(found, directory / "reference.safetensors")
    return model


def config_of(family, arguments):
    row = FAMILIES[family]
    return row.config(**{**row.base, **arguments})


def cases(families, variants, fuzz, seed):
    """(name, family, arguments of the configuration, seed of the weights)"""
    for family in families:
        named = list(FAMILIES[family].variants.items())
        for variant, arguments in {"first": named[:1], "none": [], "all": named}[variants]:
            yield f"{family}-{variant}", family, arguments, sum(f"{family}-{variant}".encode())
        for number in range(fuzz):
            rng = random.Random(f"{family} {seed} {number}")
            yield f"{family}-fuzz{seed}_{number}", family, FAMILIES[family].draw(rng), number


def make(out, families, variants, fuzz, seed):
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    out.mkdir(parents=True, exist_ok=True)
    made = []
    for name, family, arguments, weights in cases(families, variants, fuzz, seed):
        directory = out / name
        try:
            write(directory, config_of(family, arguments), weights)
        except Exception as error:
            raise RuntimeError(f"{name}: transformers refuses {json.dumps(arguments)}") from error
        made.append(directory)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--variants", choices=("all", "first", "none"), default="all")
    parser.add_argument("--fuzz", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for directory in make(given.out, given.families.split(","), given.variants, given.fuzz, given.seed):
        print(directory)


if __name__ == "__main__":
    main()
