"""Matches in narrow windows: both kernels list the same, with lists of earlier rows or without."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import cepheid
from cepheid.kernels.tiers import Tier, forced
from cepheid.kinds.trend.listing import earlier_rows
from cepheid.kinds.trend.listing import enumerate as listing
from cepheid.kinds.trend.windows import match_windows

CONDITIONS = {
    "SEQ(A a, B b, C c)": ("", "[key]", "a.x < b.x", "a.x <> b.x", "a.x = b.x", "LAST(a).x < c.x"),
    "SEQ(A a+, B b)": ("", "[key]", "a.x < NEXT(a).x", "FIRST(a).x < b.x", "a.x = NEXT(a).x"),
    "A a+": ("", "a.x < NEXT(a).x", "FIRST(a).x <> LAST(a).x", "a.x <= NEXT(a).x AND [key]"),
    "SEQ(A a, B b?, C)": ("", "a.x < b.x"),
    "(SEQ(A a+, B b))+": ("", "a.x < b.x", "a.x < NEXT(a).x"),
    "SEQ(A a, (B b OR C)+, A last)": ("", "a.x < b.x", "LAST(a).x <> last.x"),
    "SEQ(A a, B b) AND C": ("", "a.x < b.x"),
    "A a": ("", "a.x > 1"),
    "SEQ(A x, A b+, A y)": (
        "", "x.x < b.x AND b.x < NEXT(b).x AND y.x < FIRST(b).x", "y.x <> FIRST(b).x",
        "LAST(b).x < y.x", "x.x <> b.x AND b.x <> NEXT(b).x", "LAST(b).x <> FIRST(b).x AND [key]",
    ),
    "A a{2}": ("", "a.x < NEXT(a).x"),
    "SEQ(A a, NOT D, B b)": ("", "a.x < b.x"),
    "SEQ(NOT D, A a, B b)": ("", "a.x < b.x"),
}  # fmt: skip
WINDOWS = ("WITHIN 8 us", "WITHIN 12 us SLIDE 12 us", "WITHIN 12 us SLIDE 4 us", "WITHIN 15 us")


def events(seed: int) -> pa.Table:
    chance = random.Random(seed)
    count = chance.randint(1, 24)
    return pa.table(
        {
            "ts": sorted(chance.choices(range(30), k=count)),
            "type": pa.array(chance.choices("AABCD", k=count)),
            "key": chance.choices((1, 1, 2), k=count),
            "x": pa.array(chance.choices((1, 2, 3, None), (9, 9, 9, 1), k=count), pa.float64()),
            "word": pa.array(range(count), pa.timestamp("us")),
        }
    )


def questions() -> Iterator[str]:
    for pattern, conditions in CONDITIONS.items():
        for condition in conditions:
            where = f"WHERE {condition}" if condition else ""
            for window in WINDOWS:
                yield f"RETURN MATCHES PATTERN {pattern} SEMANTICS any {where} {window}"


@pytest.fixture(autouse=True)
def _no_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search backwards, as queries do that a walk cannot answer."""
    monkeypatch.setattr(match_windows, "is_walked", lambda *_: False)


@pytest.mark.filterwarnings("ignore:.*W20")
@pytest.mark.parametrize(
    ("room", "lists", "trial"), [(2, 4, 1), (1 << 16, 1 << 20, 1), (1 << 16, 1 << 20, 3)]
)
def test_both_kernels_list_the_same_matches_in_the_same_order(
    room: int, lists: int, trial: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MATCHES_ROOM", room)
    monkeypatch.setattr(listing, "TRIAL", trial)
    monkeypatch.setattr(listing, "DENSE", 0)
    monkeypatch.setattr(earlier_rows, "BINDINGS_ROOM", 2 * room)
    monkeypatch.setattr(earlier_rows, "LISTS_MAX", lists)
    taken = narrow = 0
    texts = list(questions())
    before, kept = listing.Lister._is_narrow, earlier_rows.list_by_earlier_rows

    def noted(*arguments: Any) -> Iterator[Any]:
        nonlocal narrow
        narrow += 1
        return kept(*arguments)

    monkeypatch.setattr(listing, "list_by_earlier_rows", noted)

    for seed, text in enumerate(texts):
        compiled, table = cepheid.query(text), events(seed)
        with monkeypatch.context() as patch:
            patch.setattr(listing.Lister, "_is_narrow", lambda _: False)
            expected = compiled.run(table)
        monkeypatch.setattr(listing.Lister, "_is_narrow", before)
        with forced(Tier.INTERPRET if seed % 2 else Tier.COMPILE):
            assert compiled.run(table).equals(expected), (text, seed)
        taken += len(expected)
    assert taken > 500, "there is something to compare"
    assert narrow > len(texts) / 4


@pytest.mark.parametrize("names", [("a", "b"), ("first", "other"), ("long", "b"), ("ä", "b")])
def test_variables_are_spelled(names: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "TRIAL", 1)
    monkeypatch.setattr(listing, "DENSE", 0)
    one, other = names
    text = f"RETURN MATCHES PATTERN SEQ(A `{one}`, B `{other}`+) SEMANTICS any WITHIN 5 us"
    table = pa.table({"ts": [1, 2, 3], "type": ["A", "B", "B"]})
    found = cepheid.query(text).run(table)
    assert [[event["variable"] for event in row["events"]] for row in found.to_pylist()] == [
        [one, other], [one, other], [one, other, other],
    ]  # fmt: skip


NARROW = {
    "WHERE a.x > 1": True,
    "WHERE [x]": True,
    "WHERE a.x < b.x": True,
    "WHERE ABS(a.x - b.x) > 1": False,
}


@pytest.mark.parametrize("where", NARROW)
@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
def test_lists_are_kept_where_they_follow_from_rows_alone(
    where: str, semantics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    before = listing.Lister._is_narrow

    def noted(self: listing.Lister) -> bool:
        asked.append(before(self))
        return asked[-1]

    monkeypatch.setattr(listing.Lister, "_is_narrow", noted)
    text = f"RETURN MATCHES PATTERN SEQ(A a, B b) SEMANTICS {semantics} {where} WITHIN 5 us"
    table = pa.table({"ts": [1, 2, 3], "type": ["A", "B", "B"], "x": [2, 3, 2]})
    cepheid.query(text).run(table)
    if semantics == "any":
        assert asked == [NARROW[where]]
    assert not any(asked) or semantics == "any"


def test_wide_windows_keep_no_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "list_by_earlier_rows", lambda *_: pytest.fail("a wide window"))
    monkeypatch.setattr(listing, "TRIAL", 1)
    monkeypatch.setattr(listing, "DENSE", 0)
    table = pa.table({"ts": range(2000), "type": ["A"] * 1999 + ["B"], "x": range(2000)})
    query = cepheid.query("RETURN MATCHES PATTERN SEQ(A a, B b) SEMANTICS any WHERE a.x < b.x")
    assert len(query.run(table)) == 1999


def test_a_negated_pattern_forbids_earlier_rows() -> None:
    table = pa.table({"ts": [1, 2, 3, 4], "type": ["A", "C", "A", "B"]})
    found = cepheid.query("RETURN MATCHES PATTERN SEQ(A, NOT C, B) SEMANTICS any").run(table)
    assert [[event["ts"] for event in row["events"]] for row in found.to_pylist()] == [[3, 4]]
