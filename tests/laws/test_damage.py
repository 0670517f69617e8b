"""Whatever is read back is as it was written, or an error says so: one bit is enough.

Bits are changed one at a time, in every kind of state and of file; bytes are cut off, and one state
is given in place of another.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from tests.engine.comparison import table_of
from tests.row_pattern.test_live_job import FALLS, ROWS
from tests.row_pattern.test_live_job import work_of as row_pattern_of
from tests.runtime.test_corrections import QUERIES as CORRECTED
from tests.runtime.test_corrections import Live as CorrectedLive
from tests.runtime.test_rules_turn import MORE
from tests.runtime.test_rules_turn import Stream as RulesStream
from tests.runtime.test_rules_turn import work_of as rules_of
from tests.runtime.test_stream_state import Live
from tests.select import test_counted_turn as counted
from tests.select import test_join_turn as joined
from tests.select import test_windows_turn as windows
from tests.select.cases import table_of as rows_of
from tests.situations.test_situations import SCHEMA as SITUATIONS
from tests.situations.test_situations import table_of as situations_of

import cepheid
from cepheid.framing import frame, unframe
from cepheid.jobs.bucket import Outcome, read_bucket
from cepheid.jobs.hot_keys import Split, Warmth
from cepheid.jobs.kind import needs_of, task_kind
from cepheid.jobs.microbatch import live_job, turn
from cepheid.jobs.shed_turn import ShedArrived, shed_turn
from cepheid.jobs.shedding import Shed
from cepheid.jobs.split_turn import FORMAT, SplitArrived, SplitState, split_turn
from cepheid.jobs.state_format import write_state
from cepheid.jobs.work import Work
from cepheid.kinds.selection.counted import CountedJob
from cepheid.kinds.selection.counted_snapshot import counted_from_bytes
from cepheid.kinds.selection.live_join import turn_joined
from cepheid.kinds.situation.job import SituationJob
from cepheid.kinds.situation.snapshot import situations_from_bytes
from cepheid.kinds.trend.live_by_panes import LiveByPanes
from cepheid.kinds.trend.planning.needs import live_pane
from cepheid.kinds.trend.program.job import Job, job_of
from cepheid.kinds.trend.windows.panes import LivePanes
from cepheid.kinds.trend.windows.snapshot import state_from_bytes, state_to_bytes
from cepheid.kinds.trend.windows.step import PartitionState, step
from cepheid.kinds.workload.live import LiveWorkload
from cepheid.kinds.workload.live_snapshot import rules_from_bytes
from cepheid.kinds.workload.sharing import share
from cepheid.kinds.workload.snapshot import workload_from_bytes, workload_to_bytes
from cepheid.kinds.workload.step import WorkloadJob, WorkloadState, feed
from cepheid.plans.plan import SelectPlan, SituationPlan, TrendPlan
from cepheid.testing.harness import stream

EVENTS = table_of(
    stream("a1(key='p', price=1) b2(key='q', price=2) a3(key='p', price=4) a4(key='q', price=3)")
)
LATER = 3_000_000


class State(NamedTuple):
    """Bytes, and what reads them; a live query goes on with them, to a time."""

    data: bytes
    read: Callable[[bytes], object]
    go_on: Callable[[bytes, int], tuple[bytes, Outcome]] | None = None

    @staticmethod
    def live(data: bytes, go_on: Callable[[bytes, int | None], tuple[bytes, Outcome]]) -> State:
        """Return the state of a live query."""
        return State(data, lambda data: go_on(data, None), go_on)


def engine_of(work: Work, data: bytes, kind: str) -> bytes:
    """Return what the engine keeps of a bucket."""
    engine = read_bucket(work, data, kind, same_columns=False).engine
    assert engine is not None
    return engine


def of_trends() -> dict[str, State]:
    found = {}
    for name, text in (
        ("trends", "RETURN key, COUNT(*) PATTERN A+ GROUP-BY key WITHIN 4 s SLIDE 2 s"),
        ("matches", "RETURN MATCHES PATTERN SEQ(A, B) WHERE [key] WITHIN 3 s SLIDE 3 s"),
    ):
        compiled = cepheid.query(text)
        job = Job(TrendPlan.of(compiled.with_schema(EVENTS.schema).plan))
        state, _ = step(job, PartitionState(job), EVENTS)
        data = state_to_bytes(job, state)
        found[name] = State(data, lambda data, job=job: state_from_bytes(job, data))  # type: ignore[misc]  # mypy has no type for a default
        live = Live(compiled, EVENTS.schema, delay=1_000_000)
        live.feed(EVENTS)
        work = live.work
        found[f"{name}, live"] = State.live(
            live.data[0],
            lambda data, until, work=work: turn(live_job(work), work, data, [], until),  # type: ignore[misc]  # as above
        )
    return found


def of_panes() -> dict[str, State]:
    text = "RETURN COUNT(*) PATTERN SEQ(A+, B) WITHIN 4 s SLIDE 2 s"
    live = Live(cepheid.query(text), EVENTS.schema, delay=0, buckets=2)
    assert live.by_panes
    live.feed(EVENTS)
    job = job_of(live.work.plan)
    start = LivePanes.start(job, live_pane(job.plan), EVENTS.schema)
    data = max(live.data.values(), key=len)
    return {
        "panes": State(engine_of(live.work, data, LiveByPanes.of(live.work).kind), start.read),
        "panes, live": State.live(
            data,
            lambda data, until: turn(LiveByPanes.of(live.work), live.work, data, [], until),
        ),
    }


def of_split() -> dict[str, State]:
    """Keep a state of keys and one of panes; no key is noted as hot."""
    text = "RETURN key, COUNT(*), SUM(A.price) PATTERN A+ GROUP-BY key WITHIN 4 s SLIDE 2 s"
    live = Live(cepheid.query(text), EVENTS.schema, delay=0)
    live.feed(EVENTS)
    kind, needs = task_kind(live.plan), needs_of(live.plan)
    panes, _ = turn(kind.pane_job(live.work), live.work, None, [EVENTS], LATER)
    warm = {7: Warmth(1, 2.0, 3.0)}
    data = write_state(FORMAT, SplitState(live.data[0], panes, warm, LATER))
    by = Split("no-such-folder", ("key",), needs.pane, needs.within, 1)
    none = SplitArrived([], [], [])
    return {
        "split, live": State.live(
            data, lambda data, until: split_turn(live.work, by, data, none, until)
        )
    }


def of_shed() -> dict[str, State]:
    """Keep a state of a query, and a dropped event of an open window."""
    text = "RETURN key, COUNT(*), MIN(A.price) PATTERN A+ GROUP-BY key WITHIN 4 s SLIDE 2 s"
    live = Live(cepheid.query(text), EVENTS.schema, delay=0)
    folder = mkdtemp(prefix="shed-")
    by = Shed(folder, 1000, ("key",), ("key",), 4_000_000, 2_000_000, 2_000_000)
    dropped = by.dropped(EVENTS.slice(0, 1), np.array([LATER]))
    came = ShedArrived([EVENTS], [dropped], 0, 1, decides=False)
    data, _ = shed_turn(live.work, by, None, came, LATER)
    none = ShedArrived([], [], 0, 2, decides=False)
    return {
        "shed, live": State.live(
            data, lambda data, until: shed_turn(live.work, by, data, none, until)
        )
    }


def of_situations() -> dict[str, State]:
    text = "PARTITION BY k DEFINE A AS a, B AS b PATTERN A overlaps;before B WITHIN 5 s"
    plan = cepheid.query(text).with_schema(SITUATIONS).plan
    rows = [
        {"ts": 1_000_000 * n, "a": n % 3 == 0, "b": n % 2 == 0, "k": f"{n % 2}"}
        for n in range(1, 9)
    ]
    table = situations_of(rows)
    results = cepheid.query(text).run(table).schema
    work = Work.of(plan, table.schema, results, 1, delay=1_000_000)
    data, _ = turn(live_job(work), work, None, [table], 8_000_000)
    job = SituationJob(SituationPlan.of(plan))
    engine = engine_of(work, data, live_job(work).kind)
    return {
        "situations": State(engine, lambda data: situations_from_bytes(job, data)),
        "situations, live": State.live(
            data, lambda data, until: turn(live_job(work), work, data, [], until)
        ),
    }


def of_stretches() -> dict[str, State]:
    """Keep the stretches of panes: situations without partitions."""
    text = (
        "DEFINE A AS price > 1 AT LEAST 1 s, B AS price > 3 PATTERN A overlaps;contains B "
        "DETECTED WITHIN 5 s RETURN COUNT(A) AS n, LAST(B.key) AS last"
    )
    live = Live(cepheid.query(text), EVENTS.schema, delay=0, buckets=2)
    assert live.by_panes
    live.feed(EVENTS)
    data, kind = max(live.data.values(), key=len), task_kind(live.plan)
    job = kind.pane_job(live.work)
    return {
        "stretches": State(engine_of(live.work, data, job.kind), job.read),
        "stretches, live": State.live(
            data,
            lambda data, until: turn(kind.pane_job(live.work), live.work, data, [], until),
        ),
    }


def of_workloads() -> dict[str, State]:
    texts = {f"q{n}": text for n, text in enumerate(MORE)}
    queries = [cepheid.query(text).with_schema(EVENTS.schema) for text in texts.values()]
    plans = [TrendPlan.of(one.plan) for one in queries]
    job = WorkloadJob(share(list(texts), plans))
    state = WorkloadState(job)
    feed(job, state, EVENTS)
    bucket = RulesStream(EVENTS.schema, 1_000_000)
    bucket.turn(texts, EVENTS, LATER)
    assert bucket.data is not None
    work = rules_of(texts, EVENTS.schema, 1_000_000)
    engine = engine_of(work.work, bucket.data, LiveWorkload(work).kind)
    return {
        "workload": State(
            workload_to_bytes(job, state), lambda data: workload_from_bytes(job, data)
        ),
        "rules": State(engine, lambda data: rules_from_bytes(data, EVENTS.schema)),
        "rules, live": State.live(
            bucket.data,
            lambda data, until: turn(LiveWorkload(work), work.work, data, [], until),
        ),
    }


def of_selects() -> dict[str, State]:
    events = [
        {"ts": counted.LATER + 1_000 * n, "k": f"{n % 2}", "g": 1, "x": n, "y": 0.5 * n}
        for n in range(8)
    ]
    text = "SELECT k, SUM(x), MAX(y) FROM s GROUP BY k WINDOW 5 EVENTS SLIDE 2 EVENTS"
    plan = counted.plan_of(text)
    work = counted.work_of(plan, delay=2_000)
    last = counted.LATER + 7_000
    data, _ = turn(live_job(work), work, None, [rows_of(events)], last)
    job = CountedJob.of(SelectPlan.of(plan), work.schema)
    works = joined.works_of(joined.TEXT, delay=2_000)
    pair, _ = joined.turn(works, None, [events[:6], events[2:]])
    engine = engine_of(work, data, live_job(work).kind)
    return {
        "counted": State(engine, lambda data: counted_from_bytes(job, data)),
        "counted, live": State.live(
            data, lambda data, until: turn(live_job(work), work, data, [], until)
        ),
        "join, live": State.live(
            pair, lambda data, until: turn_joined(works, data, [[], []], [until, until])
        ),
    }


def of_windows() -> dict[str, State]:
    events = windows.events_at(counted.LATER + 300_000 * n for n in range(8))
    work = windows.work_of(counted.plan_of("SELECT k, SUM(x), MAX(y) FROM s GROUP BY k WINDOW 1 s"))
    last = counted.LATER + 2_100_000
    data, _ = turn(live_job(work), work, None, [rows_of(events)], last)
    return {
        "windows": State(engine_of(work, data, live_job(work).kind), live_job(work).read),
        "windows, live": State.live(
            data, lambda data, until: turn(live_job(work), work, data, [], until)
        ),
    }


def of_pipelines() -> dict[str, State]:
    text = (
        "CREATE STREAM Counts AS RETURN key, COUNT(*) AS n PATTERN A GROUP-BY key "
        "WITHIN 2 s SLIDE 2 s; "
        "RETURN key, COUNT(*) PATTERN Counts+ GROUP-BY key WITHIN 8 s SLIDE 8 s"
    )
    live = Live(cepheid.query(text), EVENTS.schema, delay=1_000_000)
    live.feed(EVENTS)
    work = live.work
    return {
        "pipeline": State(engine_of(work, live.data[0], live_job(work).kind), live_job(work).read),
        "pipeline, live": State.live(
            live.data[0], lambda data, until: turn(live_job(work), work, data, [], until)
        ),
    }


def of_row_patterns() -> dict[str, State]:
    work = row_pattern_of(FALLS)
    rows = pa.Table.from_pylist(ROWS).select(work.schema.names)
    data, _ = turn(live_job(work), work, None, [rows], 4)
    engine = engine_of(work, data, live_job(work).kind)
    return {
        "row pattern": State(engine, live_job(work).read),
        "row pattern, live": State.live(
            data, lambda data, until: turn(live_job(work), work, data, [], until)
        ),
    }


def of_funnels() -> dict[str, State]:
    text = "RETURN FUNNEL(key) PATTERN SEQ(A, B) WITHIN 4 s SLIDE 2 s"
    live = Live(cepheid.query(text), EVENTS.schema, delay=1_000_000)
    live.feed(EVENTS)
    work = live.work
    engine = engine_of(work, live.data[0], live_job(work).kind)
    return {
        "funnel": State(engine, live_job(work).read),
        "funnel, live": State.live(
            live.data[0], lambda data, until: turn(live_job(work), work, data, [], until)
        ),
    }


def of_corrections() -> dict[str, State]:
    """Correct rows: two have left, one of them twice, and one waits."""
    live = CorrectedLive(cepheid.query(CORRECTED[0]))
    live.take([(1, "A", 0, 1), (2, "B", 0, 2), (3, "A", 1, 3), (9, "A", 0, 4)])
    live.take([(3, "B", 0, 5), (8, "A", 1, 1), (10, "B", 0, 3)])
    assert live.data is not None
    work = live.work
    job = work.kind.live_job(work)
    return {
        "corrections": State(engine_of(work, live.data, job.kind), job.read),
        "corrections, live": State.live(
            live.data,
            lambda data, until: turn(work.kind.live_job(work), work, data, [], until),
        ),
    }


KINDS = (
    "row pattern", "row pattern, live",
    "trends", "trends, live", "matches", "matches, live", "panes", "panes, live",
    "split, live", "shed, live",
    "situations", "situations, live", "stretches", "stretches, live",
    "workload", "rules", "rules, live",
    "counted", "counted, live", "join, live", "funnel", "funnel, live",
    "corrections", "corrections, live", "windows", "windows, live", "pipeline", "pipeline, live",
)  # fmt: skip


@cache
def states() -> dict[str, State]:
    """Return a state of every kind; made once, and only where it is looked at."""
    found = of_trends() | of_panes() | of_split() | of_situations() | of_workloads() | of_selects()
    found |= (
        of_shed()
        | of_row_patterns()
        | of_funnels()
        | of_corrections()
        | of_windows()
        | of_pipelines()
    )
    found |= of_stretches()
    assert set(found) == set(KINDS)
    return found


def refused(read: Callable[[Any], object], data: Any) -> str:
    """Return the code with which bytes are refused."""
    with pytest.raises(cepheid.CepheidError) as caught:
        read(data)
    return caught.value.diagnostics[0].code


def flipped(data: bytes, bit: int) -> bytes:
    """Return bytes with one bit changed."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def bits(data: bytes, count: int, seed: str) -> list[int]:
    """Return places in some bytes, half of them in the first and the last hundred bytes."""
    draw = random.Random(seed)  # no secret
    size = 8 * len(data)
    near = min(800, size)
    ends = [draw.randrange(near) for _ in range(count // 4)]
    ends += [size - 1 - draw.randrange(near) for _ in range(count // 4)]
    return ends + [draw.randrange(size) for _ in range(count - len(ends))]


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_bit_of_a_state_is_an_error(kind: str, pytestconfig: pytest.Config) -> None:
    data, read, _ = states()[kind]
    read(data)
    for bit in bits(data, pytestconfig.getoption("--flips"), kind):
        assert refused(read, flipped(data, bit)) in {"E524", "E546"}, bit


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_is_cut_off_is_an_error(kind: str) -> None:
    data, read, _ = states()[kind]
    for size in {0, 1, 7, 8, 63, 64, 65, 127, 128, len(data) // 2, len(data) - 1}:
        assert refused(read, data[:size]) in {"E524", "E546"}
    assert refused(read, data + b"\0") == "E546"


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_of_another_kind_is_an_error(kind: str) -> None:
    read = states()[kind].read
    for other, state in states().items():
        if other != kind:
            assert refused(read, state.data) == "E524", other


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_of_another_version_is_an_error(kind: str) -> None:
    data, read, _ = states()[kind]
    _, name, version, *_ = data[:100].split()
    body = unframe(data, name.decode(), int(version))
    assert refused(read, frame(name.decode(), int(version) + 1, body)) == "E524"
    assert refused(read, bytes(body)) == "E524"


def rows_of_store(folder: Path) -> tuple[list[Any], ...]:
    """Read all of a small store: its events, its blocks and its indexes."""
    store = cepheid.EventStore(folder)
    text = "RETURN COUNT(*) PATTERN SEQ(A X, B Y) WHERE {} WITHIN 4 us SLIDE 2 us"
    wheres = ("X.n = 3 AND Y.n >= 5", "X.name = 'e3'", "X.n > 2")
    found = [
        cepheid.query(text.format(where)).run(store, strategy="index").to_pylist()
        for where in wheres
    ]
    found.append(store.aggregate(["COUNT(*)", "SUM(n)", "MAX(price)"], within=8).to_pylist())
    found.append(store.scan().read_all().to_pylist())
    return tuple(found)


FILES = (
    "newest",
    "manifest-*",
    "segments/*",
    "index/*.blocks",
    "index/*.n.index",
    "index/*.name.index",
)


@pytest.fixture(scope="module")
def store_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of two segments that each have all kinds of files."""
    folder = tmp_path_factory.mktemp("store") / "sound"
    store = cepheid.EventStore(folder)
    for begin in (0, 40):
        n = list(range(begin, begin + 40))
        columns: dict[str, Any] = {"ts": n, "type": ["A", "B"] * 20, "n": [i % 7 for i in n]}
        columns |= {"name": [f"e{i % 9}" for i in n], "price": [0.5 * i for i in n]}
        store.append(pa.table(columns))
    store.index("n")
    store.index("name")
    for path in sorted(folder.glob("manifest-*"))[:-1]:
        path.unlink()
    return folder


@pytest.mark.parametrize("kind", FILES)
def test_a_changed_bit_of_a_store_is_no_wrong_answer(
    kind: str, store_folder: Path, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    sound = rows_of_store(store_folder)
    folder = tmp_path / "store"
    shutil.copytree(store_folder, folder)
    path = sorted(folder.glob(kind))[-1]
    data = path.read_bytes()
    for bit in bits(data, pytestconfig.getoption("--flips"), kind):
        path.write_bytes(flipped(data, bit))
        code = ""
        try:
            assert rows_of_store(folder) == sound, bit
        except cepheid.CepheidError as error:
            code = error.diagnostics[0].code
        assert code in {"", "E542", "E544"}, bit
        if kind not in ("newest", "manifest-*"):
            assert not cepheid.EventStore(folder).verify().sound, bit


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_cut_off_or_another_one_is_no_wrong_answer(
    kind: str, store_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    shutil.copytree(store_folder, folder)
    paths = {name: sorted(folder.glob(name)) for name in FILES}
    path = paths[kind][-1]
    data = path.read_bytes()
    others = [other.read_bytes() for found in paths.values() for other in found if other != path]
    for content in (b"", data[:1], data[:70], data[: len(data) // 2], data[:-1], *others):
        path.write_bytes(content)
        assert refused(rows_of_store, folder) in {"E542", "E544"}
    path.write_bytes(data)
    rows_of_store(folder)
    path.unlink()
    assert refused(rows_of_store, folder) in {"E542", "E548"}
