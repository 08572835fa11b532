#!/usr/bin/env python3
"""Makes everything for a small fine-tuning: a tokenizer, a model to start from, and chats to learn.

usage: make_chats.py DIRECTORY [--chats N] [--seed S]

Needs only Python. Writes
  DIRECTORY/model/config.json            a Llama of 0.6 million parameters, without weights
  DIRECTORY/model/tokenizer.json         byte-level BPE of a few hundred tokens, trained here on the chats
  DIRECTORY/model/tokenizer_config.json  with the chat template (ChatML), for programs that read one
  DIRECTORY/text.txt                     plain text, to learn the language from
  DIRECTORY/chats.jsonl                  one conversation per line: {"messages": [{"role": .., "content": ..}, ..]}
  DIRECTORY/validation.jsonl             conversations that are not in chats.jsonl
The same arguments write the same bytes.
"""
import argparse
import collections
import json
import pathlib
import random
import re

NUM_MERGES = 192
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHATML = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
          "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
          "{% endif %}")

# ---- the chats ----

COLORS = {"grass": "green", "snow": "white", "coal": "black", "the sky": "blue", "a lemon": "yellow", "blood": "red"}
SOUNDS = {"a dog": "barks", "a cat": "meows", "a cow": "moos", "a duck": "quacks", "a bee": "buzzes", "a horse": "neighs"}
SYSTEM = "You answer in one sentence."


def color(rng):
    thing = rng.choice(sorted(COLORS))
    return f"What color is {thing}?", f"{thing[0].upper() + thing[1:]} is {COLORS[thing]}."


def sound(rng):
    animal = rng.choice(sorted(SOUNDS))
    return f"What does {animal} do?", f"{animal[0].upper() + animal[1:]} {SOUNDS[animal]}."


def total(rng):
    a, b = rng.randint(0, 20), rng.randint(0, 20)
    return f"What is {a} plus {b}?", f"{a} plus {b} is {a + b}."


def larger(rng):
    a, b = rng.sample(range(100), 2)
    return f"Which is larger, {a} or {b}?", f"{max(a, b)} is larger than {min(a, b)}."


def make_chat(rng):
    messages = [{"role": "system", "content": SYSTEM}] if rng.random() < 0.5 else []
    for _ in range(rng.randint(1, 3)):
        question, answer = rng.choice([color, sound, total, larger])(rng)
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return {"messages": messages}


def text_of(chat):
    return " ".join(message["content"] for message in chat["messages"] if message["role"] == "assistant")


# ---- the tokenizer: byte pair encoding after Sennrich et al., arXiv:1508.07909 ----

def byte_letters():
    """Returns a letter for each byte, as byte-level tokenizers write them: printable bytes stand for
    themselves."""
    own = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    return {byte: chr(byte) for byte in own} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def train_merges(texts, letters):
    # Splits text into words like the pre-tokenizer "ByteLevel", for ASCII.
    pattern = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")
    counts = collections.Counter(word for text in texts for word in pattern.findall(text))
    words = [([letters[byte] for byte in word.encode()], count) for word, count in sorted(counts.items())]
    merges = []
    while len(merges) < NUM_MERGES:
        pairs = collections.Counter()
        for parts, count in words:
            for pair in zip(parts, parts[1:]):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for parts, _ in words:
            i = 0
            while i + 1 < len(parts):
                if (parts[i], parts[i + 1]) == best:
                    parts[i:i + 2] = ["".join(best)]
                i += 1
    return merges


def make_tokenizer(texts):
    letters = byte_letters()
    merges = train_merges(texts, letters)
    tokens = sorted(letters.values()) + ["".join(merge) for merge in merges]
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    added = [{"id": len(vocabulary) + i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, token in enumerate(SPECIAL)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocabulary, "merges": [list(merge) for merge in merges]},
    }


def id_of(tokenizer, token):
    return next(added["id"] for added in tokenizer["added_tokens"] if added["content"] == token)


def model_config(tokenizer):
    end = id_of(tokenizer, "<|im_end|>")
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "vocab_size": len(tokenizer["model"]["vocab"]) + len(SPECIAL),
        "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "initializer_range": 0.02, "hidden_act": "silu", "tie_word_embeddings": False,
        "bos_token_id": id_of(tokenizer, "<|endoftext|>"), "eos_token_id": end, "torch_dtype": "float32",
    }


# ---- the files ----

def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--chats", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    chats = [make_chat(rng) for _ in range(given.chats)]
    known = {json.dumps(chat) for chat in chats}
    fresh = []
    while len(fresh) < max(1, given.chats // 10):
        chat = make_chat(rng)
        if json.dumps(chat) not in known:
            fresh.append(chat)
    texts = [message["content"] for chat in chats for message in chat["messages"]]
    tokenizer = make_tokenizer(texts + ["system\n", "user\n", "assistant\n"])

    model = given.directory / "model"
    model.mkdir(parents=True, exist_ok=True)
    write_json(model / "tokenizer.json", tokenizer)
    write_json(model / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>", "model_max_length": 512, "chat_template": CHATML,
        "clean_up_tokenization_spaces": False})
    write_json(model / "config.json", model_config(tokenizer))
    (given.directory / "text.txt").write_text("\n".join(text_of(chat) for chat in chats) + "\n")
    write_lines(given.directory / "chats.jsonl", chats)
    write_lines(given.directory / "validation.jsonl", fresh)


if __name__ == "__main__":
    main()
