"""A live query gets more memory where one event needs it, and its rows more room on a disk."""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pandas as pd
import pyarrow as pa
import pytest

import cepheid
from cepheid import memory_limits
from cepheid.errors import DataError
from cepheid.jobs import room, spill
from cepheid.jobs.room import check_value, free_memory, roomy, telling
from cepheid.jobs.tables import table_from_bytes, table_to_bytes
from cepheid.jobs.work import Work
from cepheid.memory_limits import Limits
from cepheid.runtimes.spark.stream import telling_turns
from cepheid.runtimes.spark.stream_tasks import take_turns
from cepheid.spark.schema import result_schema_of

SITUATIONS = "DEFINE A AS a, B AS b PATTERN A before B WITHIN 60 s RETURN COUNT(A) AS n"
LONG = "SELECT ts, REPLACE(REPLACE(s, 'a', 'aaaaaaaaaa'), 'a', 'bbbbbbbbbb') AS long FROM events"
MANY_MATCHES = "RETURN COUNT(*) PATTERN A+ WHERE SUM(A.x) > 99 WITHIN 6 seconds SLIDE 6 seconds"
PANES = "RETURN x, COUNT(*) PATTERN A+ GROUP-BY x WITHIN 60 seconds SLIDE 1 second"
DISTINCT = "SELECT COUNT(DISTINCT x) AS n FROM events WINDOW 1 minute"
SECOND = 1_000_000


@pytest.fixture(autouse=True)
def nothing_has_grown() -> Iterator[None]:
    with mock.patch.dict(room._given, clear=True):
        yield


def usual(**limits: int) -> Any:
    """Make other limits the usual ones, which nobody has set."""
    return mock.patch.object(memory_limits, "_USUAL", Limits(**limits))


def events() -> pa.Table:
    n = range(200)
    return pa.table(
        {
            "ts": pa.array([i * SECOND // 2 for i in n], pa.timestamp("us")),
            "a": [i % 3 == 0 for i in n],
            "b": [i % 3 == 1 for i in n],
            "s": ["a" * (i % 7) for i in n],
            "type": ["A"] * len(n),
            "x": [i % 50 for i in n],
        }
    )


def fed(text: str) -> list[dict[str, Any]]:
    """Run a live query in process, in batches."""
    table = events()
    live = cepheid.query(text).live(table.schema)
    rows: list[dict[str, Any]] = []
    for begin in range(0, len(table), 30):
        rows += live.feed(table.slice(begin, 30)).to_pylist()
    rows += live.close().to_pylist()
    return rows


@pytest.mark.parametrize(
    ("text", "limits", "code"),
    [
        (SITUATIONS, {"situations": 10}, "E515"),
        (SITUATIONS, {"state": 64}, "E519"),
        (LONG, {"state": 200}, "E519"),
        (DISTINCT, {"state": 400}, "E519"),
        (MANY_MATCHES, {"rows": 1_000}, "E512"),
        (MANY_MATCHES, {"state": 1_000}, "E512"),
        (PANES, {"state": 1_000}, "E511"),
    ],
)
def test_a_live_query_gets_more_than_the_usual_limit(
    text: str, limits: dict[str, int], code: str
) -> None:
    expected = fed(text)
    assert expected
    told: list[str] = []
    with usual(**limits), telling(told.extend):
        found = fed(text)
    assert found == expected
    assert told
    assert all(one.startswith("a turn needs more than ") for one in told)
    # A limit that somebody set is kept.
    with cepheid.limits(**limits), pytest.raises(DataError, match=code):
        fed(text)
    # The memory of the machine is the end of it.
    room._given.clear()
    with (
        usual(**limits),
        mock.patch.object(room, "free_memory", return_value=0),
        pytest.raises(DataError, match=rf"(?s){code}.*1/\d+ of the free memory, 0 MiB"),
    ):
        fed(text)


def test_what_is_kept_needs_no_second_try() -> None:
    """A state that has grown is there in every later turn; a single step is not."""
    told: list[str] = []
    with usual(situations=10), telling(told.extend):
        fed(SITUATIONS)
        first = len(told)
        fed(SITUATIONS)
    assert first > 0
    assert len(told) == first
    with usual(state=64), telling(told.extend):
        fed(SITUATIONS)
    assert room._given.keys() == {"situations"}


def test_a_limit_grows_by_four_up_to_a_share_of_the_memory() -> None:
    tries: list[int] = []

    def turn(wanted: int) -> int:
        tries.append(memory_limits.current().state)
        if tries[-1] < wanted:
            memory_limits.too_much_state("pairs", tries[-1])
        return wanted

    free = room.share() * 3_000
    with usual(state=100), mock.patch.object(room, "free_memory", return_value=free):
        assert roomy(turn)(1_000) == 1_000
        assert tries == [100, 400, 1_600]
        tries.clear()
        with pytest.raises(DataError, match=r"E519"):
            roomy(turn)(5_000)
        assert tries == [100, 400, 1_600, 3_000]
    with pytest.raises(DataError, match="E509"):
        roomy(mock.Mock(side_effect=DataError([cepheid.errors.Diagnostic("E509", "x")])))()


class Kept:
    """The state of a bucket in Spark's store."""

    def __init__(self) -> None:
        self.get: Any = None

    @property
    def exists(self) -> bool:
        return self.get is not None

    def getCurrentWatermarkMs(self) -> int:  # noqa: N802  # the name is Spark's
        return 0

    def update(self, values: Any) -> None:
        self.get = values


def turned(told: list[str]) -> tuple[pa.Table, int]:
    """Run the operator of Spark over all events; return rows, and the bytes of the state."""
    table = events()
    plan = cepheid.query(SITUATIONS).with_schema(table.schema).plan
    work = Work.of(plan, table.schema, result_schema_of(plan, table.schema), 1)
    latest = len(table) * SECOND
    sent = {"seq": 0, "told": latest, "payload": table_to_bytes(table), "seen": 200, "wrong": None}
    state: Any = Kept()
    frames = telling_turns(take_turns(work), told.extend)((0,), [pd.DataFrame([sent])], state)
    found = [table_from_bytes(row) for one in frames for row in one["payload"] if row is not None]
    return pa.concat_tables(found), len(state.get[0])


def test_a_turn_of_spark_gets_more_than_the_usual_limit() -> None:
    expected = turned([])
    told: list[str] = []
    with usual(situations=10):
        assert turned(told) == expected
    assert told[0].startswith("a turn needs more than 10 situations that are kept: it may have 40 ")
    with (
        mock.patch.object(room, "VALUE_MAX", 10),
        pytest.raises(DataError, match=r"E515.*2 GiB as one value"),
    ):
        turned([])


def test_the_state_of_a_bucket_is_one_value_of_spark() -> None:
    check_value(1 << 30)
    with pytest.raises(DataError, match=r"E515.*2,147,483,647 bytes"):
        check_value((1 << 31) - 1)


def test_free_memory_is_that_of_the_container(tmp_path: Any, monkeypatch: Any) -> None:
    meminfo, most, used = (tmp_path / name for name in ("meminfo", "memory.max", "memory.current"))
    meminfo.write_text("MemTotal:  900 kB\nMemAvailable:  500 kB\n")
    limits, status = tmp_path / "limits", tmp_path / "status"
    places = {"/proc/meminfo": meminfo, "/proc/self/limits": limits, "/proc/self/status": status}
    places |= {f"/sys/fs/cgroup/{path.name}": path for path in (most, used)}
    monkeypatch.setattr(room, "Path", lambda name: places[name])
    assert free_memory() == 500 * 1024
    most.write_text("max\n")
    used.write_text("1000\n")
    assert free_memory() == 500 * 1024
    most.write_text("3000\n")
    assert free_memory() == 2_000
    limits.write_text("Max stack size   8000  8000  bytes\nMax address space  2500 9999 bytes\n")
    status.write_text("VmPeak:  9 kB\nVmSize:  1 kB\n")
    assert free_memory() == 2_500 - 1_024
    limits.write_text("Max address space  unlimited unlimited bytes\n")
    assert free_memory() == 2_000
    meminfo.unlink()
    assert free_memory() == 0, "as on other systems"


Usage = namedtuple("Usage", ["total", "used", "free"])


def test_rows_go_to_the_folder_of_spark_with_the_most_room(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("small", "large"):
        (tmp_path / name).mkdir()
    free = {str(tmp_path / "small"): 3 << 30, str(tmp_path / "large"): 5 << 30}
    monkeypatch.setattr(shutil, "disk_usage", lambda name: Usage(0, 0, free[name]))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", ",".join([*free, str(tmp_path / "missing")]))
    assert spill._roomy_folder(1 << 30) == str(tmp_path / "large")
    assert spill._roomy_folder(4 << 30) == str(tmp_path / "large")
    with pytest.raises(DataError, match=r"(?s)E513.*5\.0 GiB are free in.*spark\.local\.dir"):
        spill._roomy_folder((4 << 30) + 1)
