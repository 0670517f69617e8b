"""The rules log is compacted: what no micro-batch can read again goes, and no rule with it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cepheid.errors import DataError
from cepheid.kinds.workload.rule_records import Put, Timing
from cepheid.runtimes import rules_log
from cepheid.runtimes.rules_log import FOLDER, Placed, RulesLog

KEYS = (("user",), ())


def put(name: str, plan: str = "{}", owner: str = "") -> Put:
    return Put(name, name, None, 0, owner, (), "", None, None, Timing(), (), plan)


@pytest.fixture(autouse=True)
def _rules_without_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare rules by their owners: plans do not matter here."""
    monkeypatch.setattr(Put, "meaning", property(lambda self: self.plan))


def wanted(*names: str, place: int = 0, owner: str = "") -> dict[str, Placed]:
    return {name: Placed(place, put(name, owner=owner)) for name in names}


class Checkpoint:
    """A checkpoint as Spark writes it: micro-batches read what is in the log."""

    def __init__(self, folder: Path, kept: int) -> None:
        self.folder, self.kept, self.batch, self.offset = folder, kept, -1, -1
        self.seen: set[str] = set()
        for name in ("offsets", "commits", "sources/0", "sources/1"):
            (folder / name).mkdir(parents=True)

    def run(self, *, commit: bool = True) -> None:
        """Run a micro-batch, and drop the oldest offsets."""
        names = {path.name for path in (self.folder / FOLDER).glob("*.log")} - self.seen
        self.batch += 1
        if names:
            self.offset += 1
            entries = [
                json.dumps(
                    {"path": f"file:///a/{FOLDER}/{n}", "timestamp": 1, "batchId": self.offset},
                    separators=(",", ":"),
                )
                for n in sorted(names)
            ]
            log = self.folder / "sources/1" / str(self.offset)
            log.write_text("\n".join(["v1", *entries]))
            self.seen |= names
        other = json.dumps({"logOffset": self.batch})
        mine = json.dumps({"logOffset": self.offset}) if self.offset >= 0 else "-"
        (self.folder / f"offsets/{self.batch}").write_text(f"v1\n{{}}\n{other}\n{mine}")
        if commit:
            (self.folder / f"commits/{self.batch}").touch()
        for name in ("offsets", "commits"):
            (self.folder / f"{name}/{self.batch - self.kept}").unlink(missing_ok=True)


def files(checkpoint: Checkpoint) -> list[int]:
    return [int(path.stem) for path in sorted((checkpoint.folder / FOLDER).glob("*.log"))]


def told(log: RulesLog) -> dict[str, tuple[int, int]]:
    return {name: (one.place, one.put.version) for name, one in log.rules.items()}


def test_files_behind_the_oldest_offset_go_and_the_rules_stay(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, kept=2)
    log = RulesLog(tmp_path)
    log.begin(KEYS)
    for n in range(6):
        log.change(wanted("a", f"r{n}", owner=str(n // 2)))
        checkpoint.run()
    before = told(log)
    assert before == {"a": (0, 3), "r5": (0, 1)}
    assert len(files(checkpoint)) == 6
    log.compact()
    # Micro-batches 4 and 5 are kept, and the one after 4 may be repeated.
    assert len(files(checkpoint)) == 1
    again = RulesLog(tmp_path)
    assert told(again) == told(log) == before
    assert again.keys == KEYS
    # Numbers and versions go on, also of rules that are gone.
    last = max(files(checkpoint))
    again.change(wanted("a", "r0", owner="9"))
    assert told(again) == {"a": (0, 4), "r0": (0, 2)}
    assert max(files(checkpoint)) > last
    assert told(RulesLog(tmp_path)) == told(again)


def test_a_file_that_a_micro_batch_may_read_stays(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, kept=10)
    log = RulesLog(tmp_path)
    log.begin(KEYS)
    log.change(wanted("a"))
    log.compact()
    assert len(files(checkpoint)) == 1  # Nothing has read it.
    checkpoint.run(commit=False)
    log.compact()
    assert len(files(checkpoint)) == 1  # Its micro-batch will be repeated.
    (tmp_path / "commits/0").touch()
    log.change(wanted("b"))
    log.compact()
    assert len(files(checkpoint)) == 1
    assert told(RulesLog(tmp_path)) == {"b": (0, 1)}


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "offsets/0").write_text("v9\n{}\n{}\n{}"),
        lambda folder: (folder / "offsets/0").write_text("v1\n{}\n-\n{}"),
        lambda folder: (folder / "sources/1/0").write_text("v9\n"),
        lambda folder: (folder / "sources/1/0").unlink(),
    ],
)
def test_what_spark_writes_in_another_way_is_left_alone(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    checkpoint = Checkpoint(tmp_path, kept=10)
    log = RulesLog(tmp_path)
    log.begin(KEYS)
    log.change(wanted("a"))
    checkpoint.run()
    damage(tmp_path)
    log.compact()
    assert len(files(checkpoint)) == 1


def test_the_log_is_compacted_while_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules_log, "FILES_MAX", 10)
    monkeypatch.setattr(rules_log, "GONE_MAX", 20)
    checkpoint = Checkpoint(tmp_path, kept=3)
    log = RulesLog(tmp_path)
    log.begin(KEYS)
    most = 0
    for n in range(100):
        log.change(wanted("stays", f"r{n}"))
        checkpoint.run()
        most = max(most, len(files(checkpoint)))
    assert most <= 14
    assert told(RulesLog(tmp_path)) == {"stays": (0, 1), "r99": (0, 1)}
    assert (tmp_path / FOLDER / "_compacted").stat().st_size < 3000


class KilledError(BaseException):
    """The process ends here."""


Step = tuple[str, int]


@settings(max_examples=min(settings().max_examples, 60), deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("change"), st.integers(0, 30)),
            st.tuples(st.just("run"), st.just(0)),
            st.tuples(st.just("kill"), st.integers(0, 8)),
        ),
        min_size=5,
        max_size=40,
    )
)
def test_a_kill_at_any_moment_loses_no_rule(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    """Changes, micro-batches and compactions that are cut off, against a dict of rules."""
    folder = tmp_path_factory.mktemp("log")
    checkpoint = Checkpoint(folder, kept=2)
    log = RulesLog(folder)
    log.begin(KEYS)
    rules: dict[str, tuple[int, int]] = {}
    versions: dict[str, int] = {}
    for what, number in steps:
        if what == "change":
            names = {f"r{bit}" for bit in range(5) if number >> bit & 1}
            log.change(wanted(*sorted(names)))
            for name in names - set(rules):
                versions[name] = versions.get(name, 0) + 1
            rules = {name: (0, versions[name]) for name in names}
        elif what == "run":
            checkpoint.run()
        else:
            with cut_off(number):
                log.compact()
            log = RulesLog(folder)
        assert told(log) == rules
    assert told(RulesLog(folder)) == rules


class cut_off:  # noqa: N801  # a context manager reads as a verb
    """End the process, as it were, at the n-th call that changes the disk."""

    def __init__(self, number: int) -> None:
        self._patch, self._left = pytest.MonkeyPatch(), number

    def __enter__(self) -> None:
        for owner, name in ((Path, "replace"), (Path, "unlink"), (os, "fsync")):
            self._patch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*words: Any, **named: Any) -> Any:
            if not self._left:
                raise KilledError
            self._left -= 1
            return call(*words, **named)

        return counted

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        self._patch.undo()
        return isinstance(error, KilledError)


def test_a_damaged_file_of_compacted_rules_is_refused(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, kept=1)
    log = RulesLog(tmp_path)
    log.begin(KEYS)
    for name in "ab":
        log.change(wanted(name))
        checkpoint.run()
    log.compact()
    file = tmp_path / FOLDER / "_compacted"
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(DataError) as caught:
        RulesLog(tmp_path)
    assert caught.value.diagnostics[0].code == "E546"


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_spark_goes_on_when_the_log_is_compacted(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's own logs name the files, and it neither misses those that are gone nor reads again.

    A query of two sources, as rules have: every micro-batch lists the lines that it read.
    """
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    state, events, rows = tmp_path / "state", tmp_path / "events", tmp_path / "rows"
    events.mkdir()
    log = RulesLog(state)
    log.begin(KEYS)
    removed = 0
    try:
        for n in range(8):
            log.change(wanted(f"r{n}"))
            (events / f"{n}.txt").write_text(f"event {n}\n")
            given = [spark.readStream.text(str(path)) for path in (events, log.folder)]
            query = (
                given[0]
                .union(given[1])
                .writeStream.format("json")
                .option("checkpointLocation", str(state))
                .trigger(availableNow=True)
                .start(str(rows))
            )
            query.awaitTermination()
            before = len(list(log.folder.glob("*.log")))
            log = RulesLog(state)
            removed += before - len(list(log.folder.glob("*.log")))
            assert list(log.rules) == [f"r{n}"]
    finally:
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")
    assert removed >= 4
    lines = [row["value"] for row in spark.read.json(str(rows)).collect()]
    assert sorted(line for line in lines if line.startswith("event")) == [
        f"event {n}" for n in range(8)
    ]
    numbers = sorted(int(line.split(" ")[1]) for line in lines if not line.startswith("event"))
    assert numbers == list(range(1, 16))
