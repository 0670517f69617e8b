"""A round of chaos: live queries run while their drivers, JVMs and workers are killed.

A driver runs several queries. Its workers are killed every moment; after a few micro-batches it is
killed itself, and the next one goes on. Once in a round something else happens: the broker or
PostgreSQL restarts, or the disk is full for a moment. The last driver runs to the end. Then every
record has to be accounted for: each query has written the rows of the good records that are not
late, each row once, and its late and bad records, each once.
"""

from __future__ import annotations

import json
import math
import random
import re
import time
from collections import Counter
from collections.abc import Sequence

import msgspec
from tests.chaos.driver import DONE, ROUND
from tests.chaos.kinds import KINDS, canonical, expected_rows
from tests.chaos.processes import Driver
from tests.chaos.records import LATE, draw_records
from tests.chaos.routes import Route

FAULTS = ("broker", "PostgreSQL", "full disk")
FULL_S = 1.5
FORGIVEN_S = 150.0
"""So long after a fault a driver may give up; the next one goes on."""
SLOW = re.compile(
    r"Python worker failed to connect back|EOFException occurred while reading the port"
)
"""Spark gives a Python process ten seconds to start; a machine with much to do needs longer."""
LIFE_S = 900.0
"""A driver that gets no further for so long hangs."""


class Result(msgspec.Struct):
    """What a round did: how often what was killed, and what is wrong in the end."""

    seed: int
    route: str
    kinds: list[str]
    records: int
    drivers: int = 0
    workers: int = 0
    faults: list[str] = []
    given_up: int = 0
    late: int = 0
    bad: int = 0
    rows: int = 0
    seconds: float = 0.0
    wrong: list[str] = []


class Round:
    """A round that goes on; ``kills`` are those of drivers and of workers for each driver."""

    def __init__(
        self, seed: int, route: Route, kinds: Sequence[str], count: int, kills: tuple[int, int]
    ) -> None:
        self.chance, self.route, self.kinds = random.Random(seed), route, kinds
        self.folder, self.kills = route.folder, kills
        self.records = draw_records(seed, count)
        self.result = Result(seed, route.route, list(kinds), len(self.records))
        self._fault_at = -math.inf

    def run(self) -> Result:
        """Send the records, kill, let the last driver end, and check."""
        begun = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.route.fill(self.records)
        asked = self.route.asked(self.kinds)
        (self.folder / ROUND).write_bytes(msgspec.json.encode(asked))
        faulty = self.chance.randint(0, min(self.kills[0], 2))
        life, ready = 0, Driver(self.folder)
        try:
            while not (self.folder / DONE).exists() and not self.result.wrong:
                driver, mortal = ready, life < self.kills[0]
                self._live(driver, mortal=mortal, faulty=life == faulty)
                life += 1
                if not (self.folder / DONE).exists():
                    ready = Driver(self.folder)
        finally:
            ready.kill("both")
        if not self.result.wrong:
            for kind in self.kinds:
                self.result.wrong += self._differences(kind)
        self.result.seconds = time.monotonic() - begun
        return self.result

    def _live(self, driver: Driver, *, mortal: bool, faulty: bool) -> None:
        """Let a driver work while its workers are killed, then kill it, if it has to die."""
        last = self._commits() + self.chance.randint(1, 2 * len(self.kinds))
        wanted, heard, before = self.kills[1], time.monotonic(), -1
        driver.begin()
        while driver.running:
            self._pause()
            commits = self._commits()
            if commits > before:
                before, heard = commits, time.monotonic()
            if time.monotonic() - heard > LIFE_S:
                self.result.wrong.append("a driver hangs")
                break
            if faulty and commits >= 1:
                self._fault(driver)
                faulty = False
            if wanted > 0 and driver.kill_worker(self.chance):
                wanted -= 1
                self.result.workers += 1
            elif mortal and wanted <= 0 and commits >= last:
                break
        if driver.running:
            self.result.drivers += 1
            driver.kill(self.chance.choice(("driver", "JVM", "both")))
            return
        driver.end()
        if driver.process.returncode:
            self.result.given_up += 1
            said = (self.folder / "log").read_text(errors="replace")[-2000:]
            since = time.monotonic() - self._fault_at
            if since > FORGIVEN_S and not SLOW.search(said):
                self.result.wrong.append(f"a driver gave up without a reason: {said}")

    def _pause(self) -> None:
        time.sleep(self.chance.random() * 0.4)

    def _fault(self, driver: Driver) -> None:
        """Let something else go wrong that the route has."""
        servers = {"broker": self.route.broker, "PostgreSQL": self.route.postgres}
        possible = [one for one in FAULTS if servers.get(one, driver) is not None]
        chosen = self.chance.choice(possible)
        self.result.faults.append(chosen)
        if chosen == "broker" and self.route.broker is not None:
            self.route.broker.stop(kill=True)
            self._pause()
            self.route.broker.start()
        elif chosen == "PostgreSQL" and self.route.postgres is not None:
            self.route.postgres.stop()
            self._pause()
            self.route.postgres.start()
        else:
            driver.fill_disk(full=True)
            time.sleep(FULL_S)
            driver.fill_disk(full=False)
        self._fault_at = time.monotonic()

    def _commits(self) -> int:
        """Count the micro-batches that are complete."""
        found = (self.folder / "state").glob("*/commits/*")
        return sum(path.name.isdigit() for path in found)

    def _differences(self, kind: str) -> list[str]:
        """Compare what a query has written with what it should have."""
        shown = KINDS[kind]
        found = canonical(kind, self.route.rows(kind))
        expected = expected_rows(kind, self.records)
        wrong = _compared(f"{kind}: rows", found, expected) if expected else [f"{kind}: no rows"]
        bad = Counter(_number_of(row["_raw"]) for row in self.route.side(kind, "bad"))
        ours = Counter(one.number for one in self.records if shown.is_bad(one))
        wrong += _compared(f"{kind}: bad records", bad, ours)
        if shown.shows_late:
            late = Counter(int(row["id"]) for row in self.route.side(kind, "late"))
            drawn = Counter(
                one.number
                for one in self.records
                if one.fate == LATE and one.event["type"] in shown.types
            )
            wrong += _compared(f"{kind}: late events", late, drawn)
        self.result.rows += found.total()
        self.result.bad += bad.total()
        self.result.late += sum(one.fate == LATE for one in self.records)
        return wrong + self._wrong_sums(kind)

    def _wrong_sums(self, kind: str) -> list[str]:
        """Check that in = used + late + bad in every micro-batch that told its numbers."""
        path = self.folder / f"numbers-{kind}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        wrong = []
        for line in lines:
            if not line.endswith("}"):
                continue  # The driver was killed while it wrote.
            told = json.loads(line)
            if "seen" in told and told["in"] != told["bad"] + told["seen"]:
                wrong.append(f"{kind}: {told['in']} records are not those of {line}")
        return wrong


def _compared(what: str, found: Counter, expected: Counter) -> list[str]:  # type: ignore[type-arg]  # of texts or numbers
    if found == expected:
        return []
    more, less = found - expected, expected - found
    text = f"{what}: {more.total()} too many, {less.total()} missing of {expected.total()}"
    return [f"{text}; such as {list((more or less).items())[:2]}"]


def _number_of(raw: str) -> int:
    found = re.search(r'"id": ?(\d+)', raw)
    assert found is not None, raw
    return int(found[1])
