#!/usr/bin/env python3
"""Exports a PyTorch model for sluice: a torch.export archive of its training step, which `sluice plan`,
`sluice train` and `sluice graph inspect` read without Python.

    python sluice_export.py --model DIR --out model.pt2              a model of transformers; needs transformers
    python sluice_export.py --factory my_model:make --out model.pt2  any torch.nn.Module

DIR has a config.json. Weights are not read and are not in the archive: `sluice train --model.graph model.pt2
--model.path DIR` takes them from DIR by name. With --weights they are in the archive.

A factory is a function without arguments; its module is found from the working directory. It returns the module,
or (module, inputs), or (module, inputs, options). Inputs are tensors as an example, by the names of forward's
arguments. Options, all of them optional:

    sizes        {"rows": {"ids": 0, "labels": 0}, "length": {"ids": 1}}: dimensions that may vary. Equal dimensions
                 share a name. An input may have a list of dimensions instead of one. Without `sizes`, dimension 0 of
                 every input is "rows", and nothing else varies
    ranges       {"length": (1, 512)}: the minimum and maximum of a size; None as maximum: no limit
    limits       {"ids": 1000}: integers of that input are below this number. The check draws such integers
    draw         a function that returns inputs of the given sizes ({"rows": 3, "length": 7}). Use it for inputs that
                 depend on each other, such as ids with an image token for each image. Without it the tool draws each
                 input independently
    loss_output  "loss": the output that training minimizes. loss_count: an output with the count that the loss is a
                 sum over, or a mean over if loss_is_sum is False. Without a count all rows have equal weight
    outputs      names of what forward returns, if that is not a dictionary

An example, my_model.py:

    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        def forward(self, x):
            query, key, value = self.mix(self.norm(x)).chunk(3, -1)
            return x + F.scaled_dot_product_attention(query, key, value)

    class Tagger(nn.Module):
        def __init__(self, words, tags, width=64, depth=4):
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
            self.tags = nn.Linear(width, tags)
        def forward(self, ids, labels):
            x = self.words(ids)
            for block in self.blocks:
                x = block(x)
            logits = self.tags(x)
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
            return {"loss": loss, "count": (labels >= 0).sum(), "logits": logits}

    def make():
        inputs = {"ids": torch.randint(1000, (4, 12)), "labels": torch.randint(9, (4, 12))}
        sizes = {"rows": {"ids": 0, "labels": 0}, "length": {"ids": 1, "labels": 1}}
        limits = {"ids": 1000, "labels": 9}
        return Tagger(1000, 9), inputs, {"sizes": sizes, "limits": limits, "loss_output": "loss", "loss_count": "count"}

Exit codes: 0, 2 (wrong usage), 3 (the model cannot be exported), 130 (interrupted).
"""
import argparse
import contextlib
import copy
import fnmatch
import importlib
import inspect
import io
import itertools
import json
import logging
import os
import re
import shutil
import sys
import tempfile
import types
import warnings
import zipfile

VERSION = "1"  # version of this tool; "tool" in sluice.json
FORMAT = 1  # version of sluice.json
TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "bfloat16": 2e-2, "float16": 5e-3}

# Kinds of inputs of transformers' models. Dimensions are names of sizes or numbers.
TOKENS, MASK, POSITIONS, REAL = "tokens", "mask", "positions", "real"


class ExportError(Exception):
    """A failure that the user can fix: one line with what happened, where, and the remedy."""


def fail(what, remedy):
    raise ExportError(f"{what}; {remedy}")


def import_torch():
    try:
        import torch
    except ImportError:
        fail("this Python has no torch", "install it (pip install torch) or call the Python that has it")
    return torch


# --- what is exported ------------------------------------------------------------------------------------------


class Subject:
    """A module with example inputs and the facts that the exporter needs.

    sizes: {name: [(input, dimension), ..]}; examples: {name: int}; ranges: {name: (least, greatest or None)};
    limits: {input: exclusive upper bound of integers}; kinds: {input: TOKENS, ..}; count: a function that computes
    loss_count from the inputs, or None."""

    def __init__(self, module, inputs):
        self.module = module
        self.inputs = inputs
        self.sizes, self.examples, self.ranges, self.limits, self.kinds = {}, {}, {}, {}, {}
        self.loss_output = self.loss_count = ""
        self.loss_is_sum = False
        self.outputs = None
        self.config = None
        self.notes = []
        self.draw_inputs = None  # a factory's function of the sizes
        self.state = None  # ModuleState before the first run or trace

    def restore(self):
        """Restores the module's state from before its first run or trace, but keeps its current mode."""
        if self.state:
            is_training = self.module.training
            self.state.restore()
            self.module.train(is_training)

    def at(self, torch, sizes, generator):
        """Draws inputs of other sizes. sizes: {name: int}."""
        if self.draw_inputs:
            return self.inputs_of_factory(torch, sizes)
        drawn = {}
        for name, example in self.inputs.items():
            if not isinstance(example, torch.Tensor):
                drawn[name] = example
                continue
            shape = list(example.shape)
            for size, places in self.sizes.items():
                for place, dim in places:
                    if place == name:
                        shape[dim] = sizes[size]
            drawn[name] = self.draw(torch, name, shape, example, generator)
        return drawn

    def inputs_of_factory(self, torch, sizes):
        drawn = dict(self.draw_inputs(dict(sizes)))
        if drawn.keys() != self.inputs.keys():
            fail(f"draw of the factory returned {', '.join(drawn) or 'nothing'}", f"return {', '.join(self.inputs)}")
        for size, places in self.sizes.items():
            for name, dim in places:
                if drawn[name].shape[dim] != sizes[size]:
                    fail(f"draw of the factory returned {drawn[name].shape[dim]} in dimension {dim} of '{name}' for the "
                         f"size {size} = {sizes[size]}", "return inputs of the sizes that draw is given")
        return drawn

    def draw(self, torch, name, shape, example, generator):
        kind = self.kinds.get(name)
        if kind == MASK:
            mask = torch.ones(shape, dtype=example.dtype)
            for row in range(1, shape[0]):
                mask[row, max(1, shape[1] - row):] = 0
            return mask
        if kind == POSITIONS:
            return torch.arange(shape[-1], dtype=example.dtype).expand(shape).contiguous()
        if example.is_floating_point():
            return torch.randn(shape, generator=generator, dtype=torch.float32).to(example.dtype)
        if example.is_complex():
            return torch.randn(shape, generator=generator, dtype=example.dtype)
        if example.dtype == torch.bool:
            return torch.rand(shape, generator=generator) < 0.8
        if name in self.limits:
            return torch.randint(0, self.limits[name], shape, generator=generator, dtype=example.dtype)
        # The meaning of these integers is unknown, so draw from the values of the example.
        flat = example.flatten()
        if flat.numel() == 0:
            fail(f"input '{name}' is empty in the example", "give an example with values")
        return flat[torch.randint(0, flat.numel(), shape, generator=generator)].clone()


def parse_number(text, of):
    try:
        return int(text)
    except ValueError:
        fail(f"'{text}' in {of} is not a whole number", "write for example --size length=64:1:512")


def asked_sizes(arguments):
    """Returns {name: (example, least or None, greatest or None)} from --size, --rows and --length."""
    asked = {}
    texts = list(arguments.size)
    texts += [f"rows={arguments.rows}"] if arguments.rows else []
    texts += [f"length={arguments.length}"] if arguments.length else []
    for text in texts:
        name, equals, rest = text.partition("=")
        if not equals or not name.isidentifier():
            fail(f"--size {text} is not NAME=EXAMPLE[:LEAST[:GREATEST]]", "write for example --size length=64:1:512")
        numbers = [parse_number(part, f"--size {text}") for part in rest.split(":")]
        if len(numbers) > 3 or min(numbers) < 1:
            fail(f"--size {text} does not have one to three numbers above 0", "write NAME=EXAMPLE[:LEAST[:GREATEST]]")
        asked[name] = tuple(numbers + [None] * (3 - len(numbers)))
    return asked


def apply_asked_sizes(subject, asked):
    for name, (example, least, greatest) in asked.items():
        if name not in subject.sizes:
            known = ", ".join(sorted(subject.sizes)) or "none"
            fail(f"--size {name}: the model's inputs have no size of that name", f"known: {known}")
        subject.examples[name] = example
        low, high = subject.ranges.get(name, (1, None))
        subject.ranges[name] = (least or low, greatest or high)
    for name, (least, greatest) in subject.ranges.items():
        example = subject.examples[name]
        if example < least or (greatest is not None and example > greatest):
            fail(f"size '{name}': the example {example} is outside {least} .. {greatest or 'any'}",
                 f"give --size {name}=EXAMPLE within it")


# --- a factory -------------------------------------------------------------------------------------------------


def load_factory(text):
    name, colon, function = text.partition(":")
    if not colon or not name or not function:
        fail(f"--factory {text} is not MODULE:FUNCTION", "write for example --factory my_model:make")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        fail(f"--factory {text}: {first_line(error)}", "call this program in the folder that has the module's file")
    if not callable(getattr(module, function, None)):
        fail(f"--factory {text}: the module has no function '{function}'", "name one that returns the model")
    return getattr(module, function)


def parse_dimension(text):
    return int(text) if text.isdigit() else text


def parse_input(torch, text):
    """Parses NAME=DTYPE[<LIMIT]:DIM,DIM,.. of --input as (name, dtype, limit or None, dimensions)."""
    match = re.fullmatch(r"(\w+)=(\w+)(?:<(\d+))?:([\w,]+)", text)
    dtype = getattr(torch, match.group(2), None) if match else None
    if not isinstance(dtype, torch.dtype):
        fail(f"--input {text} is not NAME=DTYPE[<LIMIT]:DIM,DIM",
             "write for example --input 'ids=int64<1000:rows,length'")
    return match.group(1), dtype, match.group(3), [parse_dimension(dim) for dim in match.group(4).split(",")]


def add_input(torch, subject, name, dtype, limit, dims, examples):
    """Adds an example input to the subject; dims: names of sizes or numbers."""
    shape = []
    for number, dim in enumerate(dims):
        if isinstance(dim, str):
            subject.sizes.setdefault(dim, []).append((name, number))
            subject.examples.setdefault(dim, examples.get(dim, (2 + len(subject.examples),))[0])
            subject.ranges.setdefault(dim, (1, None))
            shape.append(subject.examples[dim])
        else:
            shape.append(dim)
    if limit is not None:
        subject.limits[name] = int(limit)
    if dtype.is_floating_point:
        subject.inputs[name] = torch.randn(shape).to(dtype)
    else:
        subject.inputs[name] = torch.zeros(shape, dtype=dtype)


def subject_of_factory(torch, arguments, asked):
    made = load_factory(arguments.factory)()
    parts = made if isinstance(made, tuple) else (made,)
    module, inputs, options = (parts + (None, None))[:3]
    if not isinstance(module, torch.nn.Module) or len(parts) > 3:
        fail(f"--factory {arguments.factory} returned no torch.nn.Module", "return it, or (module, inputs, options)")
    options = dict(options or {})
    subject = Subject(module, dict(inputs or {}))
    known = {"sizes", "ranges", "limits", "loss_output", "loss_count", "loss_is_sum", "outputs", "config", "draw"}
    for key in options.keys() - known:
        fail(f"--factory {arguments.factory}: unknown option '{key}'", f"known: {', '.join(sorted(known))}")
    for text in arguments.input:
        add_input(torch, subject, *parse_input(torch, text), asked)
    if not subject.inputs:
        fail(f"--factory {arguments.factory} gave no example of the inputs",
             "return (module, {name: tensor}) or give --input NAME=DTYPE:DIM,DIM")
    if "sizes" in options:
        for size, places in options["sizes"].items():
            subject.sizes[size] = [(name, dim) for name, dims in places.items()
                                   for dim in (dims if isinstance(dims, (list, tuple)) else [dims])]
    elif not subject.sizes:
        tensors = {name: value for name, value in subject.inputs.items()
                   if isinstance(value, torch.Tensor) and value.dim() > 0}
        if len({value.shape[0] for value in tensors.values()}) != 1:
            fail("dimension 0 of the inputs is not one size in the example",
                 'name the dimensions that vary, as the third result of the factory: {"sizes": {"rows": {"ids": 0}}}')
        subject.sizes["rows"] = [(name, 0) for name in tensors]
        subject.notes.append("Dimension 0 of every input is taken as its rows; no other size varies.")
    for size, places in subject.sizes.items():
        found = set()
        for name, dim in places:
            if name not in subject.inputs or dim >= subject.inputs[name].dim():
                fail(f"size '{size}': there is no input '{name}' with a dimension {dim}", "mend sizes of the factory")
            found.add(subject.inputs[name].shape[dim])
        if len(found) != 1:
            fail(f"size '{size}' is {' and '.join(map(str, sorted(found)))} in the example", "give two sizes two names")
        subject.examples[size] = found.pop()
        subject.ranges[size] = tuple(options.get("ranges", {}).get(size, (1, None)))
    subject.limits.update(options.get("limits", {}))
    subject.loss_output = options.get("loss_output", "")
    subject.loss_count = options.get("loss_count", "")
    subject.loss_is_sum = bool(options.get("loss_is_sum", bool(subject.loss_count)))
    subject.outputs = list(options["outputs"]) if options.get("outputs") else None
    subject.config = options.get("config")
    subject.draw_inputs = options.get("draw")
    return subject


# --- a model of transformers -----------------------------------------------------------------------------------


def import_transformers():
    try:
        import transformers
    except ImportError:
        fail("--model needs transformers, which this Python does not have",
             "install it (pip install transformers) or give the model with --factory")
    return transformers


def read_config(transformers, directory):
    path = os.path.join(directory, "config.json")
    if not os.path.isfile(path):
        fail(f"{path} is not there", "name a folder with config.json, as transformers' save_pretrained() writes it")
    with open(path, encoding="utf-8") as file:
        try:
            text = json.load(file)
        except ValueError as error:
            fail(f"{path}: {first_line(error)}", "mend the file")
    try:
        return transformers.AutoConfig.from_pretrained(directory), text
    except (ValueError, KeyError, OSError, TypeError) as error:
        fail(f"{path}: transformers {transformers.__version__} does not support this model ({first_line(error)})",
             "install a version that has its model_type, or give the model with --factory")


def class_of_model(transformers, config, asked):
    names = [asked] if asked else list(config.architectures or [])
    if not names:
        try:
            return transformers.AutoModelForCausalLM._model_mapping[type(config)]
        except KeyError:
            fail(f"config.json names no class (architectures), and '{config.model_type}' has no causal language model",
                 "name one with --class, for example --class BertForMaskedLM")
    found = getattr(transformers, names[0], None)
    if found is None or not hasattr(found, "_from_config"):
        fail(f"transformers {transformers.__version__} has no model class '{names[0]}'",
             "name one with --class, install a version that has it, or give the model with --factory")
    return found


def sub_configs(config):
    yield config
    for key in getattr(config, "sub_configs", {}):
        if getattr(config, key, None) is not None:
            yield from sub_configs(getattr(config, key))


@contextlib.contextmanager
def parameters_without_memory(torch):
    """Gives modules constructed within this context parameters without memory. Buffers have memory."""
    register = torch.nn.Module.register_parameter

    def register_on_meta(self, name, parameter):
        register(self, name, parameter)
        if parameter is not None and parameter.device.type != "meta":
            kept = parameter.__dict__
            on_meta = torch.nn.Parameter(parameter.data.to("meta"), requires_grad=parameter.requires_grad)
            on_meta.__dict__.update(kept)
            self._parameters[name] = on_meta

    torch.nn.Module.register_parameter = register_on_meta
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register


def build_of_config(torch, model_class, config, arguments, notes, without_memory):
    config = copy.deepcopy(config)
    for part in sub_configs(config):
        if hasattr(part, "use_cache"):
            part.use_cache = False
        # Skipping layers at random is a branch in Python, and an archive contains only one side of a branch.
        for key in ("layerdrop", "encoder_layerdrop", "decoder_layerdrop"):
            if getattr(part, key, 0):
                notes.append(f"{key} of config.json is taken as 0: an archive cannot leave out layers at random.")
                setattr(part, key, 0.0)
    dtype = getattr(torch, arguments.dtype)
    context = parameters_without_memory(torch) if without_memory else contextlib.nullcontext()
    with context:
        try:
            model = model_class._from_config(config, dtype=dtype, attn_implementation=arguments.attention)
        except (ValueError, ImportError) as error:
            if arguments.attention != "eager" and "attention" in str(error):
                notes.append(f"transformers has no attention '{arguments.attention}' for this model: it has its 'eager' one, if any.")
                model = model_class._from_config(config, dtype=dtype, attn_implementation="eager")
            else:
                fail(f"{model_class.__name__}: {first_line(error)}", "mend config.json or choose another --class")
    can_choose = getattr(model, "_can_set_experts_implementation", None)
    if can_choose is not None and can_choose():
        model.set_experts_implementation(arguments.experts)
    elif hasattr(model, "set_experts_implementation"):
        with contextlib.suppress(Exception):  # models with parts: sets the language model's experts
            model.set_experts_implementation(arguments.experts)
    if any(getattr(part, "gradient_checkpointing", False) for part in model.modules()):
        model.gradient_checkpointing_disable()
        notes.append("The model's gradient checkpointing is dropped: sluice has its own.")
    return model


def learned_positions(torch, model):
    """Returns [(name, maximum number of tokens)] of the model's tables of learned positions."""
    found = []
    for name, module in model.named_modules():
        leaf = name.rsplit(".", 1)[-1]
        is_learned = isinstance(module, torch.nn.Embedding) and (
            leaf == "wpe" or leaf == "embed_positions" or "position_embedding" in leaf)
        if is_learned and "relative" not in leaf and "bias" not in leaf:
            offset = getattr(module, "offset", 0)
            if module.padding_idx is not None and not offset:
                offset = module.padding_idx + 1
            found.append((name, module.num_embeddings - offset))
    return found


def known_inputs(torch, config, model, with_loss):
    """Returns {name: (dtype, dims, limit, kind)} of the inputs that a model of transformers may take."""
    text = config.get_text_config()
    words = getattr(text, "vocab_size", 0) or 0
    class_name = type(model).__name__
    seconds = getattr(text, "decoder_vocab_size", None) or words
    length = ["rows", "length"]
    other = ["rows", "decoder_length"]
    encoder_decoder = bool(getattr(config, "is_encoder_decoder", False))
    known = {
        "input_ids": (torch.int64, length, words, TOKENS),
        "attention_mask": (torch.int64, length, 2, MASK),
        "token_type_ids": (torch.int64, length, getattr(text, "type_vocab_size", 1) or 1, TOKENS),
        "position_ids": (torch.int64, length, None, POSITIONS),
        "decoder_input_ids": (torch.int64, other, seconds, TOKENS),
        "decoder_attention_mask": (torch.int64, other, 2, MASK),
        "bool_masked_pos": (torch.bool, ["rows", patches(config)], None, None),
        "start_positions": (torch.int64, ["rows"], 2, None),
        "end_positions": (torch.int64, ["rows"], 2, None),
    }
    image = getattr(config, "vision_config", config)
    side = getattr(image, "image_size", None)
    if side:
        height, width = side if isinstance(side, (list, tuple)) else (side, side)
        known["pixel_values"] = (torch.float32, ["rows", getattr(image, "num_channels", 3), height, width], None, REAL)
    if getattr(config, "num_mel_bins", None):
        frames = 2 * getattr(config, "max_source_positions", 0) or "frames"
        known["input_features"] = (torch.float32, ["rows", config.num_mel_bins, frames], None, REAL)
    known["input_values"] = (torch.float32, ["rows", "samples"], None, REAL)
    if "SequenceClassification" in class_name or "ImageClassification" in class_name:
        labels = (["rows"], config.num_labels)
    elif "TokenClassification" in class_name:
        labels = (length, config.num_labels)
    elif "MultipleChoice" in class_name:
        labels = (["rows"], 2)
    else:
        labels = (other if encoder_decoder else length, seconds if encoder_decoder else words)
    known["labels"] = (torch.int64, *labels, TOKENS)
    main = getattr(model, "main_input_name", "input_ids")
    taken = [main]
    if encoder_decoder and not with_loss:
        taken.append("decoder_input_ids")
    if with_loss:
        if "QuestionAnswering" in class_name:
            taken += ["start_positions", "end_positions"]
        else:
            taken.append("labels")
    return known, taken


def patches(config):
    image, patch = getattr(config, "image_size", 0), getattr(config, "patch_size", 0)
    return (image // patch) ** 2 if isinstance(image, int) and isinstance(patch, int) and patch else 1


def loss_takes_count(model):
    """True if the model passes num_items_in_batch to a loss that divides by it."""
    try:
        takes = "num_items_in_batch" in inspect.signature(model.loss_function).parameters
        source = inspect.getsource(inspect.unwrap(type(model).forward))
    except (AttributeError, TypeError, ValueError, OSError):  # the model has no loss function of transformers
        return False
    return takes and re.search(r"loss_function\((?:[^()]|\([^()]*\))*\*\*\w+", source) is not None


def name_forward(torch, subject, with_loss):
    """Gives the model a forward that takes only its inputs and returns a dictionary of the relevant outputs."""
    model = subject.module
    names = list(subject.inputs)
    original = model.forward
    sums = with_loss and "labels" in names and loss_takes_count(model)
    token_labels = with_loss and "labels" in names and subject.inputs["labels"].dim() == 2
    shifted = sums and getattr(model.loss_function, "__name__", "") == "ForCausalLMLoss"
    if sums or token_labels:
        subject.loss_count = "loss_count"
    subject.loss_is_sum = bool(sums)
    subject.loss_output = "loss" if with_loss else ""

    def forward(*values):
        given = dict(zip(names, values))
        extra = {"num_items_in_batch": 1} if sums else {}
        returned = original(**given, **extra)
        returned = dict(returned.items()) if hasattr(returned, "items") else {"output": returned}
        wanted = [name for name in ("loss", "logits") if returned.get(name) is not None]
        if not wanted:
            wanted = [name for name, value in returned.items() if isinstance(value, torch.Tensor)]
        kept = {name: returned[name] for name in wanted}
        if subject.loss_count:
            labels = given["labels"]
            labels = labels[:, 1:] if shifted else labels
            kept = {"loss": kept.pop("loss"), "loss_count": (labels != -100).sum(), **kept}
        return kept

    # torch.export reads the argument names from the signature.
    forward.__signature__ = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names])
    source = f"lambda forward: (lambda {', '.join(names)}: forward({', '.join(names)}))"
    named = eval(source)(forward)  # noqa: S307: names are identifiers of the model's own arguments
    model.forward = named


def subject_of_model(torch, arguments, asked, config=None, without_memory=True):
    transformers = import_transformers()
    read, text = read_config(transformers, arguments.model)
    is_reduced = config is not None
    config = config if is_reduced else read
    model_class = class_of_model(transformers, read, arguments.model_class)
    notes = []
    if arguments.weights and not is_reduced:
        try:
            model = model_class.from_pretrained(arguments.model, dtype=getattr(torch, arguments.dtype),
                                                attn_implementation=arguments.attention)
        except (OSError, ValueError) as error:
            fail(f"{arguments.model}: {first_line(error)}", "leave --weights out or mend the folder")
        for part in sub_configs(model.config):
            if hasattr(part, "use_cache"):
                part.use_cache = False
        if model._can_set_experts_implementation():
            model.set_experts_implementation(arguments.experts)
    else:
        model = build_of_config(torch, model_class, config, arguments, notes, without_memory)
    subject = Subject(model, {})
    subject.notes = notes
    subject.config = text
    known, taken = known_inputs(torch, config, model, arguments.loss)
    for spec in arguments.input:
        name = spec.partition("=")[0]
        taken = [other for other in taken if other != name] + [name]
        if "=" in spec:
            _, dtype, limit, dims = parse_input(torch, spec)
            known[name] = (dtype, dims, limit, None)
    chunk = getattr(config.get_text_config(), "chunk_size", None)
    lengths = 3 * chunk if isinstance(chunk, int) and chunk > 0 else 24
    limits = learned_positions(torch, model)
    greatest = min((number for _, number in limits), default=None)
    defaults = {"rows": (2,), "length": (min(lengths, greatest or lengths),),
                "decoder_length": (min(17, greatest or 17),), "samples": (16000,), "frames": (128,), **asked}
    parameters = inspect.signature(inspect.unwrap(model_class.forward)).parameters
    for name in order_of_forward(taken, parameters):
        if name not in known:
            fail(f"input '{name}' of {model_class.__name__} is not supported by this tool",
                 f"describe it: --input '{name}=int64<100:rows,length'")
        if name not in parameters:
            fail(f"{model_class.__name__}.forward() takes no '{name}'",
                 f"it takes {', '.join(key for key in parameters if key != 'self')}")
        dtype, dims, limit, kind = known[name]
        if dtype.is_floating_point:
            dtype = getattr(torch, arguments.dtype)
        add_input(torch, subject, name, dtype, limit, dims, defaults)
        if kind:
            subject.kinds[name] = kind
    if greatest is not None:
        for size in ("length", "decoder_length"):
            if size in subject.ranges:
                subject.ranges[size] = (1, greatest)
    name_forward(torch, subject, arguments.loss)
    return subject


def order_of_forward(names, parameters):
    order = {name: number for number, name in enumerate(parameters)}
    return sorted(names, key=lambda name: order.get(name, len(order)))


def stored_names(directory):
    """Returns the tensor names in a folder's .safetensors files, or None if there are none."""
    index = os.path.join(directory, "model.safetensors.index.json")
    if os.path.isfile(index):
        with open(index, encoding="utf-8") as file:
            return set(json.load(file).get("weight_map", {}))
    path = os.path.join(directory, "model.safetensors")
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return set(json.loads(file.read(length))) - {"__metadata__"}


def names_in_files(module):
    """Returns {name: name in the files} of the parameters that transformers renames when loading. Parameters
    that transformers joins from several tensors are left out."""
    try:
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:  # older versions rename nothing
        return {}
    own = dict(module.named_parameters())
    tensors = {name: parameter.data.to("meta") for name, parameter in own.items()}
    stored = {id(tensor): name for name, tensor in revert_weight_conversion(module, dict(tensors)).items()}
    return {name: stored[id(tensor)] for name, tensor in tensors.items()
            if stored.get(id(tensor), name) != name}


def names_not_in(directory, module, ties, renamed):
    """Returns a note if weights in the folder have other names than in the archive."""
    stored = stored_names(directory)
    if stored is None:
        return []
    shared = {}
    for name, first in ties:
        shared.setdefault(first, []).append(name)
    missing = [name for name, _ in module.named_parameters() if renamed.get(name, name) not in stored
               and not any(renamed.get(other, other) in stored for other in shared.get(name, []))]
    if not missing:
        return []
    return [f"{len(missing)} parameters have no weight of their name in {os.path.basename(os.path.abspath(directory))}, as "
            f"{missing[0]}: transformers makes them of others as it loads; --weights keeps them in the archive."]


LAYER_COUNTS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "num_decoder_layers", "encoder_layers",
                "decoder_layers", "num_encoder_layers")


def two_layers_of_each_kind(config):
    """Returns a copy of the configuration with the fewest leading layers that include two of each kind."""
    small = copy.deepcopy(config)
    for part in sub_configs(small):
        kinds = getattr(part, "layer_types", None)
        kept = 2
        if kinds:
            wanted = {kind: min(2, kinds.count(kind)) for kind in set(kinds)}
            kept = next(n for n in range(1, len(kinds) + 1)
                        if all(kinds[:n].count(kind) >= number for kind, number in wanted.items()))
        dense = getattr(part, "first_k_dense_replace", None)
        if isinstance(dense, int) and dense > 0:
            part.first_k_dense_replace = dense = min(dense, 2)
            kept = max(kept, dense + 2)
        before = getattr(part, "num_hidden_layers", None)
        for key in LAYER_COUNTS:
            number = part.__dict__.get(key)
            if isinstance(number, int) and not isinstance(number, bool) and number > kept:
                setattr(part, key, kept)
        for key, value in list(part.__dict__.items()):
            if isinstance(value, list) and before and before > kept and len(value) == before:
                setattr(part, key, value[:kept])
    return small


# --- operators for what cannot be traced -----------------------------------------------------------------------


def define_leaf(torch, name, call, example, parameters):
    """Defines sluice::NAME(tensors and numbers by name, weights by name) -> Tensor; returns a function of
    both.

    call: a function of (arguments by name, weights by name) that computes the result. The result has the shape and dtype of
    the first tensor argument. Its backward computes the forward again."""
    names, kinds = [], []
    for key, value in example.items():
        if isinstance(value, torch.Tensor):
            kinds.append("Tensor")
        elif value is None:
            kinds.append("Tensor?")
        elif isinstance(value, bool):
            kinds.append("bool")
        elif isinstance(value, (int, torch.SymInt)):
            kinds.append("SymInt")
        elif isinstance(value, float):
            kinds.append("float")
        else:
            fail(f"--leaf {name}: argument '{key}' is a {type(value).__name__}",
                 "name a module or function that takes tensors and numbers")
        names.append(key)
    weights = [key.replace(".", "_") for key in parameters]
    declared = [f"{kind} {key}" for kind, key in zip(kinds, names)] + [f"Tensor {key}" for key in weights]
    first = next((number for number, kind in enumerate(kinds) if kind == "Tensor"), None)
    if first is None:
        fail(f"--leaf {name}: no argument is a tensor", "name a module or function that takes one")
    library = torch.library.Library("sluice", "FRAGMENT")
    library.define(f"{name}({', '.join(declared)}) -> Tensor")

    def split(values):
        given = dict(zip(names, values[:len(names)]))
        return given, dict(zip(parameters, values[len(names):]))

    def compute(*values):
        result = call(*split(values))
        like = values[first]
        if not isinstance(result, torch.Tensor) or result.shape != like.shape or result.dtype != like.dtype:
            fail(f"--leaf {name}: its result is not one tensor with the shape and dtype of '{names[first]}'",
                 "name a smaller or larger part of the model")
        return result.clone() if result is like else result

    def keep(ctx, inputs, output):
        del output
        ctx.rest = [None if isinstance(value, torch.Tensor) else value for value in inputs]
        ctx.save_for_backward(*[value for value in inputs if isinstance(value, torch.Tensor)])

    def backward(ctx, gradient):
        saved = iter(ctx.saved_tensors)
        values = []
        for number, value in enumerate(ctx.rest):
            is_tensor = value is None and not (number < len(kinds) and kinds[number] == "Tensor?" and
                                               example[names[number]] is None)
            values.append(next(saved) if is_tensor else value)
        with torch.enable_grad():
            values = [value.detach().requires_grad_(value.is_floating_point())
                      if isinstance(value, torch.Tensor) else value for value in values]
            result = compute(*values)
        wanted = [value for value in values if isinstance(value, torch.Tensor) and value.requires_grad]
        found = iter(torch.autograd.grad(result, wanted, gradient, allow_unused=True))
        return tuple(next(found) if isinstance(value, torch.Tensor) and value.requires_grad else None
                     for value in values)

    library.impl(name, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"sluice::{name}", lambda *values: torch.empty_like(values[first]), lib=library)
    torch.library.register_autograd(f"sluice::{name}", backward, setup_context=keep, lib=library)
    LIBRARIES.append(library)  # keeps the library alive, because its operators live only as long
    return getattr(torch.ops.sluice, name)


LIBRARIES = []
DEFINED = {}


def bound_arguments(function, values, by_name):
    bound = inspect.signature(function).bind(*values, **by_name)
    arguments = {}
    for key, value in bound.arguments.items():
        kind = inspect.signature(function).parameters[key].kind
        if kind == inspect.Parameter.VAR_KEYWORD:
            arguments.update(value)
        elif kind == inspect.Parameter.VAR_POSITIONAL:
            arguments.update({f"{key}_{number}": item for number, item in enumerate(value)})
        else:
            arguments[key] = value
    return arguments


def operator_name(path):
    return re.sub(r"\W", "_", re.sub(r"\.?[*\d]+\.?", "_", path)).strip("_")


def put_leaf(torch, subject, text):
    """Applies --leaf PATH[=NAME] (a module's path, * for any number of layers) or MODULE:FUNCTION[=NAME]."""
    path, _, name = text.partition("=")
    if ":" in path:
        owner, _, function_name = path.partition(":")
        try:
            module = importlib.import_module(owner)
        except ImportError as error:
            fail(f"--leaf {text}: {first_line(error)}", "write MODULE:FUNCTION of an installed module")
        original = getattr(module, function_name, None)
        if not callable(original):
            fail(f"--leaf {text}: the module has no function '{function_name}'", "write MODULE:FUNCTION")
        name = name or operator_name(function_name)

        def called(*values, **by_name):
            given = bound_arguments(original, values, by_name)
            if name not in DEFINED:
                DEFINED[name] = define_leaf(torch, name, lambda kept, _: original(**kept), given, [])
            return DEFINED[name](*given.values())

        setattr(module, function_name, called)
        return
    found = [(key, module) for key, module in subject.module.named_modules() if key and fnmatch.fnmatch(key, path)]
    if not found:
        fail(f"--leaf {text}: the model has no module of that path",
             "write it as named_modules() has it; * stands for any numbers")
    name = name or operator_name(path)
    for _, module in found:
        replace_by_leaf(torch, name, module)


def replace_by_leaf(torch, name, module):
    original = module.forward
    parameters = [key for key, _ in module.named_parameters()]
    if list(module.buffers()):
        fail(f"--leaf {name}: the module has buffers", "name a part of it without buffers")

    def compute(given, weights):
        module.forward = original
        try:
            return torch.func.functional_call(module, weights, (), given)
        finally:
            module.forward = called

    def called(*values, **by_name):
        given = bound_arguments(original, values, by_name)
        if name not in DEFINED:
            DEFINED[name] = define_leaf(torch, name, compute, given, parameters)
        return DEFINED[name](*given.values(), *[module.get_parameter(key) for key in parameters])

    module.forward = called


# --- tracing ---------------------------------------------------------------------------------------------------


def first_line(error):
    text = str(error).strip()
    return text.split("\n", 1)[0][:300] if text else type(error).__name__


def parameters_of(module):
    """Returns [(module, key, full name, parameter)] of every use, tied uses in order."""
    found = []
    for path, owner in module.named_modules(remove_duplicate=False):
        for key, parameter in owner._parameters.items():
            if parameter is not None:
                found.append((owner, key, f"{path}.{key}" if path else key, parameter))
    return found


def ties_of(module):
    """Returns [(name, name of the first use)] of parameters and persistent buffers that share their tensor."""
    first, ties = {}, []
    for name, tensor in itertools.chain(module.named_parameters(remove_duplicate=False),
                                        module.named_buffers(remove_duplicate=False)):
        if id(tensor) in first:
            ties.append((name, first[id(tensor)]))
        else:
            first[id(tensor)] = name
    return ties


class FakeParameters:
    """Replaces the parameters of a module by fake tensors on the CPU. Buffers stay as they are."""

    def __init__(self, torch, module):
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        self.mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
        made = {}
        with self.mode:
            for owner, key, _, parameter in parameters_of(module):
                if id(parameter) not in made:
                    empty = torch.empty_strided(parameter.shape, parameter.stride(), dtype=parameter.dtype)
                    made[id(parameter)] = (torch.nn.Parameter(empty, requires_grad=parameter.requires_grad), parameter)
                owner._parameters[key] = made[id(parameter)][0]

    def inputs(self, torch, inputs):
        made = {}
        with self.mode:
            for name, value in inputs.items():
                made[name] = torch.empty(value.shape, dtype=value.dtype) if isinstance(value, torch.Tensor) else value
        return made


class ModuleState:
    """Saves the state that running or tracing a module may change: buffers, attributes that are tensors or
    plain values, and lists, dictionaries and sets of these. train() and eval() set the training flags."""

    TABLES = ("_parameters", "_buffers", "_modules")

    def __init__(self, torch, module):
        self.torch = torch
        self.names = dict(module.named_modules())
        self.owners = []
        self.tensors = {}  # id -> (tensor, copy of its values)
        for owner in module.modules():
            attributes = {key: value for key, value in vars(owner).items() if key not in (*self.TABLES, "training")}
            contents = {key: copy.copy(value) for key, value in attributes.items()
                        if isinstance(value, (list, dict, set))}
            buffers = dict(owner._buffers)
            self.owners.append((owner, attributes, contents, buffers))
            held = [*attributes.values(), *buffers.values()]
            for value in contents.values():
                held += value.values() if isinstance(value, dict) else value
            for tensor in held:
                if isinstance(tensor, torch.Tensor) and tensor.device.type != "meta":
                    self.tensors[id(tensor)] = (tensor, tensor.detach().clone())

    def restore(self):
        for owner, attributes, contents, buffers in self.owners:
            for key in [key for key in vars(owner) if key not in attributes and key not in (*self.TABLES, "training")]:
                del vars(owner)[key]
            vars(owner).update(attributes)
            for key, content in contents.items():
                value = attributes[key]
                if not same_items(value, content):
                    value.clear()
                    value.extend(content) if isinstance(value, list) else value.update(content)
            owner._buffers.clear()
            owner._buffers.update(buffers)
        with self.torch.no_grad():
            for tensor, numbers in self.tensors.values():
                if not same_numbers(self.torch, tensor, numbers):
                    tensor.copy_(numbers)

    def require_kept(self, program):
        """Raises an error if buffers or constants of the program are not those that the module had."""
        numbers = {}
        for owner_name, owner in self.names.items():
            for key, tensor in owner._buffers.items():
                if tensor is not None and id(tensor) in self.tensors:
                    numbers[f"{owner_name}.{key}" if owner_name else key] = self.tensors[id(tensor)][1]
        for name, tensor in [*program.state_dict.items(), *program.constants.items()]:
            if name in numbers and not same_numbers(self.torch, tensor, numbers[name]):
                fail(f"the export changes the buffer '{name}'", "report this as a fault of the tool, with the model")


def same_items(one, other):
    """True if two containers have the very same objects."""
    if isinstance(one, set):
        return one == other
    mine, theirs = (list(each.items()) if isinstance(each, dict) else list(enumerate(each)) for each in (one, other))
    return len(mine) == len(theirs) and all(a[0] == b[0] and a[1] is b[1] for a, b in zip(mine, theirs))


def same_numbers(torch, one, other):
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.is_floating_point() or one.is_complex():
        return torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))
    return torch.equal(one, other)


class Trace:
    """An exported program with the symbols of its named sizes."""

    def __init__(self, program, symbols, fixed):
        self.program, self.symbols, self.fixed = program, symbols, fixed


def suggested_bounds(text):
    """Returns {size: {"min": .., "max": ..}} from torch.export's suggestions."""
    bounds = {}
    for name, rest in re.findall(r"^\s+(\w+) = Dim\('\w+'(.*)\)\s*$", text, re.MULTILINE):
        bounds[name] = {key: int(number) for key, number in re.findall(r"(min|max)=(\d+)", rest)}
    return bounds


def trace(torch, subject, fake, plan):
    """Exports the module. plan: {size: "named" or "free"}. The plan and the subject's ranges are adapted to
    torch.export's results."""
    from torch.export import Dim

    for _ in range(8):
        subject.restore()
        # Every attempt uses its own fake parameters, because those of the last one have sizes of the old
        # mode.
        inputs = FakeParameters(torch, subject.module).inputs(torch, subject.inputs) if fake else subject.inputs
        dims, hints = {}, {}
        for size, places in subject.sizes.items():
            least, greatest = subject.ranges[size]
            bounds = {"min": least, **({"max": greatest} if greatest is not None else {})}
            if greatest is not None and greatest == least:
                continue
            dims[size] = Dim(size, **bounds) if plan[size] == "named" else Dim.AUTO(**bounds)
            for name, dim in places:
                hints.setdefault(name, {})[dim] = dims[size]
        shapes = {name: hints.get(name, {}) if isinstance(value, torch.Tensor) else None
                  for name, value in inputs.items()}
        try:
            program = torch.export.export(subject.module, (), inputs, dynamic_shapes=shapes, strict=False)
        except torch._dynamo.exc.UserError as error:
            text = str(error)
            match = re.match(r"Constraints violated \((.*?)\)", text)
            if not match:
                raise
            adapt(subject, plan, text, [name.strip() for name in match.group(1).split(",")])
            continue
        return finish_trace(torch, subject, program)
    fail("torch.export finds new rules for the sizes again and again", "fix some sizes: --size NAME=N:N:N")


def adapt(subject, plan, text, names):
    bounds = suggested_bounds(text)
    constants = dict(re.findall(r"^\s+(\w+) = (\d+)\s*$", text, re.MULTILINE))
    for name in names:
        name = name if name in subject.sizes else next(
            (size for size in subject.sizes if re.search(rf"\b{re.escape(size)}\b", name)), name)
        if name not in subject.sizes:
            continue
        if name in constants:  # a branch or a loop depends on this size
            subject.ranges[name] = (int(constants[name]), int(constants[name]))
            continue
        least, greatest = subject.ranges[name]
        asked = bounds.get(name, {})
        narrowed = (max(least, asked.get("min", least)),
                    asked.get("max", greatest) if greatest is None else min(greatest, asked.get("max", greatest)))
        if plan[name] == "named" and name in bounds and narrowed != (least, greatest):
            subject.ranges[name] = narrowed
        else:
            plan[name] = "free"
    if not any(name in text for name in subject.sizes):
        for name in plan:
            plan[name] = "free"


def finish_trace(torch, subject, program):
    inputs = {}
    for spec, node in zip(program.graph_signature.input_specs,
                          [node for node in program.graph.nodes if node.op == "placeholder"]):
        if spec.kind.name == "USER_INPUT":
            inputs[spec.arg.name] = node.meta.get("val")
    symbols, fixed = {}, {}
    for size, places in subject.sizes.items():
        found = []
        for name, dim in places:
            number = inputs[name].shape[dim]
            text = str(number.node.expr) if isinstance(number, torch.SymInt) else int(number)
            if text not in found:
                found.append(text)
        for number, text in enumerate(found):
            key = size if number == 0 else f"{size}_{number + 1}"
            if isinstance(text, int):
                fixed[key] = text
            else:
                symbols[key] = text
    return Trace(program, symbols, fixed)


def all_graphs(program):
    modules = [module for module in program.graph_module.modules() if hasattr(module, "graph")]
    return [module.graph for module in modules]


def shrink_traces(program):
    """Reduces every node's stack trace to the innermost line of the model's own source: file:line."""
    for graph in all_graphs(program):
        for node in graph.nodes:
            text = node.meta.get("stack_trace")
            if not text:
                continue
            frames = re.findall(r'File "([^"]+)", line (\d+)', text)
            own = [frame for frame in frames if "/torch/" not in frame[0].replace("\\", "/")
                   and not frame[0].startswith("torch/") and os.path.basename(frame[0]) != os.path.basename(__file__)]
            chosen = (own or frames or [(None, None)])[-1]
            if chosen[0] is None:
                node.meta.pop("stack_trace")
            else:
                node.meta["stack_trace"] = f"{os.path.basename(chosen[0])}:{chosen[1]}"


def output_names(torch, subject, program):
    from torch.utils import _pytree as pytree

    number = sum(spec.kind.name == "USER_OUTPUT" for spec in program.graph_signature.output_specs)
    if subject.outputs is not None:
        if len(subject.outputs) != number:
            fail(f"the factory names {len(subject.outputs)} outputs, but the model has {number}", "name each output")
        return list(subject.outputs)
    template = pytree.tree_unflatten(list(range(number)), program.call_spec.out_spec)
    names = []
    for path, _ in pytree.tree_flatten_with_path(template)[0]:
        parts = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
        names.append(".".join(parts) if parts else "output")
    return [f"output_{name}" if name.isdigit() else name for name in names]


# --- evaluation ------------------------------------------------------------------------------------------------


def is_counter(node):
    return str(node.target) == "aten.add_.Tensor" and not node.users and node.args[0].op == "placeholder"


# These return their argument itself or a view of it if there is nothing to do, although their schemas do not
# declare it.
MAY_ALIAS = {"contiguous", "reshape", "reshape_as", "to", "type_as", "flatten", "dropout", "unflatten", "float"}


def aliases_not_written(graph):
    """Returns the contiguous() nodes whose tensor is never written in place, nor any tensor that shares its
    storage."""
    owner = {}

    def root(node):
        while owner.get(node, node) is not node:
            node = owner[node]
        return node

    written = set()
    for node in graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function":
            continue
        tensors = [item for item in node.all_input_nodes]
        if schema is None:  # getitem, symbolic numbers, a higher-order operator
            shares = True
        else:
            shares = schema.name.split("::")[1] in MAY_ALIAS or any(out.alias_info for out in schema.returns)
            if schema.is_mutable and not is_counter(node) and schema.name != "aten::batch_norm":
                written.update(tensors)
        if shares:
            for item in tensors:
                owner[root(item)] = root(node)
    bases = {root(node) for node in written}
    return {node for node in graph.nodes
            if str(node.target) == "aten.contiguous.default" and root(node) not in bases}


# Arguments that evaluation turns off, as in sluice (src/graph/graph_operators.cpp). Norms are turned off only
# if they have running statistics.
TRAINING_ARGUMENTS = {
    **{name: "train" for name in ("dropout", "dropout_", "native_dropout", "feature_dropout", "feature_dropout_",
                                  "alpha_dropout", "alpha_dropout_", "feature_alpha_dropout",
                                  "feature_alpha_dropout_", "lstm", "gru", "rnn_tanh", "rnn_relu")},
    **{name: "training" for name in ("rrelu", "rrelu_", "rrelu_with_noise", "rrelu_with_noise_")},
}
NORM_ARGUMENTS = {"batch_norm": "training", "native_batch_norm": "training", "instance_norm": "use_input_stats"}


def live_nodes(graph):
    """Returns the nodes that outputs, writes in place and assertions need."""
    live = set()
    for node in reversed(graph.nodes):
        schema = getattr(node.target, "_schema", None)
        is_pure = node.op == "call_function" and schema is not None and not schema.is_mutable and schema.returns
        if not is_pure or any(user in live for user in node.users):
            live.add(node)
    return live


def described(torch, graph, is_training):
    """Returns a list that is equal for graphs with the same computation. With is_training, it first turns the
    known training arguments to evaluation: dropout, attention's dropout, norms with running statistics,
    their counters."""
    numbers, lines = {}, []
    # A contiguous() of a contiguous tensor is not traced. Attention kernels, which depend on dropout, lay out
    # their results differently, so contiguous() may appear in only one graph. It changes no value unless
    # something is written in place.
    transparent = aliases_not_written(graph)
    live = live_nodes(graph)

    def plain(value):
        if isinstance(value, torch.fx.Node):
            return ("node", numbers[value])
        if isinstance(value, (list, tuple)):
            return tuple(plain(item) for item in value)
        if isinstance(value, dict):
            return tuple((key, plain(item)) for key, item in value.items())
        return repr(value)

    for node in graph.nodes:
        target = str(node.target)
        if node not in live:
            continue
        if node.op == "get_attr":
            numbers[node] = len(lines)
            owner = graph.owning_module
            inner = getattr(owner, target, None)
            lines.append(("get_attr", tuple(described(torch, inner.graph, is_training))
                          if hasattr(inner, "graph") else target))
            continue
        values = list(node.args)
        named = dict(node.kwargs)
        if node.op == "call_function" and hasattr(node.target, "_schema"):
            schema = node.target._schema.arguments
            named = {**dict(zip([argument.name for argument in schema], values)), **named}
            for argument in schema:
                if argument.name not in named and argument.has_default_value():
                    named[argument.name] = argument.default_value
            values = []
            if is_training:
                name = node.target._schema.name.removeprefix("aten::")
                if name in TRAINING_ARGUMENTS:
                    named[TRAINING_ARGUMENTS[name]] = False
                elif name in NORM_ARGUMENTS and named.get("running_mean") is not None:
                    named[NORM_ARGUMENTS[name]] = False
                elif name == "scaled_dot_product_attention":
                    named["dropout_p"] = 0.0
                elif is_counter(node):
                    continue
            if target == "aten.dropout.default" and not named["train"]:
                named.pop("p")
            if node in transparent:
                numbers[node] = numbers[named["self"]]
                continue
            named = dict(sorted(named.items()))
        numbers[node] = len(lines)
        lines.append((node.op, "" if node.op in ("placeholder", "output") else target, plain(values), plain(named)))
    return lines


def evaluation_graph(torch, subject, training, fake, plan, outputs):
    """Returns ("same", None), or ("other", JSON of model.eval()'s graph)."""
    subject.module.eval()
    try:
        evaluated = trace(torch, subject, fake, dict(plan))
    finally:
        subject.module.train()
    before = described(torch, training.program.graph_module.graph, True)
    after = described(torch, evaluated.program.graph_module.graph, False)
    copies = [sum(str(node.target) == "aten.contiguous.default" for node in one.program.graph.nodes)
              for one in (training, evaluated)]
    if before == after and copies[0] >= copies[1]:
        return "same", None
    if output_names(torch, subject, evaluated.program) != outputs:
        fail("model.eval() has other outputs than the model in training mode", "return the same outputs in both modes")
    shrink_traces(evaluated.program)
    text = model_json(torch, evaluated.program)
    for size, symbol in evaluated.symbols.items():
        wanted = training.symbols.get(size)
        if wanted is None:
            fail(f"size '{size}' varies in model.eval() alone", f"fix it: --size {size}=N:N:N")
        if wanted != symbol:
            text = re.sub(rf"\b{re.escape(symbol)}\b", f"@{size}@", text)
    for size, symbol in training.symbols.items():
        text = text.replace(f"@{size}@", symbol)
    return "other", text


def model_json(torch, program):
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    with zipfile.ZipFile(io.BytesIO(buffer.getvalue())) as archive:
        entry = next(name for name in archive.namelist() if name.endswith("models/model.json"))
        return archive.read(entry).decode()


# --- comparing with the model ----------------------------------------------------------------------------------


def rules_hold(torch, program, inputs):
    """True if the sizes of these inputs satisfy the archive's rules."""
    known = {"max": max, "min": min, "Max": max, "Min": min, "L": inputs, "FloorDiv": lambda a, b: a // b,
             "Mod": lambda a, b: a % b, "PythonMod": lambda a, b: a % b, "IntInfinity": lambda: float("inf")}
    try:
        return all(eval(rule, {"__builtins__": {}}, dict(known))  # noqa: S307: torch.export's own text
                   for rule in getattr(program, "_guards_code", None) or [])
    except ArithmeticError:
        return False
    except (NameError, SyntaxError, TypeError) as error:
        fail(f"a rule of torch.export for the sizes has a part that this tool does not support ({first_line(error)})",
             "fix the sizes with --size NAME=N:N:N, or give --no-check")


def sizes_to_try(torch, subject, training):
    """Returns up to three choices of sizes: the example, and two others. All differ from each other where the
    rules allow it."""
    candidates = {}
    for size, example in subject.examples.items():
        least, greatest = subject.ranges[size]
        symbol = training.symbols.get(size)
        if symbol is None:
            candidates[size] = [example]
            continue
        bound = next((value for key, value in training.program.range_constraints.items() if str(key) == symbol), None)
        low = max(least, int(bound.lower) if bound is not None else least)
        high = greatest
        if bound is not None and str(bound.upper) not in ("int_oo", "oo") and int(bound.upper) < 1 << 40:
            high = min(int(bound.upper), high) if high is not None else int(bound.upper)
        wanted = [1, 3, example // 2 + 1, example + 1, 2 * example, 2 * example + 3, low, example]
        candidates[size] = [value for value in dict.fromkeys(wanted)
                            if value >= low and (high is None or value <= high)]
    found = [dict(subject.examples)]
    generator = torch.Generator().manual_seed(0)
    for combination in itertools.islice(itertools.product(*candidates.values()), 2000):
        sizes = dict(zip(candidates, combination))
        if len(found) == 3:
            break
        fresh = [size for size in sizes if len(candidates[size]) > 1]
        if any(sizes[size] == other[size] for other in found for size in fresh):
            continue
        if rules_hold(torch, training.program, subject.at(torch, sizes, generator)):
            found.append(sizes)
    if len(found) < 3:  # sizes that cannot all differ at once
        for combination in itertools.islice(itertools.product(*candidates.values()), 2000):
            sizes = dict(zip(candidates, combination))
            if len(found) == 3:
                break
            if sizes not in found and rules_hold(torch, training.program, subject.at(torch, sizes, generator)):
                found.append(sizes)
    return found


def flat_outputs(torch, value):
    from torch.utils import _pytree as pytree

    return [item for item in pytree.tree_flatten(value)[0] if isinstance(item, torch.Tensor)]


def run_once(torch, call, owner, inputs):
    """Returns outputs, gradients by name, and buffers after a forward and a backward from a weighted sum of
    the outputs."""
    for parameter in owner.parameters():
        parameter.grad = None
    torch.manual_seed(11)
    outputs = flat_outputs(torch, call(**inputs))
    generator = torch.Generator().manual_seed(5)
    total = None
    for output in outputs:
        if output.is_floating_point() and output.requires_grad:
            weights = torch.randn(output.shape, generator=generator).to(output.dtype)
            part = (output * weights).sum()
            total = part if total is None else total + part
    if total is None:
        fail("no output depends on a parameter that can be trained", "return one from forward")
    total.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in owner.named_parameters()
                 if parameter.grad is not None}
    buffers = {name: buffer.clone() for name, buffer in owner.named_buffers()}
    for parameter in owner.parameters():
        parameter.grad = None
    return [output.detach().clone() for output in outputs], gradients, buffers


def difference(torch, one, other, least_scale=1e-12):
    """Returns the largest difference relative to the largest number, or to least_scale if that is larger."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return float("inf")
    if one.numel() == 0 or torch.equal(one, other):
        return 0.0
    one, other = one.double(), other.double()
    if not bool(torch.isfinite(one).all()) or not bool(torch.isfinite(other).all()):
        return 0.0 if torch.equal(torch.nan_to_num(one), torch.nan_to_num(other)) else float("inf")
    return float((one - other).abs().max() / one.abs().max().clamp(min=least_scale))


def runnable(torch, program, module):
    """Returns the exported program with the parameters of a module, which may differ from those at export."""
    made = program.module()
    for owner, key, name, _ in parameters_of(made):
        owner._parameters[key] = module.get_parameter(name)
    return made


def worst(torch, mine, theirs):
    outputs, gradients, buffers = mine
    found = [(difference(torch, one, other), f"output {number}")
             for number, (one, other) in enumerate(zip(outputs, theirs[0]))]
    if len(outputs) != len(theirs[0]):
        found.append((float("inf"), "the number of outputs"))
    for name in gradients.keys() | theirs[1].keys():
        one, other = gradients.get(name), theirs[1].get(name)
        if one is None or other is None:
            present = one if one is not None else other
            found.append((0.0 if not present.any() else float("inf"), f"the gradient of {name}"))
        else:
            # A gradient may be zero up to rounding, such as that of a bias of attention keys. So it is
            # compared at the scale of its module.
            scale = 0.1 * max(float(value.abs().max()) for other_name, value in gradients.items()
                              if value.numel() and other_name.rpartition(".")[0] == name.rpartition(".")[0])
            found.append((difference(torch, one, other, max(scale, 1e-12)), f"the gradient of {name}"))
    for name in buffers.keys() & theirs[2].keys():
        found.append((difference(torch, buffers[name], theirs[2][name]), f"buffer {name}"))
    return max(found)


def compare(torch, subject, training, module, dtype):
    """Compares the exported program with the module for up to three choices of sizes; returns a note.
    Restores the module's buffers."""
    module.train()
    program = runnable(torch, training.program, module)
    state = ModuleState(torch, module)
    kept = {name: buffer.clone() for name, buffer in module.named_buffers()}
    generator = torch.Generator().manual_seed(3)
    largest, done = 0.0, []

    def restore(owner):
        if owner is module:
            state.restore()
            module.train()
            return
        with torch.no_grad():
            for name, buffer in owner.named_buffers():
                if name in kept:
                    buffer.copy_(kept[name])

    for sizes in sizes_to_try(torch, subject, training):
        inputs = subject.at(torch, sizes, generator)
        where = ", ".join(f"{name} {value}" for name, value in sizes.items()) or "the example"
        restore(module)
        try:
            expected = run_once(torch, module, module, inputs)
        except (RuntimeError, IndexError, ValueError) as error:
            restore(module)
            fail(f"the model itself fails at {where}: {first_line(error)}",
                 "narrow the sizes with --size NAME=EXAMPLE:LEAST:GREATEST, or give limits of integers")
        restore(module)
        restore(program)
        try:
            got = run_once(torch, program, program, inputs)
        except (RuntimeError, IndexError, ValueError, AssertionError) as error:
            restore(module)
            fail(f"the exported program fails at {where}, where the model does not: {first_line(error)}",
                 "narrow the sizes with --size NAME=EXAMPLE:LEAST:GREATEST")
        found, what = worst(torch, expected, got)
        if found > TOLERANCES.get(dtype, 1e-4):
            restore(module)
            fail(f"the exported program differs from the model at {where}: {what} by {found:.2g} of its greatest",
                 "narrow the sizes with --size; where random numbers are drawn outside dropout, turn that off")
        largest = max(largest, found)
        done.append(where)
    restore(module)
    return f"Outputs and gradients compared at {'; '.join(done)}: the greatest difference is {largest:.2g} of a tensor's greatest."


def adds_up(torch, subject, module):
    """True if the loss of a batch follows from the losses of its rows and their counts; None if that cannot
    be tested. Runs without dropout and with fixed statistics of batch norms."""
    if not subject.loss_output or "rows" not in subject.sizes or subject.outputs is not None:
        return None
    least, greatest = subject.ranges["rows"]
    if least > 1 or (greatest is not None and greatest < 3):
        return None
    inputs = subject.at(torch, {**subject.examples, "rows": 3}, torch.Generator().manual_seed(4))
    if "labels" in inputs and inputs["labels"].dim() == 2 and inputs["labels"].shape[1] > 4:
        inputs["labels"][1, 3:] = -100  # rows with different counts
    rows = {name: dim for name, dim in subject.sizes["rows"]}

    state = ModuleState(torch, module)

    def weighed(given):
        with torch.no_grad():
            returned = module(**given)
        state.restore()
        count = float(returned[subject.loss_count]) if subject.loss_count else given_rows(given)
        loss = float(returned[subject.loss_output])
        return loss if subject.loss_is_sum else loss * count

    def given_rows(given):
        name, dim = next(iter(rows.items()))
        return given[name].shape[dim]

    module.eval()
    try:
        whole = weighed(inputs)
        parts = [weighed({name: value.narrow(rows[name], row, 1) if name in rows else value
                          for name, value in inputs.items()}) for row in range(3)]
    except (RuntimeError, IndexError, ValueError, TypeError, KeyError):
        return None  # a factory's labels need not support -100
    finally:
        state.restore()
        module.train()
    return abs(whole - sum(parts)) <= 1e-3 * max(abs(whole), 1e-6)


def memory_left():
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            numbers = dict(line.split(":", 1) for line in file)
        return int(numbers["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 8 << 30


def draw_weights(torch, module):
    """Adds a small random number to every weight, so that no tensor is all zeros or all ones."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point():
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
                parameter.add_((0.05 * noise).to(parameter.dtype))


def bytes_of(module):
    return sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())


def check(torch, subject, training, arguments, asked, fake, real):
    """Returns ("model" or "two layers of each kind", notes). real: the module with weights, or None to draw
    some."""
    checked, exported, compared = "model", training, subject
    if real is None and not fake:
        real = subject.module
    if real is None and 4 * bytes_of(subject.module) < 0.6 * memory_left():
        torch.manual_seed(0)
        compared = drawn_model(torch, arguments, asked, None)
        real = compared.module
        compared.examples, compared.ranges = subject.examples, subject.ranges
    elif real is None:
        transformers = import_transformers()
        checked = "two layers of each kind"
        config = two_layers_of_each_kind(read_config(transformers, arguments.model)[0])
        compared = drawn_model(torch, arguments, asked, config)
        real = compared.module
        if 4 * bytes_of(real) >= 0.6 * memory_left():
            fail("two layers of each kind do not fit into memory for the check",
                 "give --no-check, or export on a machine with more memory")
        exported = trace(torch, compared, False, {size: "named" for size in compared.sizes})
    notes = [compare(torch, compared, exported, real, arguments.dtype)]
    if adds_up(torch, compared, real) is False:
        if arguments.factory and subject.loss_count:
            fail(f"'{subject.loss_output}' is no {'sum' if subject.loss_is_sum else 'mean'} over '{subject.loss_count}'",
                 "mend loss_output, loss_count or loss_is_sum of the factory")
        subject.loss_count, subject.loss_is_sum = "", False
        notes.append("The loss of a batch is not made of the losses of its rows: microbatches change it.")
    return checked, notes


def drawn_model(torch, arguments, asked, config):
    torch.manual_seed(0)
    subject = subject_of_model(torch, arguments, asked, config=config, without_memory=False)
    apply_asked_sizes(subject, asked)
    resize_examples(torch, subject)
    apply_leaves(torch, subject, arguments)
    draw_weights(torch, subject.module)
    subject.module.train()
    return subject


# --- the program -----------------------------------------------------------------------------------------------


def apply_leaves(torch, subject, arguments):
    for text in arguments.leaf:
        if ":" not in text.partition("=")[0]:
            put_leaf(torch, subject, text)


def resize_examples(torch, subject):
    """Resizes the example inputs to the example sizes."""
    generator = torch.Generator().manual_seed(2)
    torch.manual_seed(2)
    for size, places in subject.sizes.items():
        if any(subject.inputs[name].shape[dim] != subject.examples[size] for name, dim in places):
            subject.inputs = subject.at(torch, subject.examples, generator)
            return


@contextlib.contextmanager
def counted_checkpoints(torch):
    """Yields a list that gets an entry for every call of torch.utils.checkpoint within this context."""
    import torch.utils.checkpoint as owner

    calls = []
    originals = {}
    for name in ("_checkpoint_without_reentrant_generator", "check_backward_validity"):
        if hasattr(owner, name):
            originals[name] = getattr(owner, name)

            def counted(*values, _original=originals[name], **by_name):
                calls.append(1)
                return _original(*values, **by_name)

            setattr(owner, name, counted)
    try:
        yield calls
    finally:
        for name, original in originals.items():
            setattr(owner, name, original)


REMEDIES = (
    (r"(?i)data.?dependent|GuardOnDataDependent|unbacked|u\d+",
     "what a value decides cannot be traced: choose --experts batched_mm for experts, or make the part an operator "
     "with --leaf PATH"),
    (r"vmap|_add_batch_dim|flat_apply", "a mask is made with vmap: export the language model alone (--class)"),
    (r"(?i)unexpected keyword|positional argument", "give the inputs that forward takes: --input NAME"),
)


def remedy_of(error):
    text = f"{type(error).__name__} {error}"
    for pattern, remedy in REMEDIES:
        if re.search(pattern, text):
            return remedy
    return "make the part that fails an operator with --leaf PATH, or change the model"


def place_of(error):
    """Returns the innermost line of the model in the error's traceback."""
    frames = []
    trace_back = error.__traceback__
    while trace_back is not None:
        name = trace_back.tb_frame.f_code.co_filename
        if "/torch/" not in name.replace("\\", "/") and os.path.basename(name) != os.path.basename(__file__):
            frames.append(f"{os.path.basename(name)}:{trace_back.tb_lineno}")
        trace_back = trace_back.tb_next
    return f" ({frames[-1]})" if frames else ""


def with_records(path, first_uses):
    """Rewrites the archive with an empty record for every parameter. torch.export.save() gives all parameters
    without memory the same record, which torch.export.load() takes for a tie. first_uses: {name: name of
    its first use}."""
    from torch.export.pt2_archive._package import PT2ArchiveWriter

    folder = os.path.join(os.path.dirname(path), "whole")
    os.mkdir(folder)
    whole = os.path.join(folder, os.path.basename(path))
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        root = names[0].split("/", 1)[0] + "/"
        entries = {name.removeprefix(root): archive.read(name) for name in names}
    config_name = "data/weights/model_weights_config.json"
    config = json.loads(entries[config_name])
    used = {meta["path_name"] for name, meta in config["config"].items() if name not in first_uses}
    fresh = (f"weight_{number}" for number in itertools.count() if f"weight_{number}" not in used)
    records = {}
    for name, meta in config["config"].items():
        if name in first_uses:
            first = first_uses[name]
            if first not in records:
                records[first] = next(fresh)
            meta["path_name"] = records[first]
    entries = {name: data for name, data in entries.items()
               if not (name.startswith("data/weights/weight_") and name.rsplit("/", 1)[1] not in used)}
    entries[config_name] = json.dumps(config).encode()
    written_by_torch = {"archive_format", "archive_version", ".data/version", "byteorder", ".data/serialization_id"}
    with PT2ArchiveWriter(whole) as writer:
        for record in records.values():
            writer.write_bytes(f"data/weights/{record}", b"")
        for name, data in entries.items():
            if name not in written_by_torch:
                writer.write_bytes(name, data)
    return whole


def write_archive(torch, program, out, extra, records):
    """Writes beside the file and renames, so that no partial file remains."""
    folder = os.path.dirname(os.path.abspath(out))
    try:
        temporary = tempfile.mkdtemp(prefix=".sluice_export.", dir=folder)
    except OSError as error:
        fail(f"{folder}: {error.strerror}", "name a folder that can be written with --out")
    try:
        path = os.path.join(temporary, os.path.basename(out))
        torch.export.save(program, path, extra_files=extra)
        if records is not None:
            path = with_records(path, records)
        os.replace(path, out)
    except OSError as error:
        fail(f"{out}: {error.strerror}", "name a file that can be written with --out")
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def export(torch, arguments):
    asked = asked_sizes(arguments)
    for text in arguments.leaf:
        if ":" in text.partition("=")[0]:
            put_leaf(torch, None, text)
    if arguments.model:
        subject = subject_of_model(torch, arguments, asked)
    else:
        subject = subject_of_factory(torch, arguments, asked)
    keeps_weights = arguments.weights if arguments.weights is not None else bool(arguments.factory)
    apply_asked_sizes(subject, asked)
    resize_examples(torch, subject)
    apply_leaves(torch, subject, arguments)
    module = subject.module.train()
    if any(buffer.device.type == "meta" for buffer in module.buffers()):
        fail("a buffer of the model is made of a parameter, which has no memory here", "export it with --weights")
    ties = ties_of(module)
    floats = [str(p.dtype).removeprefix("torch.") for p in module.parameters() if p.is_floating_point()]
    dtype = max(set(floats), key=floats.count) if floats else "float32"
    arguments.dtype = arguments.dtype if arguments.model else dtype
    fake = not keeps_weights
    plan = {size: "named" for size in subject.sizes}
    notes = subject.notes
    subject.state = ModuleState(torch, module)
    real = copy.deepcopy(module) if fake and arguments.factory and not arguments.no_check else None
    try:
        with counted_checkpoints(torch) as calls:
            training = trace(torch, subject, fake, plan)
        outputs = output_names(torch, subject, training.program)
        evaluation, evaluation_text = evaluation_graph(torch, subject, training, fake, plan, outputs)
    except ExportError:
        raise
    except Exception as error:  # any error of the model or the tracer is the model's fault
        if arguments.verbose:
            raise
        fail(f"torch.export cannot trace the model: {type(error).__name__}: {first_line(error)}{place_of(error)}",
             remedy_of(error))
    if calls:
        notes.append("The model's gradient checkpointing is dropped: sluice has its own.")
    for name in (subject.loss_output, subject.loss_count):
        if name and name not in outputs:
            fail(f"the model returns no '{name}'", f"it returns {', '.join(outputs)}")
    for size, number in training.fixed.items():
        notes.append(f"Size '{size}' is {number} in the archive: the model does not work for others, or a branch depends on it.")
    for size in training.symbols:
        if subject.ranges.get(size, (1, None))[0] > 1:
            notes.append(f"Size '{size}' is at least {subject.ranges[size][0]}.")
    checked = "no"
    if not arguments.no_check:
        checked, found = check(torch, subject, training, arguments, asked, fake, real)
        notes += found
    renamed = names_in_files(module) if arguments.model and fake else {}
    if arguments.model and fake:
        notes += names_not_in(arguments.model, module, ties, renamed)
    shrink_traces(training.program)
    loss = None
    if subject.loss_output:
        loss = {"output": subject.loss_output, "count": subject.loss_count, "sum": subject.loss_is_sum}
        if not subject.loss_count:
            notes.append("The loss has no count: microbatches weigh by their rows.")
    elif "logits" not in outputs:
        notes.append("No result is said to be the loss, and none is called 'logits': what trains it sets model.loss_output.")
    versions = sys.modules.get("transformers")
    facts = {
        "format": FORMAT,
        "tool": VERSION,
        "torch": torch.__version__,
        "transformers": versions.__version__ if arguments.model else "",
        "class": f"{type(module).__module__}.{type(module).__qualname__}",
        "ties": ties,
        "stored": sorted(renamed.items()),
        "sizes": [{"name": size, "symbol": symbol, "example": subject.examples.get(size, 0)}
                  for size, symbol in training.symbols.items()],
        "outputs": outputs,
        "config": subject.config,
        "dtype": dtype,
        "loss": loss,
        "weights": keeps_weights,
        "checked": checked,
        "evaluation": evaluation,
        "notes": list(dict.fromkeys(notes)),
    }
    extra = {"sluice.json": json.dumps(facts, indent=1)}
    if evaluation_text is not None:
        extra["evaluation.json"] = evaluation_text
    first_uses = None
    if fake:
        first = dict(ties)
        first_uses = {name: first.get(name, name) for name, _ in module.named_parameters(remove_duplicate=False)}
    subject.restore()
    subject.state.require_kept(training.program)
    write_archive(torch, training.program, arguments.out, extra, first_uses)
    return facts, training


def parse_arguments(argv):
    parser = argparse.ArgumentParser(
        prog="sluice_export.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", metavar="DIR", help="a folder with config.json of transformers")
    source.add_argument("--factory", metavar="MODULE:FUNCTION", help="a function that returns the model, see above")
    parser.add_argument("--out", metavar="FILE.pt2", required=True, help="the archive")
    parser.add_argument("--class", dest="model_class", metavar="NAME",
                        help="class of transformers; without it that of config.json")
    parser.add_argument("--loss", action="store_true",
                        help="the model is given labels and returns its loss: as a sum with its count where it can")
    parser.add_argument("--dtype", choices=sorted(TOLERANCES), default="float32",
                        help="dtype of a transformers model's weights (float32)")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=EXAMPLE[:LEAST[:GREATEST]]",
                        help="a size of the inputs; LEAST = GREATEST fixes it")
    parser.add_argument("--rows", metavar="EXAMPLE[:LEAST[:GREATEST]]", help="as --size rows=..")
    parser.add_argument("--length", metavar="EXAMPLE[:LEAST[:GREATEST]]", help="as --size length=..")
    parser.add_argument("--input", action="append", default=[], metavar="NAME[=DTYPE[<LIMIT]:DIM,DIM]",
                        help="a further input, as --input attention_mask or --input 'ids=int64<1000:rows,length'")
    parser.add_argument("--leaf", action="append", default=[], metavar="PATH[=NAME]",
                        help="modules of that path (* for numbers), or MODULE:FUNCTION, become the operator sluice::NAME, "
                             "whose result has the shape of its first tensor; a C++ program gives it to sluice's load_graph()")
    parser.add_argument("--experts", default="batched_mm", metavar="NAME",
                        help="how transformers computes experts (batched_mm)")
    parser.add_argument("--attention", default="sdpa", metavar="NAME",
                        help="how transformers computes attention (sdpa)")
    weights = parser.add_mutually_exclusive_group()
    weights.add_argument("--weights", action="store_true", default=None,
                         help="weights in the archive; the default of --factory")
    weights.add_argument("--no-weights", dest="weights", action="store_false", help="the default of --model")
    parser.add_argument("--no-check", action="store_true", help="do not compare with the model; the archive says so")
    parser.add_argument("--verbose", action="store_true", help="whole error of torch.export")
    parser.add_argument("--version", action="version", version=f"sluice_export.py {VERSION}")
    arguments = parser.parse_args(argv)
    if not arguments.out.endswith(".pt2"):
        parser.error(f"--out {arguments.out} does not end with .pt2; name a file that does")
    if arguments.factory and (arguments.loss or arguments.model_class):
        parser.error("--loss and --class are for --model; a factory says loss_output")
    return arguments


def main(argv=None):
    arguments = parse_arguments(argv)
    warnings.filterwarnings("ignore")
    try:
        torch = import_torch()
        logging.disable(logging.WARNING if arguments.verbose else logging.CRITICAL)
        # Hides the graphs that torch prints on failure, and the progress bars of transformers.
        quiet = io.StringIO()
        with contextlib.ExitStack() as stack:
            if not arguments.verbose:
                stack.enter_context(contextlib.redirect_stdout(quiet))
                stack.enter_context(contextlib.redirect_stderr(quiet))
            # Restores the caller's random state afterwards.
            stack.callback(torch.set_rng_state, torch.get_rng_state())
            facts, training = export(torch, arguments)
    except ExportError as error:
        print(f"sluice_export.py: {error}", file=sys.stderr)
        return 3
    # The archive has no nodes that pick one of several results.
    nodes = sum(node.op == "call_function" and getattr(node.target, "__name__", "") != "getitem"
                for node in training.program.graph.nodes)
    sizes = ", ".join(size["name"] for size in facts["sizes"]) or "none"
    print(f"{arguments.out}: {nodes} nodes, outputs {', '.join(facts['outputs'])}, sizes {sizes}, "
          f"checked: {facts['checked']}, evaluation: {facts['evaluation']}")
    for note in facts["notes"]:
        print(f"note: {note}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
