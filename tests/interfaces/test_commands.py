"""Plain words are read as Typer reads them; all others are left to Typer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from typer.testing import CliRunner

from cepheid.interfaces.commands import Argument, Commands, Option

seen: list[dict[str, Any]] = []
app, inner = Commands(help="All."), Commands(help="Inner.")
app.add_group(inner, name="inner")


@app.command()
def one(
    inputs: Annotated[list[str], Option("--input", help="Files.")],
    file: Annotated[str | None, Argument(help="A file.")] = None,
    text: Annotated[str | None, Option("--query", "-q", help="A text.")] = None,
    output: Annotated[Path | None, Option(help="A path.")] = None,
    time_unit: Annotated[str, Option(help="A unit.")] = "us",
    once: Annotated[bool, Option("--once", help="A flag.")] = False,
    explain: Annotated[bool, Option(help="A flag with a negation.")] = False,
    count: Annotated[int | None, Option(help="A number.", min=1)] = None,
) -> None:
    """Keep what was given."""
    seen.append(locals().copy())


@inner.command(name="two")
def second(
    store: Annotated[Path, Argument(help="A folder.")],
    names: Annotated[list[str], Argument(help="Names.")],
) -> None:
    """Keep what was given."""
    seen.append(locals().copy())


PLAIN = [
    "one --input a",
    "one --input a --input=b c.cq",
    "one c.cq --input - --output=out.csv --time-unit ms --once",
    "one -q - --input a=b",
    "one --input -x -q first -q last",
    "one - --input a --output=",
    "inner two store a b,c",
]
OTHERS = [
    "",
    "--help",
    "nothing",
    "one",
    "one --help",
    "one --input",
    "one --inp a",
    "one --input a b c",
    "one --input a --explain",
    "one --input a --no-explain",
    "one --input a --count 3",
    "one --input a --count 0",
    "one --input a --once=true",
    "one --input a -qtext",
    "one --input a -q=text",
    "one --input a -- -b",
    "one --input --once",
    "inner",
    "inner two store",
    "inner two --store store a",
]


def call_by_typer(words: list[str]) -> dict[str, Any] | None:
    seen.clear()
    CliRunner().invoke(app.typer(), words)
    return seen[0] if seen else None


@pytest.mark.parametrize("line", PLAIN)
def test_plain_words_mean_what_typer_says(line: str) -> None:
    expected = call_by_typer(line.split())
    seen.clear()
    call = app.find(line.split())
    assert call is not None
    call()
    assert seen == [expected]


@pytest.mark.parametrize("line", OTHERS)
def test_other_words_are_left_to_typer(line: str) -> None:
    assert app.find(line.split()) is None
