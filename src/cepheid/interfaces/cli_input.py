"""Read the inputs of commands: query files, rules and columns."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from cepheid.api import CompiledQuery, query
from cepheid.errors import CepheidError, DataError, Diagnostic, visible
from cepheid.interfaces.rule_tables import rule_table
from cepheid.interfaces.rules import Place
from cepheid.language.lexer import has_row_pattern

ENGINES = ("local", "spark")
FORMATS = ("table", "csv", "json", "parquet")
ENDINGS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}


_QUERY = re.compile(r"\s*(?:return|pattern|select|define|from|create)\s+\S", re.IGNORECASE)
"""A query where the name of a file is expected."""


class WrongUseError(ValueError):
    """The command got an argument that it cannot use; ends with EXIT_USAGE."""


def check_engine(engine: str, known: tuple[str, ...] = ENGINES) -> None:
    """Refuse an unknown engine."""
    if engine not in known:
        message = f"--engine is {', '.join(known[:-1])} or {known[-1]}, not {engine}"
        raise WrongUseError(message)


def name_of(file: str) -> str:
    """Format the name of a file for messages: one printable line."""
    return "<stdin>" if file == "-" else visible(os.fsencode(file).decode("utf-8", "replace"))


def read_text(file: str) -> tuple[str, str]:
    """Read a query text and choose its name in diagnostics."""
    name = name_of(file)
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        message = f"could not read {name}: {error.strerror or error}"
        if _QUERY.match(file):
            message = f"a query that is no file needs -q: -q {shlex.quote(file)}"
        raise WrongUseError(message) from None
    try:
        return data.decode("utf-8-sig"), name
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"`{name}` is not UTF-8 text: byte 0x{data[error.start]:02x} in line {line}"
        helps = ("save the file with the encoding UTF-8",)
        raise DataError([Diagnostic("E502", message, helps=helps)]) from None


def given_changes(changes: str | None, columns: list[str] | None) -> dict[str, Any] | None:
    """Return the columns of a changelog, if the input is one."""
    if changes is None:
        if columns:
            message = "--id has no effect here: it tells the events of a changelog apart"
            raise WrongUseError(message)
        return None
    return {"op": changes, "id": tuple(columns or ())}


def compile_text(
    text: str,
    name: str,
    time: str,
    type_: str,
    columns: object,
    unit: str = "us",
    form: str | None = None,
) -> CompiledQuery:
    """Compile the query of a text; diagnostics show its name."""
    if is_sql(text) and not has_row_pattern(text):
        message = f"{name} has MATCH_RECOGNIZE, which `cepheid run` runs and `cepheid check` reads"
        raise WrongUseError(message)
    try:
        return query(text, time=time, type=type_, time_unit=unit, time_format=form, schema=columns)
    except CepheidError as error:
        error.file = name
        raise


def import_functions(module: str) -> None:
    """Import the module that a user named, which calls ``cepheid.function``.

    It runs the code of this module, and of no other: the name is one of Python's.
    """
    if not all(part.isidentifier() for part in module.split(".")):
        message = f"--functions takes the name of a Python module, not {module!r}"
        raise WrongUseError(message)
    try:
        importlib.import_module(module)
    except CepheidError:
        raise
    except Exception as error:  # it is the user's, and may raise anything
        why = f"{type(error).__name__}: {error}"
        message = f"--functions {module}: {why}; PYTHONPATH has the folders of modules"
        raise WrongUseError(message) from error
    IMPORTED.append(module)


IMPORTED: list[str] = []
"""The modules of functions that this command has imported; its workers import them, too."""

ROW_PATTERN = re.compile(r"\bmatch_recognize\b|\bover\b.*\bpattern\s*\(", re.I | re.S)
"""A clause, or a call over a window with PATTERN."""


def is_sql(text: str) -> bool:
    """Check whether a text is SQL with row patterns, and no query of the trend language."""
    start = re.match(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(select|with)\b", text, re.I | re.S)
    return start is not None and ROW_PATTERN.search(text) is not None


def given_text(file: str | None, text: str | None) -> tuple[str, str]:
    """Read the query of a command, from a file or an option, and its name for diagnostics."""
    if text is None:
        return read_text(named_file(file))
    if file is not None:
        message = "-q has the query, so there is no query file: give one of them"
        raise WrongUseError(message)
    if re.fullmatch(r"\S+\.(?:cq|sql)", text):
        message = f"-q takes the text of a query: name the file without it, as {name_of(text)}"
        raise WrongUseError(message)
    return text, "query"


def named_file(file: str | None) -> str:
    """Return the query file; refuse a command without one."""
    if file is None:
        message = (
            "name a query file (- is standard input), give the query with -q, or a folder of them "
            "with --rules"
        )
        raise WrongUseError(message)
    return file


def find_rules(rules: str, file: str | None = None) -> Place:
    """Find a table or files of rules; refuse a query file beside them, and those that are not."""
    if file is not None:
        message = "--rules replaces the query file: give only one of them"
        raise WrongUseError(message)
    table = rule_table(rules)
    if table is not None:
        return table
    if not Path(rules).exists():
        message = f"could not read {name_of(rules)}: no such file or folder"
        raise WrongUseError(message)
    return Path(rules)


def read_columns(path: Path | None) -> object:
    """Read the columns of a file of events."""
    if path is None:
        return None
    # Arrow takes longer to load than everything else together, and few calls need it.
    from cepheid.interfaces.schema_files import read_file_schema

    if not path.exists():
        message = f"could not read {name_of(str(path))}: no such file"
        raise WrongUseError(message)
    return read_file_schema(path)


def result_kind(format_: str, output: Path | None) -> str:
    """Choose the format of a result: the requested one, else by the file's ending."""
    if output is not None and not format_ and output.suffix.lower() not in ENDINGS:
        message = (
            f"--output must end in {', '.join(ENDINGS)}, but {name_of(output.name)} does not: "
        )
        raise WrongUseError(message + "add --format csv, json or parquet")
    kind = format_ or ("table" if output is None else ENDINGS[output.suffix.lower()])
    if kind not in FORMATS or (kind == "table" and output is not None):
        message = f"--format is one of {', '.join(FORMATS)}, and a file is csv, json or parquet"
        raise WrongUseError(message)
    if kind == "parquet" and output is None and sys.stdout.isatty():
        message = "Parquet is not text: add --output, or pipe it to another program"
        raise WrongUseError(message)
    return kind


def refuse_options(why: str, **given: object) -> None:
    """Refuse options that would have no effect."""
    for name, value in given.items():
        if value not in (None, "", False):
            message = f"--{name} has no effect here: {why}"
            raise WrongUseError(message)
