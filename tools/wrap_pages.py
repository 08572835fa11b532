#!/usr/bin/env python3
"""Wraps the paragraphs and list items of Markdown pages at 100 columns. Tables, code and headings stay as
they are.

usage: wrap_pages.py [--check] PAGE...; --check changes nothing, and exits with 1 if lines are too long.
"""
import re
import sys

COLUMNS = 100
ITEM = re.compile(r"( *)([-*]|\d+\.) +")
AS_IS = re.compile(r"#|\||!\[|    |<|$|\[[^\]]+\]: ")
# At the beginning of a line, one of these would start another Markdown element.
MARKER = re.compile(r"([-+*#>|]|\d+[.)])$")


def filled(words, first, rest):
    lines, line = [], first + words[0]
    for word in words[1:]:
        if len(line) + 1 + len(word) > COLUMNS and not MARKER.match(word):
            lines.append(line)
            line = rest + word
        else:
            line += " " + word
    return lines + [line]


def words_of(text):
    """Splits into words. A code span is one word, because its spaces count."""
    return re.findall(r"(?:`[^`]*`|[^\s`])+", text)


def wrapped(text):
    out, words, first, rest, in_code = [], [], "", "", False

    def flush():
        nonlocal words
        if words:
            out.extend(filled(words_of(" ".join(words)), first, rest))
        words = []

    for line in text.split("\n"):
        item = ITEM.match(line)
        if line.lstrip().startswith("```") or in_code:
            flush()
            in_code ^= line.lstrip().startswith("```")
            out.append(line)
        elif item:
            flush()
            first, rest, words = item.group(0), " " * len(item.group(0)), [line[item.end():]]
        elif words and line.strip() and not re.match(r"[#|]|\s*[-*] ", line):
            words.append(line.strip())
        elif AS_IS.match(line):
            flush()
            out.append(line)
        else:
            flush()
            first = rest = line[:len(line) - len(line.lstrip())]
            words = [line.strip()]
    flush()
    return "\n".join(out)


def main():
    pages = [page for page in sys.argv[1:] if page != "--check"]
    faults = 0
    for page in pages:
        with open(page) as file:
            text = file.read()
        new = wrapped(text)
        if "--check" not in sys.argv:
            if new != text:
                with open(page, "w") as file:
                    file.write(new)
            continue
        kept = set(new.split("\n"))
        long = [number for number, line in enumerate(text.split("\n"), 1) if len(line) > COLUMNS and line not in kept]
        if long:
            print(f"{page}:{long[0]}: {len(long)} lines are longer than {COLUMNS} columns; tools/wrap_pages.py wraps them")
            faults = 1
    sys.exit(faults)


main()
