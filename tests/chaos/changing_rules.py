"""Rules come and go every second while events flow, and what runs them is killed.

In the end every rule must have written the rows of a batch run, each once: over all events if it
was always there, else over those from the watermark on at which it came, as far as the watermark
had come when it went. Spark's own logs tell which records and events each micro-batch had.

``python -m tests.chaos.changing_rules --seconds 600 --kills 20`` goes on for ten minutes.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from tests.chaos.driver import DONE
from tests.chaos.processes import Driver
from tests.chaos.routes import committed_rows
from tests.chaos.rules_driver import LAST, REMOVED

import cepheid
from cepheid.kinds.workload.json_rows import json_rows
from cepheid.kinds.workload.rule_records import Drop, from_line
from cepheid.runtimes.rules_log import FOLDER

SECOND = 1_000_000
DELAY = 1 * SECOND
STEP = 3 * SECOND
"""The time that the events of a file cover."""
EVENTS = 60


class Text(NamedTuple):
    """A query, and the column that tells when its rows are certain."""

    query: str
    time: str = "window_end"

    def is_certain(self, row: dict[str, Any], until: int) -> bool:
        """Check whether a watermark has made a row final."""
        at = row[self.time]
        if at is None:
            return False
        micros = int(at.timestamp() * SECOND)
        return micros <= until if self.time == "window_end" else micros < until


STAY = {
    "pairs": Text("RETURN key, COUNT(*) PATTERN SEQ(A, B) GROUP-BY key WITHIN 6 s SLIDE 3 s"),
    "whole": Text("RETURN COUNT(*) PATTERN SEQ(A+, NOT C, B) WITHIN 2 s SLIDE 2 s"),
    "high": Text("SELECT ts, key, x FROM s WHERE x > 90", "ts"),
}
COME = (
    Text("RETURN key, COUNT(*), SUM(B.x) AS n{n} PATTERN SEQ(A, B) GROUP-BY key "
         "WITHIN 4 s SLIDE 2 s"),
    Text("RETURN key, COUNT(*) AS n{n} PATTERN SEQ(A, NOT C, B+) GROUP-BY key "
         "WITHIN 4 s SLIDE 4 s"),
    Text("RETURN zone, COUNT(*) AS n{n} PATTERN A+ WHERE A.x < NEXT(A).x GROUP-BY zone "
         "WITHIN 2 s SLIDE 2 s"),
    Text("SELECT key, SUM(x) AS n{n} FROM s GROUP BY key WINDOW 2 seconds"),
    Text("SELECT ts, key, x AS n{n} FROM s WHERE x > 80", "ts"),
    Text("DEFINE HIGH AS x > 50 SITUATIONS HIGH PARTITION BY key RETURN COUNT(HIGH) AS n{n}", "te"),
)  # fmt: skip


class Batch(NamedTuple):
    """A micro-batch: the watermark before it, and the records of rules in it."""

    before: int | None
    records: list[Any]


class Result(NamedTuple):
    """What happened, and what is wrong."""

    kills: int
    batches: int
    came: int
    rows: int
    compacted: int
    """Files of the rules log that were removed."""
    wrong: list[str]


class Round:
    """Events and rules that change until the last driver has read all of them."""

    def __init__(self, folder: Path, seed: int, seconds: float, kills: int) -> None:
        self.folder, self.chance, self.kills = folder, random.Random(seed), kills
        self.seconds, self.number = seconds, 0
        self.texts = dict(STAY)
        for name in ("events", "rules"):
            (folder / name).mkdir(parents=True)
        for name, text in STAY.items():
            (folder / "rules" / f"{name}.cq").write_text(text.query)

    def run(self) -> Result:
        """Change rules and kill, then let a driver run to the end, and check."""
        self._tick()
        driver, killed = self._started(), 0
        try:
            for life in range(self.kills):
                driver = driver if life == 0 else self._started()
                self._live(driver, self.seconds / self.kills)
                driver.kill_all()
                killed += 1
            self._write_events(last=True)
            (self.folder / LAST).touch()
            driver = self._started()
            driver.process.wait(600)
        finally:
            driver.kill_all()
        if not (self.folder / DONE).exists():
            said = (self.folder / "log").read_text(errors="replace")[-2000:]
            return Result(killed, 0, 0, 0, 0, [f"the last driver failed: {said}"])
        return self._checked(killed)

    def _started(self) -> Driver:
        # What rules mean does not depend on the tier, and a worker that compiles takes long.
        driver = Driver(self.folder, "tests.chaos.rules_driver", CEPHEID_KERNELS="interpret")
        driver.begin()
        return driver

    def _live(self, driver: Driver, seconds: float) -> None:
        """Let a driver complete some micro-batches at least, and go on for a while."""
        begun, commits = time.monotonic(), self._commits()
        wanted = commits + self.chance.randint(3, 6)
        while driver.running:
            self._tick()
            time.sleep(0.5 + self.chance.random())
            if time.monotonic() - begun > seconds and self._commits() >= wanted:
                break
            assert time.monotonic() - begun < seconds + 300, "a driver hangs"

    def _commits(self) -> int:
        return sum(path.name.isdigit() for path in (self.folder / "state/commits").glob("*"))

    def _tick(self) -> None:
        """Write more events; let a rule come and another go, and some be bad."""
        self.number += 1
        self._write_events()
        rules = self.folder / "rules"
        name = f"r{self.number}"
        text = self.chance.choice(COME)
        self.texts[name] = text._replace(query=text.query.replace("{n}", str(self.number)))
        waiting = rules / f".{name}"
        waiting.write_text(self.texts[name].query)
        waiting.replace(rules / f"{name}.cq")
        for file in rules.glob("r*.cq"):
            if int(file.stem[1:]) < self.number - 1:
                file.unlink()
        bad = rules / "bad.cq"
        if self.number % 5 == 0:
            bad.write_text(self.chance.choice(("RETURN", "SELECT none FROM s WHERE none > 1")))
        else:
            bad.unlink(missing_ok=True)

    def _write_events(self, *, last: bool = False) -> None:
        random_ = np.random.default_rng(self.number)
        count = 1 if last else EVENTS
        start = (self.number + (1000 if last else 0)) * STEP
        times = np.sort(random_.integers(start, start + STEP, count))
        # Out of order, by less than the watermark waits.
        times = times[np.argsort(times + random_.integers(0, DELAY // 2, count))]
        columns: dict[str, Any] = {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "type": random_.choice(["A", "B", "C"], count),
            "key": random_.choice(["k1", "k2", "k3"], count),
            "zone": random_.choice(["z1", "z2"], count),
            "x": random_.integers(0, 100, count).astype(np.float64),
        }  # fmt: skip
        table = pa.table(columns)
        waiting = self.folder / "events" / ".waiting"
        parquet.write_table(table, waiting)
        waiting.replace(self.folder / "events" / f"{self.number + last:06}.parquet")

    def _checked(self, killed: int) -> Result:
        batches = list(self._batches())
        times = self._events["ts"].cast(pa.int64()).to_numpy()
        final = int(times.max()) // 1000 * 1000 - DELAY
        found: dict[str, Counter[str]] = {}
        for row in committed_rows(self.folder / "rows"):
            found.setdefault(row["rule"], Counter())[_canonical(row["values"])] += 1
        wrong, expected = [], {name: Counter[str]() for name in found}
        for name, since, until in self._lives(batches, final):
            kept = self._events
            if since is not None:
                kept = kept.filter(pa.array(times >= since))
            expected.setdefault(name, Counter()).update(self._rows(name, kept, until))
        for name, rows in expected.items():
            mine = found.get(name, Counter())
            if mine != rows:
                more, less = mine - rows, rows - mine
                text = f"{name}: {more.total()} too many, {less.total()} missing"
                wrong.append(f"{text}: {self.texts[name].query}: {list(more or less)[:2]}")
        rows_count = sum(one.total() for one in found.values())
        compacted = len(list((self.folder / REMOVED).iterdir()))
        came = len(expected) - len(STAY)
        return Result(killed, len(batches), came, rows_count, compacted, wrong)

    def _rows(self, name: str, events: pa.Table, until: int) -> Counter[str]:
        text = self.texts[name]
        rows = cepheid.query(text.query).run(events.sort_by("ts"))
        certain = [text.is_certain(row, until) for row in rows.to_pylist()]
        kept = json_rows(rows.filter(pa.array(certain, pa.bool_())))
        return Counter(_canonical(str(row)) for row in kept.to_pylist())

    def _lives(self, batches: list[Batch], final: int) -> Iterator[tuple[str, int | None, int]]:
        """Yield from which watermark to which each rule was there."""
        since: dict[str, int | None] = {}
        for batch in batches:
            for record in batch.records:
                if isinstance(record, Drop):
                    begun = since.pop(record.name)
                    if batch.before is not None:
                        yield record.name, begun, batch.before
                else:
                    since[record.name] = batch.before
        for name, begun in since.items():
            yield name, begun, final

    def _log_file(self, name: str) -> Path:
        """Find a file of the rules log, which may have been compacted."""
        removed = self.folder / REMOVED / name
        return removed if removed.exists() else self.folder / "state" / FOLDER / name

    def _batches(self) -> Iterator[Batch]:
        """Read Spark's logs: which files belong to which micro-batch."""
        state = self.folder / "state"
        files = [_source_files(state / "sources" / str(n)) for n in (0, 1)]
        tables: list[pa.Table] = []
        before: int | None = None
        taken = [-1, -1]
        numbers = sorted(int(p.name) for p in (state / "offsets").glob("*") if p.name.isdigit())
        for number in numbers:
            lines = (state / "offsets" / str(number)).read_text().splitlines()[2:]
            came: list[list[str]] = []
            for place, line in enumerate(lines):
                offset = -1 if line == "-" else int(json.loads(line)["logOffset"])
                came.append([path for path, n in files[place] if taken[place] < n <= offset])
                taken[place] = max(offset, taken[place])
            records = [
                from_line(line)
                for path in sorted(came[1])
                for line in self._log_file(Path(path).name).read_bytes().splitlines()
            ]
            yield Batch(before, [one.record for one in sorted(records, key=lambda r: r.number)])
            new = [parquet.read_table(self.folder / "events" / Path(p).name) for p in came[0]]
            tables += new
            for table in new:
                latest = int(table["ts"].cast(pa.int64()).to_numpy().max())
                until = latest // 1000 * 1000 - DELAY
                before = until if before is None else max(before, until)
        self._events = pa.concat_tables(tables)


def _canonical(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


def _source_files(log: Path) -> list[tuple[str, int]]:
    """List the files of a source, with their number in its log."""
    found: dict[str, int] = {}
    for path in log.iterdir():
        if path.name.startswith("."):
            continue
        for line in path.read_text().splitlines()[1:]:
            entry = json.loads(line)
            found[entry["path"]] = entry["batchId"]
    return sorted(found.items())


def main() -> None:
    """Run one long round, and tell what happened."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        result = Round(Path(place) / "round", asked.seed, asked.seconds, asked.kills).run()
    sys.stdout.write(f"{result}\n")
    raise SystemExit(bool(result.wrong))


if __name__ == "__main__":
    main()
