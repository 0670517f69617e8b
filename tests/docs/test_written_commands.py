"""What pages show and no test runs names commands, options and functions that there are."""

from __future__ import annotations

import pkgutil
import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer
from tests.docs.reference_pages import _commands
from tests.docs.test_docs import BLOCK, PAGES, ROOT

from cepheid.interfaces.cli import app

LINE = re.compile(r"^(cepheid [a-z-](?:'[^']*'|[^'\n])*)$", re.MULTILINE)
"""To the end of the line, or of the line in which a quotation of several lines ends."""

INLINE = re.compile(r"`(cepheid (?:--?[a-z]|[a-z])[^`\n]*)`")
END = ("|", "&&", ";", "#", ">")


@cache
def commands() -> dict[str, Any]:
    return dict(_commands(typer.main.get_command(app.typer()), "cepheid"))


def written(text: str) -> Iterator[str]:
    """Yield the commands of a page, from blocks of text and from its sentences."""
    for block in BLOCK.finditer(text):
        if block[1] == "text":
            yield from LINE.findall(block[3].replace("\\\n", " "))
    yield from INLINE.findall(BLOCK.sub("", text))


def mistake(line: str) -> str:
    """Return what is wrong with a command; empty if nothing is."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        return str(error)
    words = words[: next((n for n, word in enumerate(words) if word in END), len(words))]
    names = [name for name in commands() if words[: name.count(" ") + 1] == name.split()]
    if not names:
        shared = ("--functions", "--version", "--help", "--install-completion")
        groups = {name.rpartition(" ")[0] for name in commands()}
        known = " ".join(words[:2]) in groups or words[1].startswith(shared)
        return "" if known else "there is no such command"
    found = commands()[names[0]]
    options = {name for one in found.params for name in (*one.opts, *one.secondary_opts)}
    given = [word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]
    unknown = [word for word in given if word not in options and word != "--help"]
    return f"it has no {', '.join(unknown)}" if unknown else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_written_commands_have_the_options_that_they_show(page: Any) -> None:
    found = {line: mistake(line) for line in written(page.read_text("utf-8"))}
    assert {line: wrong for line, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_written_calls_are_of_functions_that_there_are(page: Any) -> None:
    text = page.read_text("utf-8")
    names = set(re.findall(r"\b(cepheid(?:\.[a-zA-Z_]+)+)\(", text))
    names |= {f"cepheid.CompiledQuery.{name}" for name in re.findall(r"`q\.([a-z_]+)\(", text)}
    for name in sorted(names):
        assert pkgutil.resolve_name(name) is not None
