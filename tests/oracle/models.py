#!/usr/bin/env python3
"""Makes tiny models of the families with transformers, and records transformers' answers.

usage: models.py OUT [--families a,b] [--variants all|first] [--fuzz N] [--seed S]

Writes a directory OUT/FAMILY-VARIANT per model with save_pretrained (all weights are random, also those of norms and
biases). Its reference.safetensors has KIND/NAME for every kind of batch (`batches`):
  input_ids, labels, attention_mask, position_ids   the inputs (the last two only for some kinds)
  loss, logits, gradient/PARAMETER                  the results, by the parameters' names in the file
  gradient_spread                                   largest difference between models that differ in last bits
  curve/losses, curve/norms                         of five steps of AdamW on this batch, for the kinds in CURVES
  curve/losses_spread, curve/norms_spread           largest difference between models that differ in last bits (`curve`)
  curve_of_rows/..                                  the same with a forward per row, if that computes something else
`padded_logits` is present if the logits of padded tokens are defined, which they are not with plain attention.
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
NEIGHBOURS = 4
# These classes pass a mask of ones to their language model, which then ignores documents in positions.
MASKED = ("idefics3", "smolvlm")
# The [optimizer] settings in the driver's configuration.
OPTIMIZER = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
MAX_NORM = 1.0


def batches(vocab_size, generator):
    """Returns KIND -> arguments of a forward."""
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
    """Whether attention uses plain operators. transformers requires that if scores may be capped."""
    return config.get_text_config().model_type == "gemma2"


def auto_class(config):
    return transformers.AutoModelForImageTextToText if config.model_type in WHOLES else transformers.AutoModelForCausalLM


def arguments_of(model, batch):
    """Returns the batch in the form that the model takes."""
    if "_vl" not in model.config.model_type or "position_ids" not in batch:
        return batch
    # Four rows: positions for the mask, of time, of height and of width.
    return {**batch, "position_ids": batch["position_ids"].expand(4, -1, -1)}


def use_plain_experts(model):
    """Replaces the default kernel, which needs weight rows that are multiples of 16 bytes."""
    if getattr(model, "_can_set_experts_implementation", lambda: True)():
        model.set_experts_implementation("eager")


def random_model(config, seed):
    torch.manual_seed(seed)
    kind = "eager" if is_plain(config) else "sdpa"
    model = auto_class(config).from_config(config, attn_implementation=kind).float().eval()
    use_plain_experts(model)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def by_stored_name(model, values):
    """Returns the tensors that save_pretrained would write if the parameters had these values ({parameter:
    tensor})."""
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for (_, to), of in zip(twin.named_parameters(), model.parameters(), strict=True):
            to.copy_(values[of])
    with tempfile.TemporaryDirectory() as folder:
        twin.save_pretrained(folder)
        return load_file(f"{folder}/model.safetensors")


def neighbours(model):
    """Yields copies of the model in which about half of the weights differ in the last bit."""
    for seed in range(NEIGHBOURS):
        twin, generator = copy.deepcopy(model), torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.mul_(1 + 2.0**-24 * torch.randn(parameter.shape, generator=generator))
        yield twin


def gradients_of(model, batch):
    model.zero_grad()
    output = model(**arguments_of(model, batch))
    output.loss.backward()
    # A parameter that took no part in the computation, such as an expert without tokens, has a zero gradient.
    return output, [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]


def spread_of(gradients, model, batch):
    """Returns the largest difference between the gradients of neighbours, relative as in oracle_compare.
    Where a norm divides by almost nothing, as with two channels, last bits change more than the digits
    that are compared."""
    largest = max(gradient.abs().max().item() for gradient in gradients)
    return max((other - gradient).abs().max().item() / (gradient.abs().max().item() + 2e-3 * largest)
               for neighbour in neighbours(model) for other, gradient in
               zip(gradients_of(neighbour, batch)[1], gradients, strict=True))


def answers(model, batch):
    output, values = gradients_of(model, batch)
    gradients = dict(zip(model.parameters(), values, strict=True))
    found = {"loss": output.loss.detach().double(), "logits": output.logits.detach(),
             "gradient_spread": torch.tensor(spread_of(values, model, batch), dtype=torch.float64)}
    if not is_plain(model.config):
        found["padded_logits"] = torch.tensor(1)
    for name, gradient in by_stored_name(model, gradients).items():
        found[f"gradient/{name}"] = gradient
    model.zero_grad()
    return found


def depends_on_microbatches(config):
    """Whether results depend on the microbatches. "longrope" uses other angles if any row of a forward has a
    large position."""
    return (getattr(config.get_text_config(), "rope_parameters", None) or {}).get("rope_type") == "longrope"


def steps(model, batch, by_rows):
    """Trains for STEPS steps, which change the model. Returns losses and norms. by_rows: a forward per row."""
    optimizer = torch.optim.AdamW(model.parameters(), **OPTIMIZER)
    parts = [batch]
    counted = {}
    if by_rows:
        parts = [{name: value[row:row + 1] for name, value in batch.items()} for row in range(ROWS)]
        counted = {"num_items_in_batch": (batch["labels"][:, 1:] != -100).sum()}
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = 0.0
        for part in parts:
            of_part = model(**arguments_of(model, part), **counted).loss
            of_part.backward()
            loss += of_part.item()
        losses.append(loss)
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM).item())
        optimizer.step()
    return torch.tensor([losses, norms], dtype=torch.float64)


def curve(model, batch, name="curve", by_rows=False):
    """Returns losses and norms, and their largest difference between neighbours.

    An update of AdamW has the size of the learning rate even if a gradient is only rounding noise, and routers and
    relu are discontinuous. If a run comes near such a point, last bits decide its curve, in any program."""
    found = steps(copy.deepcopy(model), batch, by_rows)
    others = torch.stack([steps(neighbour, batch, by_rows) for neighbour in neighbours(model)])
    spread = (others - found).abs().amax(dim=0)
    names = ("losses", "norms", "losses_spread", "norms_spread")
    return {f"{name}/{part}": value for part, value in zip(names, (*found, *spread), strict=True)}


def write(directory, config, seed):
    """Writes the model and its answers, and returns the model."""
    model = random_model(config, seed)
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=1, eos_token_id=2, pad_token_id=0)
    model.save_pretrained(directory)
    found = {}
    generator = torch.Generator().manual_seed(seed)
    for kind, batch in batches(config.get_text_config().vocab_size, generator).items():
        if kind == "packed" and config.model_type in MASKED:
            continue
        given = {**batch, **answers(model, batch)}
        if kind in CURVES:
            given.update(curve(model, batch))
            if depends_on_microbatches(config):
                given.update(curve(model, batch, "curve_of_rows", by_rows=True))
        found.update({f"{kind}/{name}": value.clone().contiguous() for name, value in given.items()})
    save_file(found, directory / "reference.safetensors")
    return model


def config_of(family, arguments):
    row = FAMILIES[family]
    return row.config(**{**row.base, **arguments})


def cases(families, variants, fuzz, seed):
    """Yields (name, family, arguments of the configuration, seed of the weights)."""
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
