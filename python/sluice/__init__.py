"""The planner of sluice from Python: schedules, proofs, predictions, plans, pictures.

Every call runs this package's program `sluice` with `--json`; torch is not imported. Times have the unit of the costs.
Sizes are in bytes. Errors are `sluice.Error`. The documentation pages schedules, verify, simulate, partition and
pictures explain the values.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import html
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Union

__all__ = ["Error", "Schedule", "Simulation", "Search", "cmake_prefix", "costs_text", "picture", "plan", "program",
           "read", "schedule", "schedules", "search", "simulate", "split", "verify"]

Costs = Union[str, "os.PathLike[str]", dict[str, Any]]
StageMap = Union[str, Iterable[int]]

_HERE = os.path.dirname(os.path.abspath(__file__))


def program() -> str:
    """Returns the path of the program."""
    return os.path.join(_HERE, "bin", "sluice")


def cmake_prefix() -> str:
    """Returns the folder to pass as CMAKE_PREFIX_PATH to find_package(sluice)."""
    return _HERE


class Error(ValueError):
    """An error of the program: `fact`, `where` it occurred, the `remedy`, and `code`, the exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        parts = text.split("; ")
        self.code = code
        self.fact = parts[0]
        self.where = "; ".join(parts[1:-1])
        self.remedy = parts[-1] if len(parts) > 1 else ""


def _run(*arguments: object, may_be_refused: bool = False) -> str:
    """Runs the program and returns its answer. Raises Error if it fails. With may_be_refused, a failed proof
    is an answer."""
    path = program()
    try:
        ran = subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, encoding="utf-8",
                             errors="replace")
    except OSError as failed:
        if failed.errno == errno.E2BIG:
            raise Error(f"the arguments are too long for a program; sluice {arguments[0]}; give shorter values", 2) from None
        raise Error(f"cannot run the program: {failed.strerror}; {path}; install the package sluice-train again", 3) from None
    except ValueError as failed:  # a null character, or half of a surrogate pair
        raise Error(f"a value cannot be given to a program: {failed}; sluice {arguments[0]}; leave that character out", 2) from None
    lines = [line for line in ran.stderr.splitlines() if line.startswith("sluice: error: ")]
    if ran.returncode != 0 and (lines or ran.returncode != 3 or not may_be_refused):
        text = lines[-1][len("sluice: error: "):] if lines else ran.stderr.strip() or "sluice ended without a word"
        raise Error(text, ran.returncode)
    return ran.stdout


def _answer(*arguments: object, may_be_refused: bool = False) -> Any:
    """Returns the values that the program prints with --json."""
    text = _run(*arguments, "--json", may_be_refused=may_be_refused)
    try:
        return json.loads(text)
    except ValueError:
        raise Error(f"the output is not JSON; sluice {' '.join(map(str, arguments))}; leave out options that print a "
                    f"text, such as --help", 2) from None


def _json_text(value: object, name: str) -> str:
    try:
        return json.dumps(value, default=os.fspath)
    except (TypeError, ValueError, RecursionError) as failed:
        raise Error(f"a value cannot be written as JSON: {failed}; {name}; give numbers, texts, paths, lists and dicts",
                    2) from None


def _text_of(path: str) -> str:
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


class _Files:
    """Temporary files for one call."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def write(self, name: str, text: str) -> str:
        try:
            data = text.encode()
        except (AttributeError, UnicodeError):
            raise Error(f"{text!r:.60} is not a text; {name}; give text that UTF-8 can hold", 2) from None
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def read(self, name: str) -> str:
        return _text_of(self.path(name))


@contextlib.contextmanager
def _files() -> Iterator[_Files]:
    try:
        with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
            yield _Files(folder)
    except OSError as failed:
        raise Error(f"cannot use a temporary file: {failed.strerror}; {failed.filename or 'TMPDIR'}; check TMPDIR and the "
                    f"space there", 3) from None


def costs_text(costs: Costs) -> str:
    """Converts costs to the program's form: a text ("F=1,B=2"), the path of a JSON file, or its content as a
    dict."""
    return _json_text(costs, "costs") if isinstance(costs, dict) else str(costs)


def _costs_arguments(files: _Files, costs: Costs | None) -> list[str]:
    if costs is None:
        return []
    text = costs_text(costs)
    return ["--costs", files.write("costs.json", text) if isinstance(costs, dict) else text]


def _map_text(stage_to_rank: StageMap) -> str:
    if isinstance(stage_to_rank, str):
        return stage_to_rank
    try:
        return ",".join(map(str, stage_to_rank))
    except TypeError:
        raise Error(f"{stage_to_rank!r} is not a stage-to-rank map; stage_to_rank; give \"loop\", \"v\", or one rank per "
                    f"stage, as [0, 1, 1, 0]", 2) from None


def _frame(page: str) -> str:
    """Returns a page, which zooms by a script of its own, as an element of a notebook."""
    return f'<iframe srcdoc="{html.escape(page)}" style="width:100%;height:480px;border:0"></iframe>'


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A schedule: each rank's row of actions ("0F1", "3B0"), and the rank of every stage."""

    csv: str
    rows: list[list[str]]
    stage_to_rank: list[int] | str
    name: str = ""

    def _repr_svg_(self) -> str:
        return picture(self)

    def _repr_html_(self) -> str:
        return _frame(picture(self, format="html"))


def _schedule_arguments(files: _Files, schedule: Schedule) -> list[str]:
    if not isinstance(schedule, Schedule):
        raise Error(f"{schedule!r:.60} is not a Schedule; schedule; make one with sluice.schedule, or read one with "
                    f"sluice.read", 2)
    return ["--csv", files.write("schedule.csv", schedule.csv), "--stage-to-rank", _map_text(schedule.stage_to_rank)]


@dataclasses.dataclass(frozen=True)
class Simulation:
    """A predicted step. `rows`, `timeline` (by rank: action, start, end) and `live` are as in --json."""

    makespan: float
    bubble: float
    rows: list[Any]
    timeline: list[Any]
    live: list[Any]
    values: dict[str, Any]  # the program's whole answer
    svg: str = ""
    draw_page: Callable[[], str] | None = dataclasses.field(default=None, repr=False, compare=False)

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str | None:
        return _frame(self.draw_page()) if self.draw_page else None


@dataclasses.dataclass(frozen=True)
class Search:
    """The order that a search found. Also lists every named schedule with its time or why it does not run."""

    schedule: Schedule
    makespan: float
    named: list[Any]
    values: dict[str, Any]

    @property
    def csv(self) -> str:
        return self.schedule.csv

    def _repr_svg_(self) -> str:
        return picture(self.schedule)

    def _repr_html_(self) -> str:
        return self.schedule._repr_html_()


def _stages(action: str) -> list[int]:
    """Returns the stages of an action; a pair has two."""
    found = (re.match(r"\(*([0-9]{1,9})", part) for part in action.split(";"))
    return [int(stage[1]) for stage in found if stage]


def _map_of(rows: list[list[str]]) -> list[int]:
    ranks: dict[int, int] = {}
    for rank, row in enumerate(rows):
        for action in row:
            for stage in _stages(action):
                ranks[stage] = rank
    return [ranks[stage] for stage in sorted(ranks)]


def _rows_of(csv: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(",") if cell.strip()] for line in csv.splitlines()]


def schedules() -> list[str]:
    """Returns the names of the built-in schedules."""
    return ["GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"]


def schedule(name: str, ranks: int, microbatches: int, stages_per_rank: int | None = None) -> Schedule:
    """Makes a schedule by name. Case does not matter."""
    more: list[object] = [] if stages_per_rank is None else ["--stages-per-rank", stages_per_rank]
    with _files() as files:
        _run("schedule", "--name", name, "--pp", ranks, "--microbatches", microbatches, *more, "--out",
             files.path("out.csv"))
        csv = files.read("out.csv")
    rows = _rows_of(csv)
    return Schedule(csv, rows, _map_of(rows), name)


def read(csv: str | os.PathLike[str], stage_to_rank: StageMap | None = None) -> Schedule:
    """Reads a schedule in torch's text form: a path, or the text itself. The stage map follows from the rows
    unless given."""
    try:
        csv = os.fsdecode(csv)
        if "\n" not in csv and "," not in csv or os.path.exists(csv):
            csv = _text_of(csv)
    except OSError as failed:
        raise Error(f"cannot open file: {failed.strerror}; {csv}; name a CSV file, or give its text", 3) from None
    except (TypeError, ValueError) as failed:
        raise Error(f"cannot read a schedule: {failed}; {csv!r:.60}; name a CSV file, or give its text", 3) from None
    rows = _rows_of(csv)
    if stage_to_rank is None:
        return Schedule(csv, rows, _map_of(rows))
    if isinstance(stage_to_rank, str):
        return Schedule(csv, rows, stage_to_rank)
    _map_text(stage_to_rank)
    return Schedule(csv, rows, list(stage_to_rank))


def verify(schedule: Schedule, transport: str | None = None) -> list[dict[str, Any]]:
    """Returns the faults of the schedule, a list of {"rank", "index", "action", "reason"}; [] if it is
    correct.

    transport: what carries the messages, "sluice", "torch" or "rendezvous"; by default "torch" for a schedule with
    transfers, otherwise "sluice"."""
    wanted = [] if transport is None else ["--for", transport]
    with _files() as files:
        found: list[dict[str, Any]] = _answer("schedule", *_schedule_arguments(files, schedule), "--check", *wanted,
                                              may_be_refused=True)["violations"]
    return found


def simulate(schedule: Schedule, costs: Costs | None = None) -> Simulation:
    """Predicts the step of this order under the costs. By default F, I and W take 1 and B takes 2."""
    with _files() as files:
        values = _answer("schedule", *_schedule_arguments(files, schedule), "--lower", "--simulate", "--timeline",
                         "--draw", files.path("step.svg"), *_costs_arguments(files, costs))
        svg = _titled(files.read("step.svg"), files, schedule)
    return Simulation(values["makespan"], values["bubble_fraction"], values["rows"], values["timeline"],
                      values["live"], values, svg, functools.partial(picture, schedule, costs, "html"))


def search(costs: Costs, ranks: int, microbatches: int, stages_per_rank: int | None = None,
           stage_to_rank: StageMap | None = None, max_memory: int | str | None = None) -> Search:
    """Searches for the best order under the costs, and compares it with the named ones. max_memory: bytes, or
    "80GB"."""
    more: list[object] = []
    if stages_per_rank is not None:
        more += ["--stages-per-rank", stages_per_rank]
    if stage_to_rank is not None:
        more += ["--stage-to-rank", _map_text(stage_to_rank)]
    if max_memory is not None:
        more += ["--max-memory", max_memory]
    with _files() as files:
        values = _answer("schedule", "--search", "--pp", ranks, "--microbatches", microbatches, "--out",
                         files.path("found.csv"), *_costs_arguments(files, costs), *more)
        csv = files.read("found.csv")
    found = values["found"]
    order = Schedule(csv, _rows_of(csv), found["stage_to_rank"], found["name"])
    return Search(order, found["makespan"], values["named"], values)


def plan(config: str | os.PathLike[str], **overrides: object) -> dict[str, Any]:
    """Returns the answer of `sluice plan --json` for a configuration. training__steps=10 sets the key
    training.steps."""
    keys: list[str] = []
    for name, value in overrides.items():
        keys += ["--" + name.replace("__", "."), value if isinstance(value, str) else _json_text(value, name)]
    path = str(config)
    values: dict[str, Any] = _answer("plan", os.path.join(os.curdir, path) if path.startswith("-") else path, *keys)
    return values


def split(**options: object) -> dict[str, Any]:
    """Returns the layers of each stage. Takes the options of `sluice split`: layers=32, stages=8,
    convention="torchtitan".

    Options that take names accept lists: split_points=["layers.4"], modules=[["layers.0"], ..]."""
    arguments: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(option)
        elif value is not None and value is not False:
            text = str(value)
            if isinstance(value, (list, tuple)):
                names = all(isinstance(each, str) for each in value)
                text = ",".join(value) if names else _json_text(value, name)
            arguments += [option, text]
    values: dict[str, Any] = _answer("split", *arguments)
    return values


def _titled(drawn: str, files: _Files, schedule: Schedule) -> str:
    """Replaces the temporary file's name, which is the title of a picture, by the schedule's."""
    return drawn.replace(files.path("schedule.csv"), schedule.name or "schedule")


def picture(schedule: Schedule, costs: Costs | None = None, format: str = "svg", critical_path: bool = False) -> str:
    """Draws the predicted step as SVG, as a page ("html"), or as a trace for Perfetto ("json"). A schedule
    with faults is drawn with them."""
    if format not in ("svg", "html", "json"):
        raise Error(f"{format!r} is not a kind of picture; format; one of: svg, html, json", 2)
    more = ["--critical-path"] if critical_path else []
    if not verify(schedule):
        more.append("--lower")
    with _files() as files:
        out = files.path("picture." + format)
        _run("schedule", *_schedule_arguments(files, schedule), "--draw", out,
             *_costs_arguments(files, costs), *more, may_be_refused=True)
        return _titled(_text_of(out), files, schedule)
