"""Examples of queries for a data set, made of its own columns and types."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from cepheid.expressions.format import format_name
from cepheid.interfaces.data_sets import Columns


def examples_for(sample: pa.Table, columns: Columns) -> list[dict[str, str]]:
    """Write queries that run over events like these: counts, matches, a funnel, a SELECT."""
    names = sample.column_names
    if columns.time not in names:
        return []
    types = _common(sample, columns.type) if columns.type in names else []
    others = [name for name in names if name not in (columns.time, columns.type)]
    keys = [name for name in others if _is_key(sample, name)]
    numbers = [name for name in others if _is_number(sample.schema.field(name).type)]
    numbers = [name for name in numbers if name not in keys[:1]] or numbers
    one = format_name(types[0]) if types else "ANY"
    key = format_name(keys[0]) if keys else ""
    value = format_name(numbers[0]) if numbers else ""
    made = [_select(key, value)]
    if value:
        made.append(_falling(one, key, value))
    if len(types) > 1:
        made.append(_sequence([format_name(name) for name in types], key))
        if key:
            made.append(_funnel([format_name(name) for name in types[:4]], key))
    if value:
        made.append(_pairs(one, key, value))
    return [{"name": name, "text": text} for name, text in made]


def _common(sample: pa.Table, name: str) -> list[str]:
    """List the types in the order in which they first come, up to four of them."""
    seen = [str(value) for value in sample[name].to_pylist() if value is not None]
    return list(dict.fromkeys(seen))[:4]


def _is_key(sample: pa.Table, name: str) -> bool:
    """Check whether a column has values that come again: a symbol, a session, a user."""
    kind = sample.schema.field(name).type
    if not (pa.types.is_string(kind) or pa.types.is_integer(kind)):
        return False
    counts = Counter(value for value in sample[name].to_pylist() if value is not None)
    return len(sample) > 1 and 0 < len(counts) <= max(1, len(sample) * 2 // 3)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _where(*conditions: str) -> str:
    held = [one for one in conditions if one]
    return f"\nWHERE {' AND '.join(held)}" if held else ""


def _select(key: str, value: str) -> tuple[str, str]:
    items = [*([key] if key else []), "COUNT(*) AS events"]
    items += [f"AVG({value}) AS mean"] if value else []
    grouped = f"\nGROUP BY {key}" if key else ""
    return (
        "events per window",
        f"SELECT {', '.join(items)}\nFROM events{grouped}\nWINDOW 10 minutes",
    )


def _falling(one: str, key: str, value: str) -> tuple[str, str]:
    grouped = f"\nGROUP-BY {key}" if key else ""
    shown = f"{key}, " if key else ""
    where = _where(f"[{key}]" if key else "", f"E.{value} > NEXT(E).{value}")
    text = f"RETURN {shown}COUNT(*) AS trends, AVG(E.{value}) AS mean\nPATTERN {one} E+"
    return "falling trends", f"{text}{where}{grouped}\nWITHIN 10 minutes SLIDE 10 minutes"


def _pairs(one: str, key: str, value: str) -> tuple[str, str]:
    where = _where(f"[{key}]" if key else "", f"B.{value} > A.{value}")
    text = f"RETURN MATCHES\nPATTERN SEQ({one} A, {one} B)"
    return "rising pairs", f"{text}\nSEMANTICS contiguous{where}\nWITHIN 1 minute"


def _sequence(types: list[str], key: str) -> tuple[str, str]:
    pattern = f"RETURN MATCHES\nPATTERN SEQ({', '.join(types[:3])})"
    where = _where(f"[{key}]" if key else "")
    return "sequence", f"{pattern}\nSEMANTICS skip-till-next-match{where}\nWITHIN 1 hour"


def _funnel(types: list[str], key: str) -> tuple[str, str]:
    return "funnel", f"RETURN FUNNEL({key})\nPATTERN SEQ({', '.join(types)})\nWITHIN 1 hour"
