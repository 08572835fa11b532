#!/usr/bin/env python3
"""Compares chat templates with transformers, which is the reference.

Renders generated conversations (system, tools, thinking, empty turns, Unicode, 1 to 12 turns) with the templates of
tests/oracle/templates and of the packages trl and axolotl, as far as these are installed, and small templates that
try one construct each. Compares text, spans of {% generation %}, and whether both refuse. Exits 1 and prints the first
differences if there are any.

  python tests/oracle/check_templates.py --render build/bin/oracle_template [--conversations N] [--seed N] [--only NAME]
"""

import argparse
import copy
import glob
import importlib.util
import json
import logging
import os
import random
import subprocess
import sys

from transformers.utils import chat_template_utils as reference

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = {"trl": "chat_templates", "axolotl": "utils/chat_templates/templates"}

TEXTS = ["", "Hi", "What is 3 plus 4?", "  padded \n", "line\n\nline", "<think>\nhm\n</think>\n\nYes.", "naïve café",
         "北京市 東京", "👩‍👩‍👧 🇩🇪", "a\u00a0b\u3000", "'single' \"double\" \\ back", "{{ not }} {% code %}", "<|im_end|>", "tab\tcr\r\nend",
         "x" * 300, "\u2028sep", "<think>", "</think> after", "<tool_response>\n1\n</tool_response>", "Übergröße ẞ", "\x7f\x01"]
NAMES = ["get_weather", "add", "search.web", "größe"]


def parameters(rng):
    kinds = [{"type": "string", "description": rng.choice(TEXTS)}, {"type": "integer"}, {"type": ["string", "null"]},
             {"type": "array", "items": {"type": "number"}}, {"type": "string", "enum": ["a", "b\"c"]},
             {"type": "object", "properties": {"z": {"type": "boolean", "default": True}, "A": {"type": "string"}}}]
    names = rng.sample(["city", "n", "options", "Zone", "äpfel"], rng.randrange(0, 4))
    made = {"type": "object", "properties": {name: rng.choice(kinds) for name in names}}
    if rng.random() < 0.7:
        made["required"] = names[:1]
    return made


def tool(rng):
    function = {"name": rng.choice(NAMES), "description": rng.choice(TEXTS), "parameters": parameters(rng)}
    if rng.random() < 0.3:
        function["return"] = {"type": "string", "description": "result"}
    return {"type": "function", "function": function}


def arguments(rng):
    values = [1, -2.5, 1e-7, 1e20, True, None, "text", rng.choice(TEXTS), [1, "a"], {"k": {"x": []}}, {}]
    made = {rng.choice(["city", "n", "b", "Ä"]): rng.choice(values) for _ in range(rng.randrange(0, 4))}
    return json.dumps(made) if rng.random() < 0.2 else made


def calls(rng, has_ids):
    made = []
    for _ in range(rng.randrange(1, 3)):
        call = {"type": "function", "function": {"name": rng.choice(NAMES), "arguments": arguments(rng)}}
        if has_ids:
            call["id"] = "".join(rng.choice("abcdefghi123456789") for _ in range(9))
        made.append(call)
    return made


def content(rng, share_of_lists):
    text = rng.choice(TEXTS)
    if rng.random() < share_of_lists:
        return [{"type": "text", "text": text}] * rng.randrange(1, 3)
    return text


def conversation(rng):
    messages, has_tools = [], rng.random() < 0.4
    lists = 1 if rng.random() < 0.1 else 0.15
    if rng.random() < 0.5:
        messages.append({"role": "system", "content": content(rng, lists)})
    for _ in range(rng.randrange(1, 7)):
        messages.append({"role": "user", "content": content(rng, lists)})
        if rng.random() < 0.1:
            break
        answer = {"role": "assistant", "content": content(rng, lists)}
        if rng.random() < 0.25:
            answer[rng.choice(["reasoning_content", "thinking", "reasoning"])] = rng.choice(TEXTS)
        if has_tools and rng.random() < 0.5:
            answer["tool_calls"] = calls(rng, rng.random() < 0.7)
            answer["content"] = rng.choice([None, "", "Let me see."])
            messages.append(answer)
            for call in answer["tool_calls"]:
                messages.append({"role": "tool", "content": rng.choice(["7", '{"t": 21}', ""]),
                                 "name": call["function"]["name"], "tool_call_id": call.get("id", "123456789")})
            answer = {"role": "assistant", "content": content(rng, lists)}
        messages.append(answer)
    if rng.random() < 0.05:
        rng.shuffle(messages)
    variables = {"tools": [tool(rng) for _ in range(rng.randrange(1, 3))] if has_tools else None,
                 "add_generation_prompt": rng.random() < 0.3, "bos_token": "<s>", "eos_token": "</s>"}
    if rng.random() < 0.2:
        variables["enable_thinking"] = rng.random() < 0.5
    return messages, variables


# ---- one construct each: expressions over these variables ----

VARIABLES = {"s": "Hello, Wörld", "e": "", "t": " \t pad\u3000\n", "n": 7, "f": 2.5, "z": None, "yes": True, "no": False,
             "l": [3, 1, 2], "w": ["b", "A", "c"], "d": {"b": 1, "a": [1, "x'y"], "items": 3}, "u": "äöü\n\"q\"",
             "m": [{"role": "user", "content": "x", "f": {"name": "p"}}, {"role": "tool", "content": None}]}
OPERANDS = ["s", "e", "t", "n", "f", "z", "yes", "no", "l", "w", "d", "u", "m", "missing", "'lit'", "3", "0", "1.5", "[]", "()",
            "(1, 'a')", "{'k': 1}", "m[0].role", "d.a", "d['a'][1]", "m[0]", "'%'", "[1, none, true]", "s[0]", "range(3)"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
FILTERS = ["trim", "length", "count", "string", "safe", "lower", "upper", "title", "capitalize", "replace('l', 'L')", "tojson", "int", "float",
           "default('D')", "d('D', true)", "default", "tojson(indent=2)", "tojson(ensure_ascii=true)", "tojson(sort_keys=true)", "abs",
           "tojson(separators=(',', ':'))", "indent", "indent(2, true)", "first", "last", "list", "reverse", "join", "join(', ')",
           "dictsort", "dictsort(reverse=true)", "sort", "sort(reverse=true)", "unique|list", "sum", "map('upper')|list",
           "map(attribute='role')|list", "map(attribute='f.name', default='-')|list", "select|list", "reject('none')|list",
           "selectattr('role', 'equalto', 'user')|list", "rejectattr('content')|list", "selectattr('f', 'defined')|list", "list|last",
           "items|list", "trim('\\n')", "map('tojson')|join(';')", "select('string')|join", "tojson(indent=4, sort_keys=true)", "reverse|list"]
TESTS = ["defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number", "string", "mapping", "sequence",
         "iterable", "odd", "even", "divisibleby 2", "divisibleby(3)", "in ['lit', 3]", "eq 3", "equalto 'lit'", "callable", "sameas true", "ne 3",
         "not defined", "not none", "lt 3", "ge(2)"]
METHODS = ["strip()", "lstrip()", "rstrip()", "strip('Hld ')", "split()", "split(',')", "split(', ', 1)", "rsplit('l', 1)", "rsplit()", "splitlines()",
           "splitlines(true)", "startswith('He')", "endswith(('x', 'd'))", "startswith('l', 2)", "upper()", "lower()", "title()", "capitalize()",
           "replace('l', '')", "replace('', '-')", "replace('l', 'LL', 1)", "find('l')", "rfind('l')", "find('ö', 3, 9)", "count('l')", "count('')",
           "index('l')", "rindex('o')", "join(w)", "join(['a'])", "removeprefix('He')", "removesuffix('d')", "isdigit()", "get('a')", "get('q')",
           "get('q', 5)", "items()|list", "keys()|list", "values()|list", "items()|length", "split(none, 1)", "rsplit(none, 1)", "find('l', -3)",
           "strip().split('\\n')[-1]", "index(1)", "count(1)"]
SLICES = ["[0]", "[-1]", "[5]", "[1:]", "[:2]", "[::-1]", "[-2:]", "[1:3]", "[::2]", "[3:1:-1]", "['a']", "[:-1]", "['items']", ".items", ".a", ".role",
          "[none:2]", "[10:]", "[:-9]", "[::-2]", ".append", ".0"]


def snippets(rng, count):
    for operand in OPERANDS:
        yield from ("{{ %s|%s }}" % (operand, f) for f in FILTERS)
        yield from ("{{ %s is %s }}" % (operand, t) for t in TESTS)
        yield from ("{{ %s.%s }}" % (operand, m) for m in METHODS if operand[0] not in "-0123456789")
        yield from ("{{ (%s)%s }}{{ 'T' if (%s)%s }}" % (operand, i, operand, i) for i in SLICES
                   if ":" not in i or operand[0] in "setlwdum'")
        yield "{{ %s }}|{{ not %s }}|{{ 'T' if %s else 'F' }}|{{ -(%s) }}" % ((operand,) * 4)
        yield "{%% for x in %s %%}{{ loop.index }}{{ x }},{{ loop.last }};{%% else %%}none{%% endfor %%}" % operand
        for other in OPERANDS:
            yield from ("{{ (%s) %s (%s) }}" % (operand, b, other) for b in BINARY)
    for _ in range(count):
        yield "{{ %s }}" % expression(rng, 3)


def expression(rng, depth):
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(OPERANDS)
    kind = rng.randrange(7)
    inner = expression(rng, depth - 1)
    if kind == 0:
        return "%s %s %s" % (inner, rng.choice(BINARY), expression(rng, depth - 1))
    if kind == 1:
        return "%s|%s" % (inner, rng.choice(FILTERS))
    if kind == 2:
        # jinja2 finds slices of constants that have none, where those of variables are errors.
        return "(%s)%s" % (inner, rng.choice([each for each in SLICES if ":" not in each]))
    if kind == 3:
        return "(%s).%s" % (inner, rng.choice(METHODS))
    if kind == 4:
        return "(%s is %s)" % (inner, rng.choice(TESTS))
    if kind == 5:
        return "%s if %s else %s" % (inner, expression(rng, depth - 1), expression(rng, depth - 1))
    return "(not %s)" % inner


# Blocks and white space. One template a line.
BLOCKS = r"""
a{% if yes %} b {% endif %} c
  {% if yes %}\n  x\n  {% endif %}\n y
{%- if yes -%}\n  x  \n{%- else -%} y {%- endif -%}\n z
  {%+ if yes %}\nx{% endif +%}\n y
a {# comment #}\nb{#- c -#}  d\n  {# e #}\nf
{% raw %}{{ x }}{% if %}{% endraw %}\n{%- raw -%}  y  {%- endraw -%}  z
{% set x = 1 %}{% for i in l %}{% set x = i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(a=1, b='x') %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}
{% set ns = namespace(d) %}{{ ns.b }}{{ ns['b'] }}
{% for i in l if i > 1 %}{{ loop.index }}/{{ loop.length }}:{{ i }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}
{% for (k, v) in d|dictsort %}{{ k }}{% endfor %}{% for c in s %}{{ c }}.{% endfor %}
{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in l %}{{ loop.first }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.index0 }}{{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }}{{ loop.depth }} {% endfor %}
{% for i in l %}{% for j in w %}{{ loop.index }}{{ loop.depth }}{% endfor %}{{ loop.index }}{% endfor %}
{% macro f(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ f(1) }}|{{ f(1, c='y') }}|{{ f() }}|{{ f(b=3, a=0) }}
{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro f() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}{% set x = 2 %}{{ f() }}
{% macro f(a) %}{% set x = a %}{{ x }}{{ s }}{% endmacro %}{{ f('q')|trim }}{{ x }}{{ f is callable }}
{% macro f(a) %}{{ a }}{% endmacro %}{% for i in l %}{{ f(i) }}{{ f(loop) is string }}{% endfor %}
{% set x %}  a {{ n }}\n{% endset %}[{{ x }}]{% set y | trim | upper %} q {% endset %}[{{ y }}]
{% set a, b = l[0], 'q' %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}
{% if z %}a{% elif n == 7 and not no %}b{% elif missing %}c{% else %}d{% endif %}
{% if missing is defined and missing.x %}a{% endif %}{{ missing or 'no' }}{{ missing and 1 }}
{% generation %}x{{ n }}{% endgeneration %}y{% for i in l %}a{% generation %}{{ i }}ö{% endgeneration %}{% endfor %}
{% generation %}{% set x = 3 %}{{ x }}{% endgeneration %}{{ x }}
{{ raise_exception('no ' ~ n) }}
{% if no %}{{ raise_exception('never') }}{% endif %}ok
{{ 'a' 'b' }}{{ "q\"'\\\n\t\x41\u00e9" }}{{ 'it''s' }}
{{ 1_000 }}{{ 1.5e3 }}{{ 1e-7 }}{{ 100000000000000000.0 }}{{ 1e16 }}{{ 0.1 + 0.2 }}{{ 3.0 }}{{ 7 / 2 }}{{ 6 / 2 }}{{ -7 // 2 }}{{ -7 % 3 }}{{ 7.5 % -2 }}
{{ 2 ** 3 ** 2 }}{{ -2 ** 2 }}{{ 1 + 2 ~ 3 * 2 }}{{ 1 < 2 < 3 }}{{ 1 < 3 > 2 }}{{ not 1 == 2 }}{{ 'a' ~ 1 ~ none ~ missing }}
{{ {'a': 1, 'b': [1, 2.0, none, true, 'x"y']} }}{{ (1,) }}{{ () }}{{ [[]] }}{{ 'a\nb' | list }}{{ ["it's", '"'] }}
{{ dict(a=1, b=2) }}{{ dict({'x': 1}, y=2).y }}{{ d.get }}
{{ x if n > 3 }}{{ 'a' if no else 'b' if no else 'c' }}{{ ('a' if yes) ~ 'b' }}
{{ m | map(attribute='content') | list }}{{ m | selectattr('role', 'in', ['tool', 'x']) | map(attribute='role') | join }}
{% set g = l | map('string') %}{{ g | first }}{{ g | join }}{{ g | list }}{% if g %}T{% endif %}
{{ '<b>' | safe ~ '<' }}{{ '<b>' | safe }}{{ ('<' | safe) is string }}{{ '<'|safe|trim|upper }}
{{ s[::-1] }}{{ s[-3:] }}{{ s[1:4:2] }}{{ l[::-1] }}{{ l[1:] + [9] }}{{ 'ab' * 3 }}{{ [1] * 2 }}
{{ "a" }}\n\n{{ "b" }}\n
{% for x in [] %}{% else %}empty{% endfor %}{% for x in missing %}{% else %}empty{% endfor %}
{% set l = l + [4] %}{{ l }}{% if yes: %}a{% endif %}
  {%- for x in l %}\n    {{- x }}\n{%- endfor %}\n\n
{{ loop }}{{ loop is defined }}
{% for i in l %}{% set y = loop.index %}{% if loop.last %}{{ y }}{% endif %}{% endfor %}{{ y is defined }}
{% if yes %}{% set q = 1 %}{% endif %}{{ q }}{% if no %}{% set r = 1 %}{% endif %}{{ r is defined }}
{{ d.items }}
{{ d['items'] }}{{ m[0]['items'] is defined }}{{ m[0].get('role') }}
{{ [1, 2] == [1, 2] }}{{ (1, 2) == [1, 2] }}{{ {'a': 1} == {'a': 1.0} }}{{ 1 == true }}{{ 'a' < 'b' }}{{ [1, 2] < [1, 3] }}
{{ n.real }}{{ none.x is defined }}{{ missing.x }}
{%set x=1%}{{x}}{%-set x=2-%}{{-x-}}
{{ s.foo }}{{ l.foo is defined }}{{ d.foo.bar }}
{{ tojson }}{{ 'x' | tojson }}{{ 'ä\u2028\x7f"\\/<' | tojson }}{{ 'ä\x7f😀' | tojson(ensure_ascii=true) }}{{ 1e20 | tojson }}{{ [] | tojson(indent=2) }}
{% for t in [{'a': {}}] %}{{ t | tojson(indent=4) }}{% endfor %}{{ d | tojson(indent=2, separators=(',', ': ')) }}
{{ 'a-b (c) <d d_e' | title }}{{ "it's ok" | title }}{{ "it's ok".title() }}{{ 'hELLO wORLD' | capitalize }}
{{ '12' | int }}{{ ' 4 ' | int }}{{ '3.9' | int }}{{ 'x' | int }}{{ 'x' | int(5) }}{{ none | int }}{{ '1e3' | float }}{{ true | int }}
{{ strftime_now('%Y') | length }}{{ strftime_now is defined }}{{ namespace is defined }}
{% set x = namespace(v=[]) %}{% for i in l %}{% set x.v = x.v + [i] %}{% endfor %}{{ x.v }}{% set x.w = 1 %}{{ x.w }}
{% set n2 = n %}{% set n2.x = 1 %}
{% set a = 'q' %}{%- macro g(a) -%}{{ a }}{%- endmacro -%}{{ g('z') ~ a }}
{{ 5 is divisibleby 2 or 4 is even }}{{ 'a' in 'abc' and 'k' not in d }}{{ 'b' in d.keys() }}{{ 1 in d.values() }}
{% for a in [[1, 2], [3, 4]] %}{% for b in a %}{{ b }}{% if loop.last %}!{% endif %}{% endfor %}{% endfor %}
{% for x, y in [[1, 2], [3]] %}{{ x }}{% endfor %}
{{ m | length }}{{ m | last }}{{ m[-1].content is none }}{{ m[5] is defined }}{{ (m | first).role }}
{{ '' if missing else 'e' }}{{ [] or 'empty' }}{{ 0 or none or 'z' }}{{ 'a' and 'b' }}
{{ {}.x }}{{ {'x': {'y': 1}}['x'].y }}{{ {'a' ~ 1: 2} }}
{{ [3, 1] | sort }}{{ ['b', 'A'] | sort }}{{ ['b', 'A'] | sort(case_sensitive=true) }}{{ m | sort(attribute='role') | map(attribute='role') | list }}
a\r\nb\rc{{ '\r\n' }}
{# a #}{%- set x = 1 %}\n{# b -#}\n\n q{{ x }}
{{ "\\" }}{{ '\d' }}{{ '{{' }}{{ '%}' }}
{% if true %}\n\n{% endif %}\n{% if true %}a\n{% endif %}\t\n
""".replace("\\r", "\r")


def blocks():
    for line in BLOCKS.strip("\n").split("\n"):
        yield line.replace("\\n", "\n") if '"\\' not in line and "'\\" not in line else line


def render(program, tasks):
    """Answers of oracle_template."""
    lines = [json.dumps({key: value for key, value in task.items() if value is not None}) for task in tasks]
    done = subprocess.run([program], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.split("\n")[:-1]]


def expected(template, messages, variables):
    """Text and spans in bytes, or an error."""
    try:
        texts, spans = reference.render_jinja_template(
            [copy.deepcopy(messages or [])], chat_template=template, return_assistant_tokens_mask=True, **variables)
    except RecursionError:
        raise
    except Exception as error:
        return None, "%s: %s" % (type(error).__name__, error)
    size = lambda end: len(texts[0][:end].encode())  # noqa: E731
    return {"text": texts[0], "generated": [[size(a), size(b)] for a, b in spans[0]]}, None


def templates():
    for path in sorted(glob.glob(os.path.join(HERE, "templates", "*.jinja"))):
        yield os.path.basename(path)[:-6], open(path, encoding="utf-8", newline="").read()
    for package, folder in PACKAGES.items():
        spec = importlib.util.find_spec(package)
        if spec is None:
            print("not compared: the templates of %s, which is not installed" % package)
            continue
        for path in sorted(glob.glob(os.path.join(os.path.dirname(spec.origin), folder, "*.jinja"))):
            yield package + "/" + os.path.basename(path)[:-6], open(path, encoding="utf-8", newline="").read()


def record(rng, path):
    rows = []
    for name, template in templates():
        if "/" in name:
            continue
        found = 0
        while found < 5:
            messages, variables = conversation(rng)
            want, _ = expected(template, messages, variables)
            if want is None or len(messages) > 8:
                continue
            found += 1
            rows.append(json.dumps({"name": name, "messages": messages, "variables": variables, **want}))
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(rows) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--render", required=True)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--expressions", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--record", help="write outputs of the templates beside this script for the quick tests")
    parser.add_argument("--show", type=int, default=10)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    rng = random.Random(options.seed)
    if options.record:
        record(rng, options.record)
    talks = [conversation(rng) for _ in range(options.conversations)]
    tasks = [(name, {"template": template, "messages": messages, "variables": variables})
             for name, template in templates() if options.only in name for messages, variables in talks]
    names = {name for name, _ in tasks}
    if not options.only:
        tasks += [("construct", {"template": template, "variables": VARIABLES})
                  for template in list(blocks()) + list(snippets(rng, options.expressions))]
    rendered, refused_alone, faults = dict.fromkeys(names, 0), {}, []
    for (name, task), got in zip(tasks, render(options.render, [task for _, task in tasks])):
        template, messages, variables = task["template"], task.get("messages"), task["variables"]
        want, error = expected(template, messages, variables)
        if want is not None and " at 0x" in want["text"]:
            continue
        if want is not None:
            rendered[name] = rendered.get(name, 0) + 1
        if want is None and "error" in got or want == got:
            continue
        if name == "construct" and "not supported" in got.get("error", ""):
            refused_alone[got["error"]] = refused_alone.get(got["error"], 0) + 1
        else:
            faults.append((name, template, messages, variables, want or error, got))
    faults += [(name, "", None, None, "renders no conversation", "") for name in names if not rendered[name]]
    for name, template, messages, variables, want, got in faults[:options.show]:
        texts = [str(each.get("text", each) if isinstance(each, dict) else each) for each in (want, got)]
        at = max(len(os.path.commonprefix(texts)) - 40, 0)
        print("%s: %s\n  %s\n  transformers: %s\n  sluice:       %s" % (
            name, template if len(template) < 400 else "", json.dumps([messages, variables])[:400] if messages else "",
            repr(texts[0][at:at + 160]), repr(texts[1][at:at + 160])))
    print("%d templates, %d comparisons, %d rendered by transformers, %d refused by sluice alone, %d differences" % (
        len(names), len(tasks), sum(rendered.values()), sum(refused_alone.values()), len(faults)))
    for message, times in sorted(refused_alone.items(), key=lambda item: -item[1])[:8]:
        print("  refused %d times: %s" % (times, message))
    sys.exit(1 if faults or not tasks else 0)


if __name__ == "__main__":
    main()
