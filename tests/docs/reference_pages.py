"""Write the pages of the reference that are made from the source: commands and functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer.main

from cepheid.expressions.functions import (
    ALIASES,
    FUNCTIONS,
    LANGUAGE_FUNCTIONS,
    Function,
)
from cepheid.interfaces.cli import app
from cepheid.language_service import meanings
from cepheid.language_service.meanings import Meaning

MADE = "<!-- Made from the source: pytest tests/docs/test_reference.py --update-golden -->"
SHARED = ("--time", "--type", "--time-unit", "--time-format")
"""Options of most commands, which one table explains for all of them."""
SHARED_DEFAULTS = {"--time": "ts", "--type": "type", "--time-unit": "us", "--time-format": None}


def commands_page() -> str:
    """Write all commands with their arguments and options."""
    root = typer.main.get_command(app.typer())
    parts = [
        "# Commands and options",
        MADE,
        "Every command with all its options. [The command line](command-line.md) tells how to use "
        "them.",
        "Options before the command:",
        _table(root.params),
        "Options of columns and times that most commands have:",
        _table(_shared(root)),
    ]
    for name, command in _commands(root, "cepheid"):
        parts += [f"## {name}", *_command(name, command)]
    return "\n\n".join(parts) + "\n"


def _commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


def _shared(root: Any) -> list[Any]:
    return [one for one in root.commands["run"].params if one.opts[0] in SHARED]


def _is_shared(parameter: Any) -> bool:
    option = parameter.opts[0]
    return option in SHARED_DEFAULTS and parameter.default == SHARED_DEFAULTS[option]


def _command(name: str, command: Any) -> Iterator[str]:
    yield _text(command.help)
    places = [one for one in command.params if not one.opts[0].startswith("-")]
    words = [_place(one) for one in places]
    has_options = len(places) < len(command.params)
    yield f"`{' '.join([name, *words, *(['[OPTIONS]'] if has_options else [])])}`"
    shared = [one for one in command.params if _is_shared(one)]
    shared = shared if len(shared) == len(SHARED) else []
    own = [one for one in command.params if one not in shared]
    if own:
        yield _table(sorted(own, key=lambda one: one.opts[0].startswith("-")))
    if shared:
        yield "*Columns and times* as above."


def _place(parameter: Any) -> str:
    word = parameter.name.upper() + ("..." if parameter.nargs == -1 else "")
    return word if parameter.required else f"[{word}]"


def _table(parameters: list[Any]) -> str:
    lines = ["| option | without it | |", "|---|---|---|"]
    for one in parameters:
        is_option = one.opts[0].startswith("-")
        names = [*one.opts, *one.secondary_opts] if is_option else [_place(one)]
        shown = ", ".join(f"`{name}`" for name in names)
        lines.append(f"| {shown} | {_default(one)} | {_text(one.help)} |")
    return "\n".join(lines)


def _default(parameter: Any) -> str:
    if parameter.required:
        return "*needed*"
    if parameter.default in (None, "", False):
        return ""
    return f"`{parameter.default}`"


def _text(text: str) -> str:
    plain = " ".join(text.split())
    return re.sub(r"([|*\[\]<>_])", r"\\\1", plain)


def functions_page() -> str:
    """Write all functions, aggregates and surveys of expressions."""
    own = LANGUAGE_FUNCTIONS
    arrays = {name: one for name, one in FUNCTIONS.items() if name not in own}
    parts = [
        "# Functions",
        MADE,
        "Functions mean what they mean in Spark SQL ([semantics](semantics.md), §4.6), in process, "
        "on Spark and live. [Functions of one's own](functions.md) stand beside them.",
        "## Functions of values",
        _functions(own),
        "Other names: " + ", ".join(f"`{a}` is `{b}`" for a, b in ALIASES.items()) + ".",
        "`CASE`, `CAST`, `TRY_CAST`, `IN`, `BETWEEN`, `LIKE` and `IS NULL` are "
        "[syntax](language.md#where) (§4.6, §4.12).",
        "## Aggregates of RETURN",
        "They go over the events of all matches. `VAR`, `VAR_POP`, `STDDEV` and `STDDEV_POP` are "
        "there too (§5.7).",
        _meanings(meanings.AGGREGATES),
        "## Aggregates of SELECT",
        _meanings(meanings.SELECT_AGGREGATES),
        "## Surveys of matches",
        _meanings(meanings.SURVEYS | {w: meanings.KEYWORDS[w] for w in ("TOP", "LONGEST")}),
        "## Other events of the match",
        _meanings(meanings.ANCHORS),
        "## Functions of arrays, in SQL",
        "The measures of [MATCH_RECOGNIZE](sql.md) can be arrays.",
        _functions(arrays),
    ]
    return "\n\n".join(parts) + "\n"


def _functions(functions: dict[str, Function]) -> str:
    lines = ["| function | result |", "|---|---|"]
    for one in functions.values():
        gives = "as its arguments" if one.gives is None else one.gives.name.lower()
        lines.append(f"| `{one.usage}` | {'' if one.arrays and one.gives is None else gives} |")
    return "\n".join(lines)


def _meanings(table: dict[str, Meaning]) -> str:
    rows = [f"| `{name}` | {one.text} | {one.section} |" for name, one in table.items()]
    return "\n".join(["| word | | rule |", "|---|---|---|", *rows])
