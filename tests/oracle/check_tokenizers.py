#!/usr/bin/env python3
"""Compares `sluice data tokenize` with the package `tokenizers`, which is the reference.

Trains tokenizers with every kind of part that sluice reads, and gives both programs the same strings: words of many
scripts, and known trouble such as marks, spaces, controls and added tokens inside words. Compares ids, with and
without special tokens, and decoded text. Exits 1 and prints the first differences if there are any.

  python tests/oracle/check_tokenizers.py --sluice build/bin/sluice [--all | --tokenizers N] [--strings N]
                                    [--seed N] [--only NAME]
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

os.environ["TOKENIZERS_PARALLELISM"] = "false"

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path = [p for p in sys.path if os.path.abspath(p or ".") != HERE]  # this file has the package's name

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers  # noqa: E402
from tokenizers import pre_tokenizers, processors, trainers  # noqa: E402

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
             r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK1 = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+"]
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
          r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s")


# ---- strings ----

WORDS = ["the", "quick", "brown", "fox", "Hello", "WORLD", "naïve", "café", "Übergröße", "straße", "don't", "I'LL",
         "we'Ve", "they'd", "x's", "1234567890", "3.14159", "2024-01-31", "٣٤٥", "१२३", "Ⅻ", "½", "def f(x):",
         "return x**2", "http://a.b/c?d=e&f", "user@example.org", "北京市", "東京タワー", "ひらがな", "カタカナ", "한국어",
         "각", "مرحبا", "שלום", "Привет", "γειά", "नमस्ते", "สวัสดี", "👍", "👩‍👩‍👧‍👦", "🇩🇪", "🏳️‍🌈", "é", "é",
         "Å", "Å", "ﬁ", "ſ", "K", "İ", "ı", "ǅ", "ß", "ẞ", "ΑΣ", "a̧̱", "q̣̇", "ệ", "…", "—", "“q”", "‘s", "’s",
         "\u200b", "\u200d", "\ufeff", "\u00ad", "\u2028", "\u0085", "\u3000", "\u180e", "\u00a0", "\t", "\n", "\r\n", "\r",
         "\n\n\n", " ", "  ", "     ", "!!!", "?!", "...", "$5", "€", "#tag", "@me", "<s>", "</s>", "<|end|>", "<unk>", "[X]",
         "<tool>", "tool", "[Y]", "ünder", "_", "▁", "▁▁", "<0x0A>", "\x00", "\x01", "\x1b[0m", "\x7f", "\ufffd", "\U0001f9ff",
         "\U0001F6D8", "\u0e33", "\u0f73", "\u1161", "\u11a8", "가\u11a8", "𝔘𝔫𝔦", "𝟘", "①", "㌔", "ﷺ", "Ω", "ﬃ", "ⓐ", "²"]
SPACES = [" ", " ", " ", " ", "", "", "  ", "\n", "\t", "\n\n", " \n "]
ALPHABETS = [range(0x20, 0x7F), range(0, 0x250), range(0x300, 0x370), range(0x400, 0x530), range(0x590, 0x700),
             range(0x900, 0xE00), range(0x1100, 0x1200), range(0x1E00, 0x2100), range(0x2000, 0x2070),
             range(0x2580, 0x25A0), range(0x3000, 0x3100), range(0x4E00, 0x4F00), range(0xAC00, 0xAD00),
             range(0xF900, 0x10000), range(0x10000, 0x11000), range(0x1D400, 0x1D800), range(0x1F300, 0x1F700),
             range(0xE0000, 0xE0200), range(0, 0xD800), range(0xE000, 0x110000)]


def make_string(rng):
    kind = rng.random()
    if kind < 0.55:
        return "".join(rng.choice(WORDS) + rng.choice(SPACES) for _ in range(rng.randrange(0, 12)))
    if kind < 0.7:
        alphabet = rng.choice(ALPHABETS)
        return "".join(chr(rng.choice(alphabet)) for _ in range(rng.randrange(1, 24)))
    if kind < 0.85:
        parts = []
        for _ in range(rng.randrange(1, 10)):
            parts.append(rng.choice(WORDS) if rng.random() < 0.5 else chr(rng.choice(rng.choice(ALPHABETS))))
        return "".join(parts)
    if kind < 0.95:  # runs of one character
        return "".join(rng.choice([" ", "\n", "a", "1", "é", "\t", "▁", "'", "あ", "̀"]) * rng.randrange(1, 40)
                       for _ in range(rng.randrange(1, 5)))
    return rng.choice(SPACES) * rng.randrange(0, 6) + rng.choice(WORDS) + rng.choice(SPACES) * rng.randrange(0, 6)


def corpus(rng, size=3000):
    return [" ".join(rng.choice(WORDS) for _ in range(20)) for _ in range(size // 4)] + [
        make_string(rng) for _ in range(size)]


# ---- tokenizers ----

SCALE = 1.0  # scale of vocabulary sizes; tools/make_reference_tokenizers.py makes small ones


def byte_level(rng, pre_tokenizer, normalizer=None, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=int(900 * SCALE), show_progress=False, special_tokens=["<|end|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(rng), trainer)
    return tokenizer


def split_then_bytes(*patterns):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated") for p in patterns] +
                                   [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def template(tokenizer, single, *special):
    return processors.TemplateProcessing(single=single, pair=f"{single} $B:1",
                                         special_tokens=[(s, tokenizer.token_to_id(s)) for s in special])


def gpt2(rng):
    t = byte_level(rng, pre_tokenizers.ByteLevel(add_prefix_space=False))
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def llama3(rng):
    t = byte_level(rng, split_then_bytes(LLAMA3), ignore_merges=True)
    t.add_special_tokens(["<s>", "</s>", AddedToken("<tool>", lstrip=True, rstrip=True, special=True)])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template(t, "<s> $A", "<s>")])
    return t


def qwen2(rng):
    t = byte_level(rng, split_then_bytes(QWEN2), normalizers.NFC())
    t.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("ünder", normalized=True),
                  AddedToken("[X]", single_word=True), AddedToken("[Y]", rstrip=True, single_word=True)])
    return t


def deepseek(rng):
    t = byte_level(rng, pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"),
        pre_tokenizers.Split(Regex("[一-龥぀-ゟ゠-ヿ]+"), "isolated"),
        pre_tokenizers.Split(Regex(DEEPSEEK3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), normalizers.Sequence([]))
    t.add_special_tokens(["<s>"])
    t.post_processor = template(t, "<s> $A", "<s>")
    return t


def deepseek_coder(rng):
    return byte_level(rng, pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(p), "isolated") for p in DEEPSEEK1] +
        [pre_tokenizers.Digits(individual_digits=True),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))


def o200k(rng):
    return byte_level(rng, split_then_bytes(O200K))


def cl100k(rng):
    t = byte_level(rng, split_then_bytes(CL100K), normalizers.NFKC())
    t.add_special_tokens(["</s>", "<s>"])
    t.post_processor = template(t, "<s> $A </s>", "<s>", "</s>")
    return t


def sentencepiece_bpe(rng, pre_tokenizer, normalizer, decoder, **options):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=int(1100 * SCALE), show_progress=False,
                                  special_tokens=special, limit_alphabet=int(150 * SCALE))
    tokenizer.train_from_iterator(corpus(rng), trainer)
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [a for a in state["added_tokens"] if not a["content"].startswith("<0x")]
    state["model"].update(options)
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.pre_tokenizer, tokenizer.normalizer, tokenizer.decoder = pre_tokenizer, normalizer, decoder
    tokenizer.post_processor = template(tokenizer, "<s> $A", "<s>")
    # Reloads it, because the file decides how tokens are normalized.
    return Tokenizer.from_str(tokenizer.to_str())


def sentencepiece_decoder():
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                              decoders.Strip(content=" ", left=1)])


def llama2(rng):
    return sentencepiece_bpe(rng, None, normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), sentencepiece_decoder())


def mistral(rng):
    t = sentencepiece_bpe(rng, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), None,
                          sentencepiece_decoder())
    t.add_tokens([AddedToken("<tool>", lstrip=True), AddedToken("tool", single_word=True)])
    return t


def gemma(rng):
    return sentencepiece_bpe(rng, pre_tokenizers.Split(" ", "merged_with_previous"), normalizers.Replace(" ", "▁"),
                             decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                                decoders.Fuse()]), fuse_unk=True)


def no_fallback(rng):
    t = sentencepiece_bpe(rng, pre_tokenizers.Metaspace(prepend_scheme="always"), normalizers.Sequence(
        [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()]),
        decoders.Metaspace(), byte_fallback=False, fuse_unk=False)
    t.add_tokens(["Hello", "<tool>"])
    return t


def words(rng):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Replace(Regex(r"[‘’]|''"), "'")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("merged_with_next"), pre_tokenizers.Digits(False)])
    trainer = trainers.BpeTrainer(vocab_size=int(1500 * SCALE), show_progress=False, special_tokens=["<unk>", "</s>"],
                                  continuing_subword_prefix="##", end_of_word_suffix="</w>", limit_alphabet=300)
    tokenizer.train_from_iterator(corpus(rng), trainer)
    tokenizer.decoder = decoders.BPEDecoder()
    tokenizer.post_processor = processors.BertProcessing(("</s>", 1), ("<unk>", 0))
    return tokenizer


def behaviours(rng):
    t = byte_level(rng, pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"\s+"), "merged_with_next"), pre_tokenizers.Split("'", "contiguous"),
        pre_tokenizers.Split(Regex(r"[^\W\d]+|(?<=\d)[.,](?=\d)"), "isolated", invert=True),
        pre_tokenizers.Split(Regex(r"[\u00e0-\u00ff&&[^é]]+?"), "merged_with_previous"),
        pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True)]), normalizers.NFD())
    t.add_tokens(["<tool>"])
    return t


def bytes_normalized(rng):
    t = byte_level(rng, pre_tokenizers.Split(Regex(r"Ġ?[^Ġ]+|Ġ+"), "isolated"), normalizers.ByteLevel())
    t.add_tokens([AddedToken("é", normalized=True), AddedToken("<tool>", normalized=False)])
    return t


TOKENIZERS = [llama3, mistral, qwen2, gpt2, llama2, deepseek, gemma, o200k, words, no_fallback, cl100k, behaviours,
              deepseek_coder, bytes_normalized]


# ---- comparison ----

def run(sluice, arguments, lines):
    done = subprocess.run([sluice, "data", "tokenize", *arguments, "-"], input="".join(l + "\n" for l in lines).encode(),
                          capture_output=True)
    if done.returncode != 0:
        sys.exit(f"sluice data tokenize {' '.join(arguments)} exited {done.returncode}: {done.stderr.decode()}")
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def compare(name, what, inputs, expected, found):
    if len(expected) != len(found):
        print(f"{name}: {what}: {len(found)} lines for {len(expected)}")
        return 1
    wrong = [i for i, (e, f) in enumerate(zip(expected, found)) if e != f]
    for i in wrong[:5]:
        print(f"{name}: {what}: {json.dumps(inputs[i])}\n  tokenizers {json.dumps(expected[i])}\n"
              f"  sluice     {json.dumps(found[i])}")
    if wrong:
        print(f"{name}: {what}: {len(wrong)} of {len(expected)} differ")
    return len(wrong)


def check(sluice, make, num_strings, seed, folder):
    name = make.__name__
    tokenizer = make(random.Random(seed))
    path = os.path.join(folder, name + ".json")
    tokenizer.save(path)
    tokenizer = Tokenizer.from_file(path)
    rng = random.Random(f"{seed} {name}")
    strings = [make_string(rng) for _ in range(num_strings)] + ["", " ", "\n"]
    lines = [json.dumps(s) for s in strings]
    wrong = 0
    with_special = [e.ids for e in tokenizer.encode_batch(strings)]
    plain = [e.ids for e in tokenizer.encode_batch(strings, add_special_tokens=False)]
    wrong += compare(name, "ids", strings, with_special, run(sluice, ["--tokenizer", path], lines))
    wrong += compare(name, "ids without special tokens", strings, plain,
                     run(sluice, ["--tokenizer", path, "--no-special"], lines))
    ids = [i for i in with_special if i]
    known = sorted(tokenizer.get_vocab().values())
    ids += [[rng.choice(known) for _ in range(rng.randrange(1, 12))] for _ in range(num_strings // 4)]
    texts = [tokenizer.decode(i, skip_special_tokens=False) for i in ids]
    wrong += compare(name, "decoded text", ids, texts,
                     run(sluice, ["--tokenizer", path, "--decode"], [json.dumps(i) for i in ids]))
    print(f"{name}: {len(strings)} strings, {len(ids)} lists of ids: {'ok' if not wrong else 'DIFFERENT'}", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sluice", required=True)
    parser.add_argument("--all", action="store_true", help="every tokenizer; otherwise the first three")
    parser.add_argument("--tokenizers", type=int, default=3)
    parser.add_argument("--strings", type=int, default=100_000, help="for each tokenizer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    chosen = TOKENIZERS if arguments.all else TOKENIZERS[:arguments.tokenizers]
    if arguments.only:
        chosen = [t for t in TOKENIZERS if t.__name__ in arguments.only.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        wrong = sum(check(arguments.sluice, make, arguments.strings, arguments.seed, folder) for make in chosen)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
