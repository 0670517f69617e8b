"""What users write stays: the public names and their parameters, beside a snapshot.

A change of ``public_api.txt`` is a promise or the end of one: docs/upgrade.md tells how names end.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import cepheid

SNAPSHOT = Path(__file__).with_name("public_api.txt")


def signature(thing: Any) -> str:
    """Return the names of parameters, with their kinds and whether they may be left out."""
    parts, keywords = [], False
    for parameter in inspect.signature(thing).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            parts.append("*")
        star = "*" * (parameter.kind is parameter.VAR_POSITIONAL)
        star += "**" * (parameter.kind is parameter.VAR_KEYWORD)
        keywords |= star == "*"
        optional = "" if parameter.default is parameter.empty else "=…"
        parts.append(f"{star}{parameter.name}{optional}")
    return f"({', '.join(parts)})"


def members(name: str, thing: Any) -> list[str]:
    """Return the lines of a class: its public methods and properties, inherited ones too."""
    lines = []
    ours = [c for c in reversed(inspect.getmro(thing)) if c.__module__.startswith("cepheid")]
    every = {member: value for one in ours for member, value in vars(one).items()}
    for member, value in sorted(every.items()):
        if member.startswith("_"):
            continue
        raw = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        shown = signature(raw) if inspect.isfunction(raw) else ""
        lines.append(f"{name}.{member}{shown}")
    return lines


def public_api() -> str:
    """Write every public name of the package, a line each."""
    lines = []
    for name in cepheid.__all__:
        thing = getattr(cepheid, name)
        if inspect.isclass(thing):
            lines += [name, *members(name, thing)]
        elif callable(thing):
            lines.append(f"{name}{signature(thing)}")
        else:
            lines.append(name)
    return "\n".join(lines) + "\n"


def test_public_names_and_their_parameters_stay(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        SNAPSHOT.write_text(public_api(), "utf-8")
    assert public_api() == SNAPSHOT.read_text("utf-8")
