#!/usr/bin/env python3
"""Runs the commands of a page of docs/ in order and in one shell, like a reader.

usage: run_commands.py PAGE.md --source ROOT --build DIR --work DIR [--python INTERPRETER] [--needs MODULE ...] [--set NAME=VALUE ...]

Commands run in WORK as if it were the repository's root. WORK has build/, examples/ and an empty outputs/. Blocks marked
`sh` share one shell. Adjacent `sh machine=N` blocks run at the same time. `python` blocks run with INTERPRETER and see the
shell's variables; without an interpreter they are skipped with a message. Blocks marked `file=PATH` are written to that
path in turn. The first command that fails ends the run with exit code 1. With --needs the commands find INTERPRETER as
`python`. The exit code is 77 if it does not exist or lacks a MODULE.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRELUDE = "set -euo pipefail\n"


def blocks_of(page):
    for kind, rest, body in FENCE.findall(page.read_text()):
        if kind in ("sh", "python") or rest.strip().startswith("file="):
            yield kind, rest.strip(), body


def has_modules(python, modules):
    if not python or not os.access(python, os.X_OK):
        return False
    return subprocess.run([python, "-c", f"import {', '.join(modules)}"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


class Shell:
    """Runs each block in a new process and passes its variables on to the next."""

    def __init__(self, folder, environment):
        self.folder, self.variables, self.environment = folder, folder / ".variables", environment
        self.variables.write_text("")

    def start(self, body):
        # The shell's own variables are not passed on, because some of them are read-only.
        script = (f"{PRELUDE}. {self.variables}\n{body}\n"
                  f"{{ declare -p | grep -E '^declare (--|-x) [A-Z][A-Z0-9]*=' | grep -vE ' (BASH|PWD|OLDPWD|SHLVL|UID|PPID|EUID)' || true; }} "
                  f"> {self.variables}.$$ && mv {self.variables}.$$ {self.variables}\n")
        return subprocess.Popen(["bash", "-c", script], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def values(self):
        found = re.findall(r'^declare \S+ (\w+)="(.*)"$', self.variables.read_text(), re.MULTILINE)
        return dict(found)


def finish(process, body):
    output, _ = process.communicate()
    print(f"$ {body.strip()}\n{output}", flush=True)
    if process.returncode != 0:
        sys.exit(f"exit code {process.returncode} of:\n{body}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=pathlib.Path)
    for name in ("source", "build", "work"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--python", default="")
    parser.add_argument("--needs", action="append", default=[], metavar="MODULE")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args()
    given.python = given.python and os.path.abspath(given.python)
    if given.needs and not has_modules(given.python, given.needs):
        print(f"skipped: {given.page.stem}: no interpreter with {', '.join(given.needs)}")
        sys.exit(77)

    shutil.rmtree(given.work, ignore_errors=True)
    given.work.mkdir(parents=True)
    (given.work / "build").symlink_to(given.build.resolve())
    # Copies the examples, because relative paths in their configurations lead from their folder to
    # outputs/.
    for example in ("chats", "llava", "tagger"):
        shutil.copytree(given.source / "examples" / example, given.work / "examples" / example)
    environment = {**os.environ, **dict(pair.split("=", 1) for pair in given.set)}
    if given.needs:
        environment["PATH"] = f"{pathlib.Path(given.python).parent}:{environment['PATH']}"
        environment["HF_HUB_OFFLINE"] = "1"
    shell = Shell(given.work.resolve(), environment)

    together = []
    for kind, rest, body in [*blocks_of(given.page), ("sh", "", "true")]:
        if kind == "sh" and rest.startswith("machine="):
            together.append((shell.start(body), body))
            continue
        for process, command in together:
            finish(process, command)
        together = []
        if rest.startswith("file="):
            path = given.work / rest.removeprefix("file=")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body)
        elif kind == "sh":
            finish(shell.start(body), body)
        elif not given.python or not os.access(given.python, os.X_OK):
            print(f"skipped, no interpreter with transformers: {body.splitlines()[0]}", flush=True)
        else:
            values = "".join(f"{name} = {value!r}\n" for name, value in shell.values().items())
            finish(subprocess.Popen([given.python, "-c", values + body], cwd=given.work, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                    env={**environment, "HF_HUB_OFFLINE": "1"}), body)


if __name__ == "__main__":
    main()
