"""Sequences and joins of EQL: what they become, and what is refused with a reason."""

from __future__ import annotations

import pyarrow as pa
import pytest

import cepheid
from cepheid.translate.eql.meaning import ELASTICSEARCH, PYTHON, Meaning
from cepheid.translate.eql.queries import write_query
from cepheid.translate.translated import CannotTranslateError, Settings

SETTINGS = Settings(type="kind", types={"k": "integer", "t": "text"})


def _written(text: str, meaning: Meaning = ELASTICSEARCH) -> str:
    return " ".join(write_query(text, SETTINGS, meaning).query.split())


def _found(
    text: str, kinds: str, times: list[int] | None = None, meaning: Meaning = ELASTICSEARCH
) -> list[list[int]]:
    """Run a query over events with these kinds; return the places of the events of matches."""
    ts = pa.array(times or range(len(kinds)), pa.int64())
    table = pa.table({"ts": ts, "kind": list(kinds), "n": range(len(kinds))})
    rows = cepheid.query(write_query(text, SETTINGS, meaning).query, type="kind").run(table)
    return [[event["n"] for event in row["events"]] for row in rows.to_pylist()]


def test_a_sequence_has_one_pending_match_for_each_stage() -> None:
    assert _found("sequence [a where true] [b where true]", "aabab") == [[1, 2], [3, 4]]
    # The second a b takes the place of the first before c comes.
    text = "sequence [a where true] [b where true] [c where true]"
    assert _found(text, "ababc") == [[2, 3, 4]]
    # A match that waits for its second event takes no place of one that waits for its third.
    assert _found(text, "abaccc") == [[0, 1, 3]]


def test_maxspan_is_the_longest_time() -> None:
    text = "sequence with maxspan=1s [a where true] [b where true]"
    assert _found(text, "ab", [0, 1_000_000]) == [[0, 1]]
    assert _found(text, "ab", [0, 1_000_001]) == []


def test_until_ends_all_that_is_pending() -> None:
    text = "sequence [a where true] [b where true] until [u where true]"
    assert _found(text, "auab") == [[2, 3]]
    # An event that goes on and ends does not go on.
    text = "sequence [a where true] [b where true] until [b where n == 1]"
    assert _found(text, "abb", meaning=PYTHON) == []
    # In Elasticsearch, the last stage comes before `until`, as its own tests have it.
    assert _found(text, "abb") == [[0, 1]]
    assert not write_query(text, SETTINGS, ELASTICSEARCH).notes
    text = "sequence [a where true] [b where true] [b where true] until [b where n == 1]"
    assert _found(text, "abb") == []
    text = "sequence [a where true] [b where true] until [a where n == 1]"
    noted = write_query(text, SETTINGS, ELASTICSEARCH)
    assert noted.notes == ("an event that meets `until` and the first stage begins a sequence",)
    assert not write_query(text, SETTINGS, PYTHON).notes


def test_missing_events_and_runs() -> None:
    assert _found("sequence [a where true] ![b where true] [c where true]", "abcac") == [[3, 4]]
    assert _found("sequence [a where true] with runs=2 [c where true]", "aac") == [[0, 1, 2]]
    text = "sequence with maxspan=2micros [a where true] ![b where true]"
    assert _found(text, "acba", [0, 1, 2, 9]) == [[3]]
    text = "sequence with maxspan=2micros ![b where true] [a where true]"
    assert _found(text, "bxa", [0, 1, 2]) == []
    assert _found(text, "bxa", [0, 1, 3]) == [[2]]


def test_keys_are_equivalences_or_conditions_between_neighbours() -> None:
    assert "WHERE [k]" in _written("sequence by k [a where true] [b where true]")
    different = _written("sequence by k [a where true] by x [b where true] by y")
    assert "WHERE [k] AND e1.x = e2.y" in different
    optional = _written("sequence by ?k [a where true] [b where true]")
    assert "e1.k = e2.k OR e1.k IS NULL AND e2.k IS NULL" in optional
    package = _written("sequence by t [a where true] [b where true]", PYTHON)
    assert "LOWER(e1.t) = LOWER(e2.t) OR" in package


def test_keys_that_differ_beside_until_are_columns_of_a_stream() -> None:
    text = "sequence [a where true] by n [b where true] by n until [u where true] by n - 1"
    written = _written(text)
    assert "CASE WHEN kind = 'a' THEN n WHEN kind = 'b' THEN n" in written
    assert "WHERE kind IN ('a', 'b', 'u')" in written
    assert "WHERE [key_1] AND n1.keyed_category = 'u'" in written
    ts, n = pa.array(range(4), pa.int64()), [1, 2, 1, 1]
    table = pa.table({"ts": ts, "kind": list("auba"), "n": n})
    query = cepheid.query(write_query(text, SETTINGS, ELASTICSEARCH).query, type="kind")
    assert not len(query.run(table))
    table = table.set_column(2, "n", pa.array([1, 9, 1, 1]))
    assert [e["ts"] for e in query.run(table).to_pylist()[0]["events"]] == [0, 2]
    # Events that lack the key have one in common only where it is optional.
    optional = _written("join by ?k [a where true] [b where true]")
    assert "COALESCE(k, 0) AS key_1, k IS NULL AS key_2" in optional


def test_a_fork_leaves_the_match_that_waits() -> None:
    text = "sequence [a where true] [b where true] fork [c where true]"
    assert "SEMANTICS skip-till-next-match, e1 TO e2 skip-till-any-match" in _written(text)
    assert _found(text, "abcbc") == [[0, 1, 2], [0, 3, 4]]
    assert _found(text.replace(" fork", ""), "abcbc") == [[0, 1, 2]]


def test_a_join_takes_its_parts_in_any_order() -> None:
    text = "join [a where true] [b where true]"
    assert sorted(map(sorted, _found(text, "aabba"))) == [[0, 2], [3, 4]]
    noted = write_query("join [a where x == 1] [a where x == 2]", SETTINGS, ELASTICSEARCH)
    assert noted.notes == ("an event that fits two parts of the join counts for one",)
    noted = write_query(
        "join [a where x == 1] [b where true] until [a where x == 3]", SETTINGS, PYTHON
    )
    assert "taken by the part" in noted.notes[0]


def test_pipes_after_a_sequence() -> None:
    text = "sequence [a where true] [b where true] | filter events[1].n == 3 | head 1"
    assert "FIRST(e2).n = 3" in _written(text)
    assert "LIMIT 1" in _written(text)
    assert _found(text, "abab") == [[2, 3]]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sample by k [a where true] [b where true]", "not determined"),
        ("sequence [a where true] [b where true] fork with runs=2", "`fork`"),
        ("sequence [a where true] [b where true] ![c where true]", "a missing event"),
        ("sequence ![c where true]", "1 to 60 stages"),
        (
            "sequence with maxspan=1s ![c where true] [a where true] ![c where true]",
            "both before and after",
        ),
        ("sequence [a where true] with runs=99", "1 to 60 times"),
        ("sequence [a where true] by k [b where true]", "different numbers of keys"),
        ("join [a where true] by x [a where true] by y", "keys that differ"),
        ("join [a where true] by x [any where true] by y", "keys that differ"),
        ("join [a where true] by k [b where true] by t", "keys of a sequence are"),
        ("join [a where true] by ?k [b where true] by ?x", "of some keys"),
        (f"join {'[a where true]' * 5}", "more than 4 parts"),
        ("sequence [a where true] [b where true] | tail 1", "the pipe `tail`"),
        ("sequence [a where true] [b where true] | filter x == 1", "other events of a match"),
        ("sequence [a where true] [b where true] | filter events[0].x == 1", "other events of"),
        ("join [a where true] [b where true] | filter events[1].x == 1", "the pipe `filter`"),
        ("sequence with maxspan=1w [a where true]", "cannot be read"),
        ("sequence", "the events in brackets are missing"),
    ],
)
def test_what_has_no_counterpart_is_refused(text: str, why: str) -> None:
    with pytest.raises(CannotTranslateError, match=why):
        _written(text)
