"""Collects golden files: a stream, queries over it, and what they answer, all as text.

A file starts with comment lines (``# case:``, ``# rule:`` and so on) and goes on with sections,
each a line that holds the section's name alone and then its text:

``stream``, ``schema``  what the queries after them run over; the schema has lines ``name type``
``query``               the text of a query
``sql``                 a SQL text with MATCH_RECOGNIZE over a table ``ticks``
``files``               files for a command: a line with the name, then the content, indented
``command``             a command line, in a folder with these files
``printed``             what it prints, on standard output and then on standard error, and its code
``expect``              its rows: the names of the columns, then one line a row
``types``               the types of their columns, one line ``name TYPE`` a column
``matches``             its matches, one a line: ``A@1 B@2.5`` is A at second 1, B at second 2.5
``error``, ``warning``  what Cepheid says about the query
``explain``             the plan

Lines that start with ``#`` are comments in every section but ``query``. Values are written as in a
stream; times of windows have the unit: ``10s``.
"""

from __future__ import annotations

import contextlib
import math
import re
import shlex
import tempfile
import textwrap
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pyarrow as pa
import pytest
from tests.engine.comparison import numbered, plain_rows, readable, same_rows
from tests.interfaces.program import run
from tests.row_pattern.ticks import run_on_ticks

import cepheid
from cepheid.errors import CepheidError, UnsupportedError, render_diagnostics
from cepheid.kernels.tiers import Tier, forced
from cepheid.language.tree import Duration, SweepQuery
from cepheid.runtimes.local import run_table
from cepheid.testing.harness import SECOND_US, stream
from cepheid.testing.oracle import column_names, evaluate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

INPUTS = ("stream", "schema", "query", "sql", "files", "command")
OUTPUTS = ("expect", "types", "matches", "error", "warning", "explain", "printed")
REWRITABLE = ("expect", "types", "matches", "explain")
"""What ``--update-golden`` rewrites; messages are reviewed one by one."""

TYPE_NAMES = {
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.decimal128(38, 0): "DECIMAL(38,0)",
    pa.string(): "STRING",
}

BOTH_TIERS = (Tier.INTERPRET, Tier.COMPILE)

PROTECTED_FOLDERS = {"papers", "errors"}
"""What it never rewrites: a paper's number is not ours to change."""

CELL = re.compile(r"(?:'(?:[^']|'')*'|\[[^\]]*\]|[^,'\[])+")


class Section(NamedTuple):
    """A named part of a golden file; ``after`` holds comments and blank lines that follow it."""

    name: str
    body: str
    after: str


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix != ".golden":
        return None
    return GoldenFile.from_parent(parent, path=file_path)


class GoldenFile(pytest.File):
    """A golden file; it collects one item for every output section."""

    head: str
    sections: list[Section]

    def collect(self) -> Iterator[pytest.Item]:
        self.head, self.sections = split_sections(self.path.read_text(encoding="utf-8"))
        inputs: dict[str, str] = {}
        for number, section in enumerate(self.sections):
            if section.name in INPUTS:
                inputs[section.name] = section.body
                continue
            if not inputs.keys() & {"query", "sql", "command"}:
                message = f"{self.path.name}: `{section.name}` stands before any query"
                raise ValueError(message)
            # What a query answers must not depend on how kernels run; the rest asks no kernel.
            tiers = BOTH_TIERS if section.name in ("expect", "matches") else BOTH_TIERS[:1]
            for tier in tiers:
                name = f"{number}-{section.name}" + f"-{tier.value}" * (len(tiers) > 1)
                yield GoldenCase.from_parent(
                    self, name=name, number=number, inputs=dict(inputs), tier=tier
                )

    def rewrite(self, number: int, body: str) -> None:
        """Put a new text into one section and save the file."""
        self.sections[number] = self.sections[number]._replace(body=body)
        text = self.head + "".join(f"{s.name}\n{s.body}{s.after}" for s in self.sections)
        self.path.write_text(text, encoding="utf-8")


class GoldenCase(pytest.Item):
    """One output section with the inputs that come before it."""

    def __init__(self, *, number: int, inputs: dict[str, str], tier: Tier, **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]  # pytest's own arguments.
        self.number = number
        self.inputs = inputs
        self.tier = tier

    def runtest(self) -> None:
        file = self.parent
        assert isinstance(file, GoldenFile)
        section = file.sections[self.number]
        with forced(self.tier):
            actual = answer(section.name, self.inputs)
        if same(section.name, section.body, actual):
            return
        updating = self.config.getoption("--update-golden", default=False)
        protected = PROTECTED_FOLDERS & set(self.path.parts)
        if updating and section.name in REWRITABLE and not protected:
            file.rewrite(self.number, actual)
            return
        names = ("command", "sql", "query")
        text = next(self.inputs[name] for name in names if name in self.inputs)
        message = f"{text}\n\nexpected\n{section.body}\n\nactual\n{actual}"
        raise AssertionError(message)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: object) -> str:
        if isinstance(excinfo.value, AssertionError):
            return str(excinfo.value)
        return str(excinfo.getrepr(style="short"))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.path.stem}: {self.name}"


def split_sections(text: str) -> tuple[str, list[Section]]:
    """Return what stands before the first section, and the sections."""
    pieces = re.split(rf"^({'|'.join(INPUTS + OUTPUTS)})\n", text, flags=re.MULTILINE)
    sections = []
    for name, content in zip(pieces[1::2], pieces[2::2], strict=True):
        lines = content.splitlines()
        while lines and (not lines[-1].strip() or lines[-1].startswith("#")):
            lines.pop()
        body = "\n".join(lines)
        sections.append(Section(name, body, content[len(body) :]))
    return pieces[0], sections


# ---------------------------------------------------------------------------------------
# What Cepheid answers, as text


def answer(section: str, inputs: dict[str, str]) -> str:
    """Return what a section ought to say."""
    if section == "printed":
        return printed(inputs["command"], inputs.get("files", ""))
    if "sql" in inputs:
        return sql_error(inputs["sql"])
    text = inputs["query"]
    schema = dict(line.split() for line in content_lines(inputs.get("schema", ""))) or None
    try:
        query = cepheid.query(text, schema=schema, type=type_column(inputs.get("stream", "")))
    except CepheidError as error:
        return str(error)
    match section:
        case "error":
            return "the query has no error"
        case "warning":
            return render_diagnostics(query.warnings, text)
        case "explain":
            return query.explain()
    tree = query.tree
    events = stream(" ".join(content_lines(inputs["stream"])))
    if section == "types":
        columns = query.run(numbered(events)).schema
        return "\n".join(f"{field.name} {TYPE_NAMES[field.type]}" for field in columns)
    rows = evaluate(tree, events)
    check_engine(query, events, rows)
    if section == "matches":
        return "\n".join(render_match(row["events"], events) for row in rows)
    names = column_names(tree)
    window = tree.query.window if isinstance(tree, SweepQuery) else tree.window
    in_seconds = window is not None and isinstance(window.within, Duration)
    lines = [[render_cell(name, row[name], events, in_seconds) for name in names] for row in rows]
    return "\n".join(", ".join(cells) for cells in [names, *lines])


def type_column(text: str) -> str | None:
    """Return None for a stream without types, which begins with `_`."""
    return None if text and all(word.startswith("_") for word in text.split()) else "type"


def sql_error(text: str) -> str:
    """Return what Cepheid says about a SQL text over the table ``ticks``."""
    try:
        run_on_ticks(text)
    except CepheidError as error:
        return str(error)
    return "the text has no error"


def printed(command: str, files: str) -> str:
    """Return what a command prints in a folder of files, and the code that it ends with."""
    program, *words = shlex.split(command)
    assert program == "cepheid", "no other command is run"
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for part in re.split(r"^(?=\S)", files, flags=re.MULTILINE)[1:]:
            name, _, content = part.partition("\n")
            Path(name).write_text(textwrap.dedent(content).strip() + "\n", encoding="utf-8")
        done = run(*words)
    lines = [line.rstrip() for line in (done.stdout + done.stderr).splitlines()]
    return "\n".join([*lines, f"exit {done.returncode}"])


def check_engine(
    query: cepheid.CompiledQuery, events: list[dict[str, object]], rows: list[dict[str, object]]
) -> None:
    """Run what the engine can run, in batches of one event and of all, and compare."""
    for size in (1, 1 << 20):
        try:
            table = numbered(events)
            plan = query.with_schema(table.schema).plan
            actual = in_microseconds(run_table(plan, table, batch_rows=size)).to_pylist()
        except UnsupportedError as error:
            if error.diagnostics[0].code != "E404":
                raise
            return
        if plan.lists_matches:
            # Matches come in an order of their own; with LIMIT, any of them may be listed.
            every = evaluate(msgspec.structs.replace(query.tree, limit=None), events)
            assert not readable(actual) - readable(every), f"the engine gives {actual}"
            assert len(actual) == len(rows), f"the engine gives {actual}"
        else:
            assert same_rows(plain_rows(actual), rows), f"the engine gives {actual}"


def in_microseconds(table: pa.Table) -> pa.Table:
    """Return durations as the oracle writes them: whole microseconds."""
    fields = [
        field.with_type(pa.int64()) if pa.types.is_duration(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def content_lines(text: str) -> list[str]:
    """Return the lines that are neither blank nor comments."""
    return [line.strip() for line in text.splitlines() if line.strip() and line[0] != "#"]


def render_match(match: object, events: Sequence[Mapping[str, object]]) -> str:
    """Return the bindings of a match as ``A@1 B@2``."""
    assert isinstance(match, tuple), "only a query that lists its matches has any"
    shown = [(f"{variable}@{seconds(events[i]['ts'])}", *n) for variable, i, *n in match]
    # The matches of a set are set apart.
    parts = groupby(shown, lambda one: one[1:])
    return " | ".join(" ".join(text for text, *_ in part) for _, part in parts)


def render_cell(
    name: str,
    value: object,
    events: Sequence[Mapping[str, object]],
    in_seconds: bool,  # noqa: FBT001
) -> str:
    """Return a value in the notation of streams."""
    match value:
        case int() if name in ("window_start", "window_end") and in_seconds:
            return f"{seconds(value)}s"
        case tuple():
            return f"[{render_match(value, events)}]"
        case list():
            return f"[{' '.join(render_cell('', item, events, in_seconds) for item in value)}]"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[value]
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else str(value).replace("inf", "Infinity")
    return str(value)


def seconds(time_us: object) -> str:
    assert isinstance(time_us, int), "times are whole microseconds"
    exact = Decimal(time_us) / SECOND_US
    return f"{exact:f}"


# ---------------------------------------------------------------------------------------
# Whether it is what the file says


def same(section: str, expected: str, actual: str) -> bool:
    """Return whether two texts of a section mean the same."""
    if section == "matches":
        return sorted(content_lines(expected)) == sorted(content_lines(actual))
    if section != "expect":
        return expected == actual
    left = [CELL.findall(line) for line in content_lines(expected)]
    right = [CELL.findall(line) for line in content_lines(actual)]
    return [len(row) for row in left] == [len(row) for row in right] and all(
        same_cell(mine.strip(), theirs.strip())
        for row, other in zip(left, right, strict=True)
        for mine, theirs in zip(row, other, strict=True)
    )


def same_cell(expected: str, actual: str) -> bool:
    """Return whether two values are equal, doubles within a relative error of 1e-9."""
    if expected == actual or (expected.lstrip("-").isdigit() and actual.lstrip("-").isdigit()):
        return expected == actual
    try:
        return math.isclose(float(expected), float(actual), rel_tol=1e-9)
    except ValueError:
        return False
