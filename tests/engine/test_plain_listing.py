"""Matches without conditions between events: the quick kernel lists what the general one does."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

import cepheid
from cepheid.kernels.tiers import Tier, forced
from cepheid.kinds.trend.listing import enumerate as listing
from cepheid.kinds.trend.windows import match_windows

PATTERNS = (
    "SEQ(A, B, C)", "SEQ(A+, B)", "A+", "SEQ(A, B?, C)", "(SEQ(A+, B))+", "SEQ(A, (B OR C)+, A)",
    "SEQ(A, B) AND C", "A", "SEQ(A x, A y+)", "A{2}",
)  # fmt: skip
WINDOWS = ("WITHIN 8 us", "WITHIN 12 us SLIDE 12 us", "WITHIN 12 us SLIDE 4 us", "WITHIN 15 us")


def events(seed: int) -> pa.Table:
    chance = random.Random(seed)
    count = chance.randint(1, 24)
    return pa.table(
        {
            "ts": sorted(chance.choices(range(30), k=count)),
            "type": pa.array(chance.choices("AABCD", k=count)),
            "key": chance.choices((1, 1, 2), k=count),
        }
    )


def questions() -> Iterator[str]:
    for pattern in PATTERNS:
        for window in WINDOWS:
            for where in ("", "WHERE [key]"):
                yield f"RETURN MATCHES PATTERN {pattern} SEMANTICS any {where} {window}"


@pytest.fixture(autouse=True)
def _no_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search backwards, as queries do that a walk cannot answer."""
    monkeypatch.setattr(match_windows, "is_walked", lambda *_: False)


@pytest.mark.filterwarnings("ignore:.*W20")
@pytest.mark.parametrize("room", [2, 1 << 16])
def test_both_kernels_list_the_same_matches_in_the_same_order(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MATCHES_ROOM", room)
    monkeypatch.setattr(listing, "BINDINGS_ROOM", 2 * room)
    taken = 0
    for seed, text in enumerate(questions()):
        compiled, table = cepheid.query(text), events(seed)
        with monkeypatch.context() as patch:
            patch.setattr(listing.Lister, "_is_plain", lambda _: False)
            expected = compiled.run(table)
        with forced(Tier.INTERPRET if seed % 2 else Tier.COMPILE):
            assert compiled.run(table).equals(expected), (text, seed)
        taken += len(expected)
    assert taken > 500, "there is something to compare"


CONDITIONS = {
    "": True,
    "WHERE a.x > 1": True,
    "WHERE [x]": True,
    "WHERE a.x < b.x": False,
    "WHERE a.x + b.x > 3": False,
}


@pytest.mark.parametrize("where", CONDITIONS)
@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
def test_only_queries_without_conditions_between_events_are_plain(
    where: str, semantics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    before = listing.Lister._is_plain

    def noted(self: listing.Lister) -> bool:
        asked.append(before(self))
        return asked[-1]

    monkeypatch.setattr(listing.Lister, "_is_plain", noted)
    text = f"RETURN MATCHES PATTERN SEQ(A a, B b) SEMANTICS {semantics} {where} WITHIN 5 us"
    table = pa.table({"ts": [1, 2, 3], "type": ["A", "B", "B"], "x": [2, 3, 2]})
    cepheid.query(text).run(table)
    if semantics == "any":
        assert asked == [CONDITIONS[where]]
    assert not any(asked) or semantics == "any"


def test_a_negated_pattern_is_not_plain() -> None:
    table = pa.table({"ts": [1, 2, 3, 4], "type": ["A", "C", "A", "B"]})
    found = cepheid.query("RETURN MATCHES PATTERN SEQ(A, NOT C, B) SEMANTICS any").run(table)
    assert [[event["ts"] for event in row["events"]] for row in found.to_pylist()] == [[3, 4]]
