"""Translated rules in, a report out: as text, as JSON and as Markdown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence

from cepheid.translate.translated import Outcome, Translated


def _counts(rules: Sequence[Translated]) -> dict[Outcome, int]:
    found = Counter(rule.outcome for rule in rules)
    return {outcome: found[outcome] for outcome in Outcome}


def _told(rule: Translated) -> tuple[str, ...]:
    return rule.reasons or rule.notes


def summary(rules: Sequence[Translated]) -> str:
    """Say in one line what became of the rules.

    Examples
    --------
    >>> summary([Translated("a", "SELECT * FROM e"), Translated("b", reasons=("no counterpart",))])
    '2 rules: 1 exact, 0 with a note, 1 not carried over'
    """
    parts = ", ".join(f"{count:,} {outcome.value}" for outcome, count in _counts(rules).items())
    return f"{len(rules):,} rule{'' if len(rules) == 1 else 's'}: {parts}"


def as_text(rules: Sequence[Translated]) -> str:
    """Write a line for every rule, and its notes or reasons below it."""
    lines = []
    for rule in rules:
        lines.append(f"{rule.outcome.value}: {rule.name}")
        lines += [f"    {line}" for line in _told(rule)]
    return "\n".join([*lines, summary(rules)])


def as_json(rules: Sequence[Translated]) -> str:
    """Write the rules with their queries, and how many have each outcome."""
    counts = {outcome.value: count for outcome, count in _counts(rules).items()}
    listed = [
        {
            "name": rule.name,
            "outcome": rule.outcome.value,
            "query": rule.query or None,
            "notes": list(rule.notes),
            "reasons": list(rule.reasons),
            "owner": rule.owner or None,
            "tags": list(rule.tags),
            "severity": rule.severity or None,
            "file": rule.file or None,
        }
        for rule in rules
    ]
    return json.dumps({"counts": counts, "rules": listed}, indent=2, ensure_ascii=False)


def as_markdown(rules: Sequence[Translated]) -> str:
    """Write tables: how many rules have each outcome, reasons by frequency, and all rules."""
    lines = ["# Translated rules", "", "| outcome | rules |", "|---|---|"]
    lines += [f"| {outcome.value} | {count:,} |" for outcome, count in _counts(rules).items()]
    reasons = Counter(reason for rule in rules for reason in rule.reasons)
    if reasons:
        lines += ["", "## Why not", "", "| reason | rules |", "|---|---|"]
        lines += [f"| {_cell(reason)} | {count:,} |" for reason, count in reasons.most_common()]
    lines += ["", "## Rules", "", "| rule | outcome | |", "|---|---|---|"]
    for rule in rules:
        told = "; ".join(map(_cell, _told(rule)))
        lines.append(f"| {_cell(rule.name)} | {rule.outcome.value} | {told} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


FORMATS: dict[str, Callable[[Sequence[Translated]], str]] = {
    "text": as_text,
    "json": as_json,
    "markdown": as_markdown,
}
