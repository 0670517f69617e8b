"""Every option of every public function is used or refused; nothing vanishes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import cepheid
from cepheid import options

EVENTS = pa.table({"ts": [1, 2], "type": ["A", "B"], "x": [1, 2]})
COUNT = "RETURN COUNT(*) PATTERN SEQ(A, B)"
LIST = "RETURN MATCHES PATTERN SEQ(A, B)"
CLAUSE = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A) DEFINE A AS x > 0)"
NONSENSE = "nonsense"
NOT_TEXTS: tuple[Any, ...] = (5, None, b"ts", [])
NOT_TRUTHS = (NONSENSE, 1, None)
NO_CHOICES: tuple[Any, ...] = (NONSENSE, None, 5, [])

Case = tuple[str, str, dict[str, Any]]
"""A function, the option in question, and all arguments."""

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "query": cepheid.query,
    "sql": cepheid.sql,
    "workload": cepheid.workload,
    "explain": cepheid.CompiledQuery.explain,
    "run": cepheid.CompiledQuery.run,
    "matches": cepheid.CompiledQuery.matches,
    "show": cepheid.CompiledQuery.show,
    "why_not": cepheid.CompiledQuery.why_not,
    "stream": cepheid.CompiledQuery.stream,
    "with_schema": cepheid.CompiledQuery.with_schema,
    "with_evaluator": cepheid.CompiledQuery.with_evaluator,
    "workload.explain": cepheid.Workload.explain,
    "workload.run": cepheid.Workload.run,
    "workload.stream": cepheid.Workload.stream,
    "workload.shared": cepheid.Workload.shared,
    "workload.live": cepheid.Workload.live,
}


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the same events in everything that holds them in this process."""
    folder = tmp_path_factory.mktemp("held")
    parquet.write_table(EVENTS, folder / "events.parquet")
    store = cepheid.EventStore(folder / "store", time="ts")
    store.append(EVENTS)
    return {
        "table": EVENTS,
        "pandas": EVENTS.to_pandas(),
        "batch": EVENTS.to_batches()[0],
        "path": str(folder / "events.parquet"),
        "pathlike": folder / "events.parquet",
        "store": store,
    }


def made(text: str = COUNT) -> list[Case]:
    """Return cases of the functions that make something."""
    cases: list[Case] = [("query", "text", {"text": value}) for value in NOT_TEXTS]
    for function, first in (("query", {"text": text}), ("workload", {"queries": [text]})):
        cases += [(function, "time", first | {"time": value}) for value in NOT_TEXTS]
        # None says that events have no types.
        wrong = [value for value in NOT_TEXTS if value is not None]
        cases += [(function, "type", first | {"type": value}) for value in wrong]
        cases += [(function, "tiebreak", first | {"tiebreak": v}) for v in ("x", 5, [1], None)]
        cases += [(function, "time_unit", first | {"time_unit": v}) for v in NO_CHOICES]
        cases += [(function, "time_format", first | {"time_format": v}) for v in (5, True)]
        cases += [(function, "functions", first | {"functions": v}) for v in (5, "abs", [abs])]
    cases += [("query", "schema", {"text": text, "schema": value}) for value in (NONSENSE, 5)]
    cases += [("workload", "merge", {"queries": [text], "merge": v}) for v in NOT_TRUTHS]
    cases += [("workload", "queries", {"queries": v}) for v in (text, 5, [], [5], {1: text}, None)]
    for option in ("explain", "analyze"):
        cases += [("sql", option, {"text": CLAUSE, option: value}) for value in NOT_TRUTHS]
    for option in ("search_steps", "search_states"):
        cases += [("sql", option, {"text": CLAUSE, option: v}) for v in (0, -1, True, "5", 2**60)]
    cases += [("sql", "text", {"text": value}) for value in NOT_TEXTS]
    cases += [("sql", "spark", {"spark": 5, "text": CLAUSE})]
    cases += [("sql", "watermark", {"text": CLAUSE, "watermark": v}) for v in ("1 second", 5)]
    for option in ("bad", "max_ahead", "idle", "latency"):
        cases += [("sql", option, {"text": CLAUSE, option: value}) for value in (NONSENSE, 5)]
    cases += [("sql", "tables", {"text": CLAUSE, "tables": v}) for v in (5, [EVENTS], {"t": 5})]
    return cases


def planned() -> list[Case]:
    """Return cases of the methods that take no events."""
    cases: list[Case] = [("explain", "format", {"format": v}) for v in NO_CHOICES]
    cases += [("explain", "engine", {"engine": v}) for v in NO_CHOICES]
    cases += [("explain", "engine", {"engine": "gpu", "format": f}) for f in ("json", "mermaid")]
    for function in ("explain", "with_schema", "workload.explain", "workload.shared"):
        cases += [(function, "schema", {"schema": value}) for value in (NONSENSE, 5)]
    cases += [("workload.live", "schema", {"schema": value}) for value in (NONSENSE, 5, None)]
    for value in (NONSENSE, None, 5, "previous"):
        cases.append(("with_evaluator", "evaluator", {"evaluator": value}))
    cases += [("explain", "store", {"store": value}) for value in (5, NONSENSE, EVENTS)]
    for function in ("explain", "workload.explain"):
        cases += [(function, "analyze", {"analyze": value}) for value in (*NOT_TRUTHS, True)]
        cases += [(function, "events", {"events": EVENTS})]
        cases += [(function, "events", {"events": value, "analyze": True}) for value in (5, b"x")]
        cases += [(function, "spark", {"spark": 5}), (function, "spark", {"spark": 5, "events": 5})]
    return cases


def with_events(name: str) -> list[Case]:
    """Return cases of the methods that take events; their place is held by a name."""
    events: dict[str, Any] = {"events": name}
    cases: list[Case] = []
    for function in ("run", "workload.run"):
        cases += [(function, "device", events | {"device": v}) for v in NO_CHOICES]
    for function in ("run", "show", "why_not", "workload.run"):
        cases += [(function, "spark", events | {"spark": value}) for value in (NONSENSE, 5)]
    cases += [("run", "strategy", events | {"strategy": value}) for value in NO_CHOICES[2:]]
    cases.append(("explain", "changes", {"changes": True, "format": "json"}))
    cases.append(("explain", "changes", {"changes": NONSENSE}))
    for changes in (7, {"id": ["x"]}, {"op": "op", "id": 3}):
        cases.append(("run", "changes", events | {"changes": changes}))
        live = events | {"watermark": "1 second", "changes": changes}
        cases.append(("stream", "changes", live))
    if name != "store":
        cases += [("run", "strategy", events | {"strategy": v}) for v in ("index", "combine")]
    cases += [("workload.run", "separate", events | {"separate": value}) for value in NOT_TRUTHS]
    for function in ("stream", "workload.stream"):
        cases.append((function, "events", events | {"watermark": "1 second"}))
        for late in (NONSENSE, None, 5):
            cases.append((function, "late", events | {"watermark": "1 second", "late": late}))
        cases.append((function, "watermark", events | {"watermark": NONSENSE}))
        for bad in (NONSENSE, None, 5):
            cases.append((function, "bad", events | {"watermark": "1 second", "bad": bad}))
        for option in ("max_ahead", "idle", "latency"):
            cases.append((function, option, events | {"watermark": "1 second", option: NONSENSE}))
    others = ("allowed_lateness", "since", "backfill", "marks", "hot_keys", "shed", "shed_notes")
    for option in others:
        cases.append(("stream", option, events | {"watermark": "1 second", option: NONSENSE}))
    if name == "store":
        for option, value in (("format", "json"), ("engine", "spark"), ("schema", EVENTS)):
            cases.append(("explain", option, {"store": name, option: value}))
        cases.append(("sql", "strategy", {"text": CLAUSE, "tables": name, "strategy": NONSENSE}))
    elif name in ("table", "pandas", "batch"):
        asked = {"text": CLAUSE, "tables": name, "strategy": "index"}
        cases.append(("sql", "strategy", asked))
    return cases


HELD = ("table", "pandas", "batch", "path", "pathlike", "store")
CASES = [*made(), *planned(), *(case for name in HELD for case in with_events(name))]
CASES += [
    (function, "events", {"events": value} | more)
    for function, more in (
        ("run", {}),
        ("matches", {}),
        ("show", {}),
        ("why_not", {}),
        ("workload.run", {}),
        ("stream", {"watermark": "1 second"}),
        ("workload.stream", {"watermark": "1 second"}),
    )
    for value in (5, None, [EVENTS], {"ts": [1]}, b"events.parquet")
]


def call(function: str, arguments: dict[str, Any], text: str) -> object:
    if function == "query":
        return cepheid.query(**arguments)
    if function == "sql":
        return cepheid.sql(**arguments)
    if function == "workload":
        return cepheid.workload(**arguments)
    owner: Any = cepheid.query(text)
    if function.startswith("workload."):
        owner = cepheid.workload([text])
    return getattr(owner, function.rpartition(".")[2])(**arguments)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}"[:90])
def test_what_means_nothing_is_refused(case: Case, held: dict[str, Any]) -> None:
    function, option, arguments = case
    known = {
        name: held[value] if name in ("events", "store") and value in list(HELD) else value
        for name, value in arguments.items()
        if not isinstance(value, pa.Table)
    } | {name: value for name, value in arguments.items() if isinstance(value, pa.Table)}
    if function == "sql" and isinstance(known.get("tables"), str):
        known["tables"] = {"t": held[known["tables"]]}
    text = LIST if function == "matches" else COUNT
    with pytest.raises(cepheid.CepheidError) as caught:
        call(function, known, text)
    (found,) = caught.value.diagnostics
    assert found.code in ("E552", "E590", "E591", "E592"), (option, found)
    assert isinstance(caught.value, options.OptionError) or found.code == "E552"


def test_every_option_of_every_function_is_in_the_table() -> None:
    asked = {(function, option) for function, option, _ in CASES}
    unasked = {
        (name, option)
        for name, function in FUNCTIONS.items()
        for option in inspect.signature(function).parameters
        if option != "self" and (name, option) not in asked
    }
    assert not unasked
    public = {
        name
        for owner in (cepheid.CompiledQuery, cepheid.Workload)
        for name, one in vars(owner).items()
        if inspect.isfunction(one) and not name.startswith("_")
    }
    assert public <= {name.rpartition(".")[2] for name in FUNCTIONS} | {"format"}


def used(held: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is right, and must not be refused."""
    for events in held.values():
        for device in ("cpu", "auto"):
            yield "run", {"events": events, "device": device}
    for strategy in options.METHODS:
        yield "run", {"events": held["store"], "strategy": strategy}
    yield "explain", {"store": held["store"], "analyze": True}
    yield "explain", {"engine": "spark"}
    yield "explain", {"format": "json"}


def test_what_means_something_is_used(held: dict[str, Any]) -> None:
    for function, arguments in used(held):
        assert call(function, arguments, COUNT) is not None


def test_matches_are_listed_wherever_events_are(held: dict[str, Any]) -> None:
    expected = cepheid.query(LIST).matches(EVENTS).read_all()
    assert len(expected) == 1
    for name, events in held.items():
        assert cepheid.query(LIST).matches(events).read_all().equals(expected), name


def test_matches_of_files_out_of_order_are_sorted(tmp_path: Path) -> None:
    parquet.write_table(EVENTS.take([1, 0]), tmp_path / "a.parquet")
    with pytest.warns(UserWarning, match="sorted"):
        found = cepheid.query(LIST).matches(tmp_path).read_all()
    assert len(found) == 1


def test_aggregates_situations_and_selects_have_no_matches() -> None:
    for text in (COUNT, "DEFINE X AS x > 0 SITUATIONS X", "SELECT x FROM s"):
        with pytest.raises(options.OptionError, match="use `run`"):
            cepheid.query(text).matches(EVENTS)
