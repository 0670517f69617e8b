"""The queries that chaos runs, one of every kind, and the rows that they should have written."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from tests.chaos.records import BAD, END, GOOD, NO_KEY, Record

import cepheid


class Kind(NamedTuple):
    """A query, the types it reads, whether it needs a key, and whether late events leave it."""

    text: str | dict[str, str]
    types: str = "ABC"
    keyed: bool = True
    shows_late: bool = True

    def is_bad(self, record: Record) -> bool:
        """Check whether a record is no event for this query."""
        return record.fate == BAD or (record.fate == NO_KEY and self.keyed)


KINDS = {
    "aggregates": Kind(
        "RETURN user, COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) GROUP-BY user WITHIN 8 s SLIDE 4 s",
        "AB",
    ),
    "panes": Kind(
        "RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A, B) WITHIN 8 s SLIDE 4 s", "AB", keyed=False
    ),
    "edges": Kind(
        "RETURN user, COUNT(*) PATTERN A+ WHERE [user] AND A.x < NEXT(A).x "
        "GROUP-BY user WITHIN 8 s SLIDE 8 s",
        "A",
    ),
    "matches": Kind(
        "RETURN A.id, B.id PATTERN SEQ(A, NOT C, B) WHERE [user] AND A.x < B.x WITHIN 3 s"
    ),
    "situations": Kind("DEFINE S AS x > 5 PARTITION BY user SITUATIONS S"),
    "stretches": Kind(
        "DEFINE HIGH AS x > 5, LOW AS x < 3 PATTERN HIGH meets;before LOW WITHIN 3 s "
        "RETURN COUNT(HIGH) AS n, SUM(LOW.x) AS low",
        keyed=False,
    ),
    "select": Kind(
        "SELECT user, COUNT(*) AS n, SUM(x) AS total FROM s GROUP BY user WINDOW 8 seconds",
        keyed=False,
    ),
    "counted": Kind(
        "SELECT user, COUNT(*) AS n, SUM(x) AS total FROM s GROUP BY user WINDOW 5 EVENTS",
        keyed=False,
    ),
    "rows": Kind(
        "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY user ORDER BY ts MEASURES FIRST(A.id) AS a, "
        "B.id AS b PATTERN (A{1,3} B) DEFINE A AS type = 'A', B AS type = 'B' AND x > 3)",
        keyed=False,
        shows_late=False,
    ),
    "funnel": Kind("RETURN FUNNEL(user) PATTERN SEQ(A, B, C) WITHIN 8 s SLIDE 8 s"),
    "workload": Kind(
        {
            "counts": "RETURN user, COUNT(*) PATTERN SEQ(A, B) GROUP-BY user WITHIN 8 s SLIDE 4 s",
            "longer": "RETURN user, COUNT(*) PATTERN SEQ(A+, B) GROUP-BY user WITHIN 8 s SLIDE 4 s",
            "drops": "RETURN COUNT(*), MAX(A.x) PATTERN A+ WHERE A.x > NEXT(A).x "
            "WITHIN 4 s SLIDE 4 s",
        },
        keyed=False,
    ),
}

_LENGTH = re.compile(r"(\d+) (\d+):(\d+):([\d.]+)")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d.*")


def expected_rows(name: str, records: Sequence[Record]) -> Counter[str]:
    """Run a query over the records that are events and not late, all at once."""
    kind = KINDS[name]
    used = [one for one in records if one.fate in (GOOD, NO_KEY) and not kind.is_bad(one)]
    columns: dict[str, Any] = {field: [one.event[field] for one in used] for field in used[0].event}
    columns["ts"] = pa.array(columns["ts"], pa.timestamp("us", "UTC"))
    events = pa.table(columns).sort_by("ts")
    if isinstance(kind.text, dict):
        found = cepheid.workload(kind.text).run(events)
    elif name == "rows":
        found = cepheid.sql(kind.text, tables={"s": events})
    else:
        found = cepheid.query(kind.text).run(events)
    return canonical(name, found.to_pylist())


def canonical(name: str, rows: Iterable[dict[str, Any]]) -> Counter[str]:
    """Count rows as texts, the same for every sink; rows that sentinels make are left out."""
    kept: Counter[str] = Counter()
    for row in rows:
        plain = {
            key: _seconds(value) if key.endswith("_time") else _plain(value)
            for key, value in row.items()
            if key != "match_id"
        }
        if name == "counted" and plain["n"] != 5:
            continue  # The window is not full yet.
        if str(plain.get("window_start", "")) < END.isoformat():
            kept[json.dumps(plain, sort_keys=True)] += 1
    return kept


def _seconds(value: Any) -> float | None:
    """Convert a length of time: text in JSON and PostgreSQL, microseconds in Parquet files."""
    if isinstance(value, str):
        found = _LENGTH.search(value)
        assert found is not None, value
        days, hours, minutes, seconds = map(float, found.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + seconds
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    return None if value is None else value / 1e6


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, str) and _TIME.fullmatch(value):
        value = dt.datetime.fromisoformat(value)
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return aware.astimezone(dt.UTC).isoformat()
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
