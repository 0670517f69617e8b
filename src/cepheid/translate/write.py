"""Translated rules in, a folder of ``.cq`` files out, one a rule, with its fields as comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from cepheid.translate.translated import Translated

_OTHER = re.compile(r"[^a-z0-9]+")
STEM_LENGTH_MAX = 80


def write_rules(rules: Iterable[Translated], folder: Path) -> int:
    """Write the rules that are carried over to a new or empty folder; return their number.

    Without such rules there is no folder.
    """
    carried = [rule for rule in rules if not rule.reasons]
    if carried:
        folder.mkdir(parents=True, exist_ok=folder.is_dir() and not any(folder.iterdir()))
    stems: dict[str, int] = {}
    for rule in carried:
        stem = _OTHER.sub("-", rule.name.lower()).strip("-")[:STEM_LENGTH_MAX] or "rule"
        count = stems[stem] = stems.get(stem, 0) + 1
        name = stem if count == 1 else f"{stem}--{count}"
        (folder / f"{name}.cq").write_text(rule_text(rule), encoding="utf-8")
    return len(carried)


def rule_text(rule: Translated) -> str:
    r"""Write a rule as a file of its own.

    Examples
    --------
    >>> print(rule_text(Translated("Odd start", "SELECT * FROM events", tags=("attack.t1059",))))
    -- @name: Odd start
    -- @tags: attack.t1059
    SELECT * FROM events
    <BLANKLINE>
    """
    fields = {
        "name": rule.name,
        "owner": rule.owner,
        "tags": ", ".join(one.replace(",", " ") for one in rule.tags),
        "severity": rule.severity,
    }
    lines = [*_comments(rule.about), *(f"-- Note: {_line(note)}" for note in rule.notes)]
    lines += [f"-- From {_line(rule.file)}."] if rule.file else []
    lines += [f"-- @{name}: {_line(value)}" for name, value in fields.items() if value]
    return "\n".join([*lines, rule.query, ""])


def _comments(about: str) -> Iterator[str]:
    """Write what a rule says of itself; a line that begins with @ would be a field."""
    for line in about.strip().splitlines():
        yield f"-- {_line(line).lstrip('@')}".rstrip()


def _line(text: str) -> str:
    return " ".join(text.split())
