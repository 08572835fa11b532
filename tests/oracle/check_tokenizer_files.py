#!/usr/bin/env python3
"""Compares the ids of `sluice data tokenize --tokenizer DIRECTORY` with transformers' AutoTokenizer. The
directories have a tokenizer_config.json, special_tokens_map.json, added_tokens.json or config.json that
changes what tokenizer.json specifies. sluice must give the same ids, or exit with 3 and name a file of the
directory.

Also compares the tables of src/data/tokenizer with transformers' own classes: the settings that they read, the
classes, and the model types that they are registered for. Also changes every key of every part of a tokenizer.json,
one at a time. sluice must agree with `tokenizers` or reject the file. Exits 1 and prints the differences.

  python tests/oracle/check_tokenizer_files.py --sluice build/bin/sluice [--random N] [--seed N] [--tables-only]
"""

import argparse
import ast
import copy
import inspect
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["RUST_BACKTRACE"] = "0"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(HERE, "..", "..", "src", "data", "tokenizer")
sys.path = [p for p in sys.path if os.path.abspath(p or ".") != HERE]

import transformers  # noqa: E402
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors  # noqa: E402
from transformers import AutoTokenizer, PreTrainedTokenizerBase, TokenizersBackend  # noqa: E402
from transformers.models.auto import tokenization_auto  # noqa: E402

REBUILT = ["CodeGenTokenizer", "GPT2Tokenizer", "GPTNeoXTokenizer", "GemmaTokenizer", "LlamaTokenizer", "Qwen2Tokenizer"]


# ---- the tables ----

def base(name):
    return name.removesuffix("Fast")


def keys_in(function, holders):
    """Returns the strings that a function looks up in one of the dictionaries `holders` or compares with a
    key."""
    found = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        holder = key = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if node.func.attr in ("get", "pop", "setdefault"):
                holder, key = node.func.value, node.args[0]
        elif isinstance(node, ast.Subscript):
            holder, key = node.value, node.slice
        elif isinstance(node, ast.Compare):
            holder, key = node.comparators[0], node.left
            if isinstance(holder, ast.Constant) and isinstance(key, ast.Name) and key.id == "key":
                holder, key = ast.Name("key"), holder
        if isinstance(holder, ast.Name) and holder.id in holders + ["key"] and isinstance(key, ast.Constant):
            if isinstance(key.value, str):
                found.add(key.value)
    return found


def parameters(function):
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds} - {"self", "cls"}


def settings_of_transformers():
    of_file = ["init_kwargs", "tokenizer_config", "local_kwargs"]
    keys = keys_in(PreTrainedTokenizerBase.__init__, ["kwargs"])
    keys |= keys_in(PreTrainedTokenizerBase.from_pretrained.__func__, of_file)
    keys |= keys_in(PreTrainedTokenizerBase._from_pretrained.__func__, of_file)
    keys |= keys_in(tokenization_auto.AutoTokenizer.from_pretrained.__func__, of_file)
    keys |= keys_in(TokenizersBackend.convert_to_native_format.__func__, of_file)
    keys |= parameters(TokenizersBackend.convert_to_native_format.__func__)
    keys |= keys_in(TokenizersBackend.__init__, ["kwargs"])
    keys |= keys_in(TokenizersBackend._patch_mistral_regex.__func__, of_file)
    # Receives the remaining settings as arguments.
    keys |= parameters(TokenizersBackend._patch_mistral_regex.__func__) - {"init_kwargs", "pretrained_model_name_or_path"}
    for name in REBUILT:
        keys |= parameters(getattr(transformers, name).__init__)
    return keys | set(PreTrainedTokenizerBase.SPECIAL_TOKENS_ATTRIBUTES)


def is_tokenizer_class(found):
    return isinstance(found, type) and type(found).__name__ != "DummyObject" and issubclass(found, PreTrainedTokenizerBase)


def classes_of_transformers():
    """Returns {class: (kind, model types)}, with class names without "Fast"."""
    types = {}
    for model_type, name in tokenization_auto.TOKENIZER_MAPPING_NAMES.items():
        if name:
            types.setdefault(base(name), set()).add(model_type)
    names = set(types) | {"MistralCommonBackend"}
    for name in dir(transformers):
        if name.endswith(("Tokenizer", "TokenizerFast", "TokenizerLegacy", "Backend")):
            if is_tokenizer_class(getattr(transformers, name)):
                names.add(base(name))

    def kind(name):
        found = tokenization_auto.tokenizer_class_from_name(name)
        if name in REBUILT:
            return "kRebuilt"
        if not is_tokenizer_class(found):
            return "kOther"
        as_file = issubclass(found, TokenizersBackend) and (found is TokenizersBackend or "__init__" not in vars(found))
        return "kAsFile" if as_file or found.__name__ == "PythonBackend" else "kOther"

    return {name: (kind(name), types.get(name, set())) for name in names}


def check_tables():
    with open(os.path.join(SOURCES, "tokenizer_settings.cpp"), encoding="utf-8") as file:
        settings = dict(re.findall(r'\{"(\w+)",\s*SettingUse::(\w+)\}', file.read()))
    with open(os.path.join(SOURCES, "transformers_classes.cpp"), encoding="utf-8") as file:
        text = file.read()
    row = r'\{"(\w+)", ClassKind::(\w+),((?:\s*"[^"]*")+)\}'
    classes = {name: (kind, set("".join(re.findall(r'"([^"]*)"', types)).split()))
               for name, kind, types in re.findall(row, text)}
    forced = re.search(r"kForced =((?:\s*\"[^\"]*\")+);", text).group(1)
    forced = set("".join(re.findall(r'"([^"]*)"', forced)).split())
    wrong = 0

    def compare(what, expected, found):
        nonlocal wrong
        for name in sorted(expected.keys() | found.keys()):
            if expected.get(name) != found.get(name):
                wrong += 1
                print(f"{what} {name}: transformers {expected.get(name)}, the table {found.get(name)}")

    compare("setting", dict.fromkeys(settings_of_transformers(), True), dict.fromkeys(settings, True))
    compare("class", classes_of_transformers(), classes)
    compare("forced type", dict.fromkeys(tokenization_auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS, True),
            dict.fromkeys(forced, True))
    print(f"tables: {len(settings)} settings, {len(classes)} classes: {'ok' if not wrong else 'DIFFERENT'}")
    return wrong


# ---- directories ----

def bytes_file(added=("<|end|>", "<s>", "</s>"), **flags):
    vocabulary = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("a", "n"), ("Ġ", "a"), ("Ċ", "Ċ")]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    vocabulary["in_vocabulary"] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(text, special=True, **flags) for text in added])
    return json.loads(tokenizer.to_str())


def pieces_file(legacy_parts=False):
    """A tokenizer.json like the conversion of a SentencePiece model."""
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2, "<pad>": 3, "<bos>": 4, "<eos>": 5, "<mask>": 6}
    for byte in range(256):
        vocabulary["<0x%02X>" % byte] = len(vocabulary)
    for piece in ["▁"] + [chr(c) for c in range(33, 127)]:
        vocabulary[piece] = len(vocabulary)
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("▁", "a"), ("▁", "▁")]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if legacy_parts:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    return json.loads(tokenizer.to_str())


TEXTS = ["<new> x", "x<new>y", "a <new>", "<new>\n<new>", "<two><new> <two>", "the  theatre\n\n and 12,345 don't", " the", "the",
         "<s>the</s> the<s> a", "<|end|>the <|end|> a", "in_vocabulary the in_vocabulary", "é ü 北京", "<|endoftext|> a",
         "<|padding|>a<pad> <mask>", "<unk> <bos>x<eos>", "", " ", "\n", "THE <NEW>", "e\u0301 \u212b", "\t<new>\t x",
         "  <two>  ", "we'LL see", "a<s> <s>b"]
NEW = {"content": "<new>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
TYPED = {"__type": "AddedToken", "content": "<new>", "lstrip": True, "rstrip": True, "normalized": False, "single_word": False}
SAME, REFUSED, EITHER = "the same", "refused", "the same or refused"


def config_case(name, expected=SAME, tokenizer=None, model=None, **settings):
    files = {"tokenizer.json": tokenizer or bytes_file(), "tokenizer_config.json": settings}
    if model:
        files["config.json"] = {"model_type": model}
    return name, expected, files


def file_case(name, expected=SAME, **files):
    found = {"tokenizer.json": bytes_file()}
    for key, value in files.items():
        found[key + ".json"] = value
    return name, expected, found


def cases():
    yield file_case("tokenizer.json alone")
    yield file_case("a model without a class", config={"model_type": "llama"})
    for settings in [
            {"additional_special_tokens": ["<new>"]}, {"extra_special_tokens": ["<new>", "<two>"]},
            {"extra_special_tokens": {"img": "<new>"}}, {"pad_token": "<new>"}, {"image_token": "<new>"},
            {"added_tokens_decoder": {"266": NEW}}, {"added_tokens_decoder": {"266": {**NEW, "special": False}}},
            {"added_tokens_decoder": {"266": {**NEW, "lstrip": True}, "267": {**NEW, "content": "<two>", "rstrip": True}}},
            {"added_tokens_decoder": {"9": {**NEW, "content": "<two>"}, "10": NEW}},
            {"added_tokens_decoder": {"10": {**NEW, "content": "<two>"}, "9": NEW}},
            {"added_tokens_decoder": {"263": {**NEW, "content": "<|end|>", "lstrip": True}}},
            {"added_tokens_decoder": {"1": {"content": "<new>"}}, "pad_token": "<new>"},
            {"added_tokens_decoder": {"1": {"content": "the", "special": False, "single_word": True}}},
            {"bos_token": TYPED}, {"unk_token": TYPED, "pad_token": "<new>"}, {"image_token": TYPED},
            {"image_token": {"content": "<new>"}}, {"additional_special_tokens": [TYPED, "<two>"]},
            {"additional_special_tokens": ["<new>"], "extra_special_tokens": ["<two>"]},
            {"additional_special_tokens": ["<new>"], "extra_special_tokens": []},
            {"model_specific_special_tokens": {"img_token": "<new>"}}, {"pad_token": "in_vocabulary"},
            {"pad_token": None}, {"pad_token": "the"}, {"split_special_tokens": True},
            {"split_special_tokens": True, "additional_special_tokens": ["<new>"]},
            {"add_prefix_space": True}, {"add_prefix_space": False}, {"legacy": True}, {"add_bos_token": True, "bos_token": "<s>"},
            {"add_eos_token": True, "eos_token": "</s>"}, {"do_lower_case": True}, {"clean_up_tokenization_spaces": True},
            {"unknown_setting": 1}, {"padding_side": "left"}, {"truncation_side": "left"}, {"model_max_length": 4},
            {"errors": "ignore"}, {"trim_offsets": False}, {"max_length": 3}, {"use_fast": False}, {"bos_token_id": 3},
            {"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": True}, {"tokenizer_class": "PreTrainedTokenizer"},
            {"tokenizer_class": "TokenizersBackend"}, {"tokenizer_class": "NoSuchTokenizer"}, {"tokenizer_class": "BloomTokenizerFast"}]:
        yield config_case(json.dumps(settings), **settings)
    for settings in [{"tokenizer_class": "RobertaTokenizer"}, {"tokenizer_class": "ByT5Tokenizer"}, {"tokenizer_class": "CohereTokenizerFast"},
                     {"tokenizer_class": "CLIPTokenizer"}, {"tokenizer_class": "T5TokenizerFast"}, {"tokenizer_class": "GemmaTokenizer"},
                     {"auto_map": {"AutoTokenizer": [None, "x.Y"]}}, {"init_inputs": ["x"]}, {"fix_mistral_regex": True},
                     {"fast_tokenizer_files": ["tokenizer.5.0.0.json"]}, {"post_processor": {"type": "ByteLevel"}},
                     {"tokenizer_truncation": {"max_length": 2}}, {"trust_remote_code": True},
                     {"image_token": "<new>", "audio_token": "<two>"}]:
        yield config_case(json.dumps(settings), REFUSED, **settings)
    for name in ["GPT2Tokenizer", "GPT2TokenizerFast", "CodeGenTokenizer", "Qwen2Tokenizer", "Qwen2TokenizerFast", "GPTNeoXTokenizerFast",
                 "LlamaTokenizer", "LlamaTokenizerFast"]:
        for prefix in [{}, {"add_prefix_space": True}, {"add_prefix_space": False}]:
            for more in [{}, {"added_tokens_decoder": {"300": NEW}}, {"additional_special_tokens": ["<new>"], "pad_token": "<two>"},
                         {"eos_token": TYPED}]:
                yield config_case(f"{name} {prefix} {more}", tokenizer_class=name, **prefix, **more)
    for name in ["LlamaTokenizer", "LlamaTokenizerFast", "GemmaTokenizer", "PreTrainedTokenizerFast"]:
        for legacy_parts in [False, True]:
            for settings in [{}, {"legacy": True}, {"legacy": False}, {"legacy": None}, {"add_prefix_space": False},
                             {"add_prefix_space": None}, {"add_prefix_space": True, "legacy": True}, {"unk_token": "<s>"},
                             {"added_tokens_decoder": {"1": {**NEW, "content": "<s>", "rstrip": True}}},
                             {"additional_special_tokens": ["<new>"]}, {"pad_token": None, "mask_token": None}]:
                yield config_case(f"{name} {'older parts' if legacy_parts else ''} {settings}", tokenizer=pieces_file(legacy_parts),
                                  tokenizer_class=name, **settings)
    for model in ["llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "gemma3_text", "gpt2", "gpt_neox", "olmoe", "phi3", "granite",
                  "smollm3", "mixtral", "olmo2", "no_such_model", "starcoder2", "llava", "qwen2_5_vl"]:
        for name in [None, "PreTrainedTokenizerFast", "LlamaTokenizer", "Qwen2Tokenizer", "GPT2TokenizerFast", "NoSuchTokenizer"]:
            for tokenizer in [bytes_file(), pieces_file()]:
                settings = {"tokenizer_class": name} if name else {}
                yield config_case(f"{model} {name} {tokenizer['model']['byte_fallback']}", EITHER if "gemma" in model else SAME,
                                  tokenizer=tokenizer, model=model, **settings)
                yield (f"{model} with {name} in config.json", EITHER if "gemma" in model else SAME,
                       {"tokenizer.json": tokenizer, "config.json": {"model_type": model, "tokenizer_class": name}})
    yield file_case("added_tokens.json", added_tokens={"<new>": 266})
    yield file_case("added_tokens.json, two", added_tokens={"<new>": 267, "<two>": 266})
    yield file_case("added_tokens.json, an id that is taken", added_tokens={"<new>": 263})
    yield file_case("added_tokens.json, special", added_tokens={"<new>": 266}, tokenizer_config={"pad_token": "<new>"})
    yield file_case("added_tokens.json, listed", added_tokens={"<new>": 266}, special_tokens_map={"additional_special_tokens": ["<new>"]})
    yield file_case("added_tokens.json is not read", added_tokens={"<new>": 266}, tokenizer_config={"added_tokens_decoder": {}})
    for settings in [{"pad_token": "<new>"}, {"pad_token": {**NEW, "lstrip": True}}, {"additional_special_tokens": ["<new>", "<two>"]},
                     {"extra_special_tokens": ["<new>"]}, {"extra_special_tokens": {"img": "<new>"}}, {"image_token": "<new>"},
                     {"image_token": NEW}, {"bos_token": "<s>", "eos_token": {**NEW, "content": "</s>"}}, {"split_special_tokens": True}]:
        name = f"special_tokens_map.json {json.dumps(settings)}"
        yield file_case(name, special_tokens_map=settings)
        yield file_case(name + " beside others", special_tokens_map=settings,
                        tokenizer_config={"pad_token": "<two>", "additional_special_tokens": ["<three>"]})
        yield file_case(name + ", not read", special_tokens_map=settings, tokenizer_config={"added_tokens_decoder": {"1": NEW}})
    for flags in [{}, {"special": False}, {"special": False, "normalized": True}]:
        token = {"content": "<|endoftext|>", **flags}
        for settings in [{"pad_token": {**token, "rstrip": True}, "eos_token": {"content": " a", "normalized": True}},
                         {"image_token": {**token, "rstrip": True}, "eos_token": {"content": " a", "normalized": True}},
                         {"additional_special_tokens": [{"__type": "AddedToken", **token}]}]:
            for more in [{}, {"split_special_tokens": True}]:
                yield file_case(f"special_tokens_map.json {json.dumps(settings)} {more}", special_tokens_map=settings, tokenizer_config=more)
    for token in [None, "<new>", {"content": "<new>", "lstrip": True}, {"content": "<two>"}]:
        for other in ["<two>", {**TYPED, "content": "<two>"}]:
            for more in [{}, {"extra_special_tokens": {"image_token": "<three>"}}, {"model_specific_special_tokens": {"image_token": "<three>"}}]:
                yield file_case(f"special_tokens_map.json with {token} beside {other} {more}", special_tokens_map={"image_token": token},
                                tokenizer_config={"image_token": other, **more})
    yield file_case("add_bos_token in special_tokens_map.json", REFUSED, special_tokens_map={"add_bos_token": True, "bos_token": "<s>"})
    for lstrip in [False, True]:
        for rstrip in [False, True]:
            for first in [{}, {"rstrip": True}]:
                tokenizer = bytes_file()
                added = tokenizer["added_tokens"]
                for content, flags in [("<A>", first), ("\n", {"lstrip": lstrip, "rstrip": rstrip})]:
                    added.append({**NEW, "content": content, **flags, "id": added[-1]["id"] + 1})
                yield f"white space as a token {lstrip} {rstrip} {first}", SAME, {"tokenizer.json": tokenizer}


def random_case(rng, number):
    tokens = ["<new>", "<two>", "<three>", "<|end|>", "<s>", "the", "in_vocabulary", " a", "\n", "<|endoftext|>", "<pad>"]

    def flags(content):
        names = ["lstrip", "rstrip", "single_word", "normalized", "special"]
        return {"content": content, **{name: rng.random() < 0.4 for name in names if rng.random() < 0.8}}

    def named():
        content = rng.choice(tokens)
        return rng.choice([content, {"__type": "AddedToken", **flags(content)}])

    settings = {}
    if rng.random() < 0.6:
        settings["tokenizer_class"] = rng.choice(REBUILT + ["PreTrainedTokenizerFast", "LlamaTokenizerFast"])
    for key in ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token", "image_token"]:
        if rng.random() < 0.25:
            settings[key] = rng.choice([named(), named(), None])
    for key in ["additional_special_tokens", "extra_special_tokens"]:
        if rng.random() < 0.3:
            settings[key] = [named() for _ in range(rng.randrange(0, 4))]
    if rng.random() < 0.4:
        settings["added_tokens_decoder"] = {str(rng.randrange(0, 300)): flags(rng.choice(tokens)) for _ in range(rng.randrange(0, 4))}
    for key in ["add_prefix_space", "legacy", "split_special_tokens"]:
        if rng.random() < 0.2:
            settings[key] = rng.random() < 0.5
    pieces = settings.get("tokenizer_class", "") in ("GemmaTokenizer", "LlamaTokenizer", "LlamaTokenizerFast") or rng.random() < 0.2
    tokenizer = pieces_file(rng.random() < 0.5) if pieces else bytes_file(added=rng.sample(tokens, rng.randrange(0, 4)))
    for token in tokenizer["added_tokens"]:
        for key in ["lstrip", "rstrip", "single_word", "normalized"]:
            token[key] = rng.random() < 0.25
    files = {"tokenizer.json": tokenizer, "tokenizer_config.json": settings}
    if rng.random() < 0.3:
        files["special_tokens_map.json"] = {key: rng.choice([rng.choice(tokens), flags(rng.choice(tokens))])
                                            for key in ["bos_token", "pad_token", "eos_token", "image_token"] if rng.random() < 0.5}
        for key in ["additional_special_tokens", "extra_special_tokens"]:
            if rng.random() < 0.3:
                files["special_tokens_map.json"][key] = [named() for _ in range(2)]
    if rng.random() < 0.3:
        files["added_tokens.json"] = {rng.choice(tokens): rng.randrange(250, 300) for _ in range(rng.randrange(0, 3))}
    if rng.random() < 0.3:
        files["config.json"] = {"model_type": rng.choice(["llama", "qwen2", "qwen3", "gpt2", "gpt_neox", "mistral", "phi3"])}
    return f"random {number}", EITHER, files


# ---- keys of tokenizer.json ----

def parts_of_tokenizers():
    """Yields (section, saved part) for each class of the package, so that each key that it reads occurs."""
    n, p, d = normalizers, pre_tokenizers, decoders
    sections = {
        "normalizer": [n.NFC(), n.NFD(), n.NFKC(), n.NFKD(), n.Prepend("▁"), n.Replace("a", "b"), n.Lowercase(), n.Strip(),
                       n.StripAccents(), n.ByteLevel(), n.Nmt(), n.BertNormalizer(), n.Sequence([n.NFC(), n.Lowercase()])],
        "pre_tokenizer": [p.ByteLevel(), p.Split(" ", "isolated"), p.Metaspace(), p.Digits(), p.Whitespace(), p.WhitespaceSplit(),
                          p.Punctuation(), p.BertPreTokenizer(), p.CharDelimiterSplit("a"), p.UnicodeScripts(),
                          p.Sequence([p.Digits(), p.ByteLevel()])],
        "post_processor": [processors.ByteLevel(), processors.BertProcessing(("</s>", 2), ("<s>", 1)),
                           processors.RobertaProcessing(("</s>", 2), ("<s>", 1)),
                           processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])],
        "decoder": [d.ByteLevel(), d.Metaspace(), d.ByteFallback(), d.Fuse(), d.Replace("a", "b"), d.Strip("a", 1, 0), d.BPEDecoder(),
                    d.WordPiece(), d.CTC(), d.Sequence([d.Fuse(), d.Strip("a", 1, 0)])]}
    for section, parts in sections.items():
        for part in parts:
            tokenizer = Tokenizer(models.BPE())
            setattr(tokenizer, section, part)
            yield section, json.loads(tokenizer.to_str())[section]


def changed_values(value):
    """Yields other values of the same type and of other types."""
    words = ["", "a", " ", "▁", "always", "first", "never", "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous",
             "<s>", "b"]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return [value + 1, 0, None]
    return [w for w in words if w != value] if isinstance(value, str) or value is None else []


def changed(value, path=()):
    """Yields copies of a JSON value with one value changed each, and the path of that value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    for key, held in items:
        for other in [False, True, 0.5] if held is None else []:
            yield path + (key,), {**value, key: other} if isinstance(value, dict) else value
        for other in changed_values(held):
            copied = copy.copy(value)
            copied[key] = other
            yield path + (key,), copied
        for place, inner in changed(held, path + (key,)):
            copied = copy.copy(value)
            copied[key] = inner
            yield place, copied


def changed_files():
    for section, part in parts_of_tokenizers():
        for place, other in [((), part)] + list(changed(part)):
            file = pieces_file()
            file[section] = other
            yield f"{section} {part['type']} {place} {json.dumps(other, ensure_ascii=False)}", file
    plain = pieces_file()
    options = {key: value for key, value in plain["model"].items() if key not in ("vocab", "merges")}
    for place, other in changed(options):
        yield f"model {place} {other[place[0]]!r}", {**plain, "model": {**plain["model"], **other}}
    for place, other in changed(plain["added_tokens"][1]):
        yield f"added token {place} {other[place[0]]!r}", {**plain, "added_tokens": [plain["added_tokens"][0], other]}
    for key in ("truncation", "padding", "version", "no_such_key"):
        yield key, {**plain, key: {"direction": "Right"}}


def check_parts(sluice, folder):
    """Changes every key of every part. sluice must agree with tokenizers or reject the file."""
    wrong = compared = refused = 0
    path = os.path.join(folder, "part.json")
    for name, file in changed_files():
        with open(path, "w", encoding="utf-8") as out:
            json.dump(file, out, ensure_ascii=False)
        try:
            tokenizer = Tokenizer.from_file(path)
            expected = [tokenizer.encode(text).ids for text in TEXTS]
            texts = [tokenizer.decode(ids, skip_special_tokens=False) for ids in expected]
        except BaseException as error:  # panics of tokenizers are no Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            continue
        found, refusal = ids_of_sluice(sluice, path)
        if found is None:
            refused += 1
            if not (refusal.startswith("exit 3") and path in refusal):
                wrong += 1
                print(f"{name}: {refusal}")
            continue
        compared += 1
        lines = "".join(json.dumps(ids) + "\n" for ids in expected)
        done = subprocess.run([sluice, "data", "tokenize", "--tokenizer", path, "--decode", "-"], input=lines.encode(), capture_output=True)
        decoded = [json.loads(line) for line in done.stdout.decode().splitlines()]
        if found != expected or decoded != texts:
            wrong += 1
            print(f"{name}: other {'ids' if found != expected else 'text'}")
    print(f"parts: {compared} compared, {refused} refused: {'ok' if not wrong else 'DIFFERENT'}")
    return wrong


def ids_of_transformers(directory):
    """Returns the ids of the texts. Returns None if transformers rejects the directory, and None in the list
    for a text that fails."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(directory)
    except BaseException as error:  # panics of tokenizers are no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return None
    ids = []
    for text in TEXTS:
        try:
            ids.append(tokenizer(text)["input_ids"])
        except BaseException:
            ids.append(None)
    return ids


def ids_of_sluice(sluice, directory):
    lines = "".join(json.dumps(text) + "\n" for text in TEXTS)
    done = subprocess.run([sluice, "data", "tokenize", "--tokenizer", directory, "-"], input=lines.encode(), capture_output=True)
    if done.returncode == 0:
        return [json.loads(line) for line in done.stdout.decode().splitlines()], ""
    return None, f"exit {done.returncode}: {done.stderr.decode().strip()}"


def check_case(sluice, case, folder, counts):
    name, expected, files = case
    directory = os.path.join(folder, "directory")
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    for file, content in files.items():
        with open(os.path.join(directory, file), "w", encoding="utf-8") as out:
            json.dump(content, out, ensure_ascii=False)
    found, refusal = ids_of_sluice(sluice, directory)
    if found is None and not (refusal.startswith("exit 3") and directory in refusal):
        print(f"{name}: {refusal}")
        return 1
    theirs = ids_of_transformers(directory)
    if found is None:
        counts["refused"] += 1
        if theirs is None or expected != SAME:
            return 0
        print(f"{name}: refused: {refusal}")
        return 1
    if expected == REFUSED:
        print(f"{name}: not refused")
        return 1
    if theirs is None:
        counts["not for transformers"] += 1
        return 0
    counts["compared"] += 1
    wrong = [i for i, ids in enumerate(theirs) if ids is not None and ids != found[i]]
    for i in wrong[:2]:
        print(f"{name}: {TEXTS[i]!r}\n  transformers {theirs[i]}\n  sluice       {found[i]}")
    if wrong and name.startswith("random"):
        print(json.dumps({k: v if k != "tokenizer.json" else v["added_tokens"] for k, v in files.items()}))
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sluice", required=True)
    parser.add_argument("--random", type=int, default=100, help="directories that are drawn, beside those that are listed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tables-only", action="store_true")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    arguments = parser.parse_args()
    wrong = check_tables()
    if not arguments.tables_only:
        rng = random.Random(arguments.seed)
        all_cases = list(cases()) + [random_case(rng, i) for i in range(arguments.random)]
        counts = dict.fromkeys(["compared", "refused", "not for transformers"], 0)
        with tempfile.TemporaryDirectory() as folder:
            if not arguments.only:
                wrong += check_parts(arguments.sluice, folder)
            for case in all_cases:
                if arguments.only in case[0]:
                    wrong += check_case(arguments.sluice, copy.deepcopy(case), folder, counts)
        print(", ".join(f"{count} {what}" for what, count in counts.items()) + f": {'ok' if not wrong else 'DIFFERENT'}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
