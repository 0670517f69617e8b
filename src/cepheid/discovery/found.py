"""The result of a discovery: a table of rules with their queries, and what the search did."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from cepheid.discovery.candidates import Candidates
from cepheid.discovery.cases import Names
from cepheid.discovery.choice import Row
from cepheid.discovery.counting import Seen
from cepheid.discovery.forms import BY_NAME
from cepheid.discovery.ranking import chance, chi_square, lift
from cepheid.discovery.rule_texts import deadline_query, form_query, sequence_query
from cepheid.events.temporal import format_duration


class Search(NamedTuple):
    """The numbers of events, cases and candidates of a search."""

    names: Names
    seen: Seen
    lengths: tuple[int, ...]
    candidates: int
    left_out: int
    seconds: float

    def lines(self) -> Iterator[str]:
        """Yield sentences about it, for people."""
        seen, groups = self.seen, self.seen.groups
        marked = f", {groups.labelled:,} with the label" if self.names.label else ""
        yield (
            f"{seen.events:,} events, {groups.cases:,} cases{marked}, "
            f"{len(seen.types):,} types: {self.candidates:,} rules counted in {self.seconds:.1f} s"
        )
        if seen.other_types:
            yield f"{seen.other_types:,} rarer types are looked at as other events (max_types)"
        if seen.without_key:
            yield f"{seen.without_key:,} events have no {self.names.key}, and are left out"
        if self.left_out:
            yield f"{self.left_out:,} longer sequences were not counted (max_candidates)"


class Discovery(msgspec.Struct, frozen=True):
    """The rules that a search found, the best ones first; ``table`` has a row for each.

    ``rule`` names it; ``form`` is one of Declare, ``deadline`` or ``sequence``, with its
    ``types`` and, in microseconds, ``within``. It speaks of ``cases`` cases and ``holds`` in some;
    ``confidence`` is their share. ``query`` reports ``reported`` cases: those with the sequence, or
    those in which the rule is broken. With a label: how many of them have it (``labelled``), how
    many times as often as all cases (``lift``), and the probability that the best of so many rules
    is as far from chance (``chance``).
    """

    table: pa.Table
    search: Search

    @staticmethod
    def of(rows: Iterable[Row], search: Search) -> Discovery:
        """Describe the chosen candidates."""
        found = [_described(table, row, search) for table, row in rows]
        schema = _SCHEMA
        if search.names.label is None:
            for name in ("labelled", "lift", "chance"):
                schema = schema.remove(schema.get_field_index(name))
        return Discovery(pa.Table.from_pylist(found, schema=schema), search)

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        return "\n".join([f"Discovery  {len(self)} rules", *self.search.lines()])

    def files(self) -> Iterator[tuple[str, str]]:
        """Yield a file name and a text for each rule: ``.cq`` are rules, ``.sql`` are queries."""
        for number, rule in enumerate(self.table.to_pylist(), start=1):
            plain = re.sub(r"\W+", "-", rule["rule"], flags=re.ASCII).strip("-").lower()[:60]
            end = "cq" if rule["form"] in ("sequence", "deadline") else "sql"
            counts = f"{rule['reported']:,} of {self.search.seen.groups.cases:,} cases are reported"
            if self.search.names.label is not None:
                counts += f", {rule['labelled']:,} with the label"
            head = ["-- @tags: discovered"] if end == "cq" else []
            said = [*head, f"-- {_one_line(rule['rule'])}", f"-- {counts}"]
            yield f"{number:03}-{plain}.{end}", "\n".join([*said, rule["query"], ""])


_SCHEMA = pa.schema(
    {
        "rule": pa.string(), "form": pa.string(), "types": pa.list_(pa.string()),
        "within": pa.duration("us"), "cases": pa.int64(), "holds": pa.int64(),
        "confidence": pa.float64(), "reported": pa.int64(), "labelled": pa.int64(),
        "lift": pa.float64(), "chance": pa.float64(), "query": pa.string(),
    }
)  # fmt: skip


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _described(table: Candidates, row: int, search: Search) -> dict[str, Any]:
    names, groups = search.names, search.seen.groups
    types = [search.seen.types[one] for one in table.types[row].tolist()]
    step = int(table.step[row])
    within = search.lengths[step] if step >= 0 else None
    limit = "" if within is None else f" within {format_duration(within)}"
    if table.form == "sequence":
        rule, query = f"{', '.join(types)}{limit}", sequence_query(types, within, names)
    elif table.form == "deadline":
        assert within is not None, "a deadline has a duration"
        rule = f"{types[0]} → {types[1]}{limit}"
        query = deadline_query(types[0], types[1], within, names)
    else:
        rule = f"{table.form}({', '.join(types)})"
        query = form_query(BY_NAME[table.form], types, names)
    reported, labelled = int(table.reported[row]), int(table.labelled[row])
    chi = chi_square(table.reported[row : row + 1], table.labelled[row : row + 1], groups)
    return {
        "rule": rule,
        "form": table.form,
        "types": types,
        "within": within,
        "cases": int(table.stake[row]),
        "holds": int(table.holds[row]),
        "confidence": float(table.holds[row] / table.stake[row]) if table.stake[row] else None,
        "reported": reported,
        "labelled": labelled,
        "lift": lift(reported, labelled, groups),
        "chance": chance(float(chi[0]), search.candidates),
        "query": query,
    }
