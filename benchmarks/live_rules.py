"""A thousand mixed rules on a live stream: in process first, then on Spark.

    python -m benchmarks.live_rules [--rules 1000] [--events 1000000] [--spark]

Of the rules 70 % are sequences of two to four types, 10 % compare neighbours, 10 % are situations
and 10 % SELECT with windows; a fifth of all have Kleene plus, and a fifth NOT. All group by a key.
Events per second of CPU time are printed, for all rules and for each kind alone.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import cepheid
from cepheid.jobs.microbatch import turn
from cepheid.jobs.work import Work
from cepheid.kinds.pipeline.single import as_pipeline
from cepheid.kinds.workload.alerts import alert_schema
from cepheid.kinds.workload.dated_rows import dated
from cepheid.kinds.workload.live_alerts import LiveAlerts
from cepheid.kinds.workload.rule_records import Numbered, Put, Timing

TYPES = [f"T{n}" for n in range(20)]
KEYS = 1_000
RATE = 100_000
"""Events in a second of event time."""
WINDOWS = ("WITHIN 10 s SLIDE 10 s", "WITHIN 10 s SLIDE 5 s")
BAR = 100_000
BUCKETS = 2


def draw_rules(count: int, seed: int = 1, *, distinct: bool = False) -> dict[str, str]:
    """Draw rules of all kinds; the name begins with the kind.

    Some are drawn several times, unless they shall be distinct: then those that are no sequences
    compare with a number of their own, so that no two of them run once.
    """
    chance = random.Random(seed)
    rules = {}
    for n in range(count):
        kind = n % 10
        draw = _sequence if kind < 7 else (_edges, _situations, _selection)[kind - 7]
        name, text = draw(chance, n)
        rules[f"{name}{n}"] = _apart(text, n) if distinct and kind >= 7 else text
    return rules


def _apart(text: str, n: int) -> str:
    """Change a number of a rule a little."""
    for before in ("x > 99.9", "x > 80", "x > 90", "x > 95", "x > 99"):
        if before in text:
            return text.replace(before, f"{before}{'' if '.' in before else '.0'}{n:04}")
    return text.replace("NEXT(S).x", f"NEXT(S).x AND S.x > 0.0{n:04}")


def _sequence(chance: random.Random, n: int) -> tuple[str, str]:
    types = chance.sample(TYPES, chance.randint(2, 4))
    parts = list(types)
    # Two of seven, so that a fifth of all rules have each.
    if n % 10 in (0, 1):
        place = chance.randrange(len(parts))
        parts[place] += "+"
    if n % 10 in (2, 3):
        other = chance.choice([one for one in TYPES if one not in types])
        parts.insert(chance.randint(1, len(parts) - 1), f"NOT {other}")
    where = ""
    if chance.random() < 0.5:
        where = f" WHERE {types[0]}.x > {chance.choice((10, 50, 90))}"
    pattern = f"SEQ({', '.join(parts)})"
    window = chance.choice(WINDOWS)
    text = f"RETURN key, COUNT(*) PATTERN {pattern}{where} GROUP-BY key {window}"
    return "sequence", f"{text} HAVING COUNT(*) > 1000000000000"


def _edges(chance: random.Random, _: int) -> tuple[str, str]:
    one = chance.choice(TYPES)
    order = chance.choice(("<", ">"))
    text = f"RETURN key, COUNT(*) PATTERN {one} S+ WHERE S.x {order} NEXT(S).x GROUP-BY key"
    return "edges", f"{text} {WINDOWS[0]} HAVING COUNT(*) > 1000000000000"


def _situations(chance: random.Random, _: int) -> tuple[str, str]:
    limit = chance.choice((80, 90, 95, 99))
    text = f"DEFINE HIGH AS x > {limit} AT LEAST {chance.choice((1, 2, 3))} s SITUATIONS HIGH"
    return "situations", f"{text} PARTITION BY key RETURN COUNT(HIGH) AS n"


def _selection(chance: random.Random, _: int) -> tuple[str, str]:
    one = chance.choice(TYPES)
    what = chance.choice(("SUM(x) AS total", "COUNT(*) AS n", "MAX(x) AS top"))
    where = f"type = '{one}' AND x > 99.9"
    return "selection", f"SELECT key, {what} FROM s WHERE {where} GROUP BY key WINDOW 10 seconds"


def draw_events(count: int, seed: int = 1) -> pa.Table:
    """Draw events in the order of time."""
    chance = np.random.default_rng(seed)
    return pa.table({
        "ts": pa.array(np.arange(count) * (1_000_000 // RATE), pa.timestamp("us", "UTC")),
        "type": pa.array(np.array(TYPES)[chance.integers(0, len(TYPES), count)]),
        "key": pa.array(np.char.add("k", chance.integers(0, KEYS, count).astype("U6"))),
        "x": chance.uniform(0, 100, count).round(2),
    })  # fmt: skip


def in_process(rules: dict[str, str], events: pa.Table, batch: int) -> tuple[float, int]:
    """Run rules over events in this process; return CPU seconds after the first batch, and rows."""
    live = cepheid.workload(rules).live(events.schema)
    rows = live.feed(events.slice(0, batch)).num_rows
    begun = time.process_time()
    for start in range(batch, len(events), batch):
        rows += live.feed(events.slice(start, batch)).num_rows
    return time.process_time() - begun, rows


def in_buckets(rules: dict[str, str], events: pa.Table, batch: int) -> tuple[float, int]:
    """Run rules as the tasks of a stream do, with states that are written; CPU seconds and rows."""
    plan = cepheid.query("SELECT ts FROM s").with_schema(events.schema).plan
    alerts = alert_schema(events.schema.field("ts").type, plan.tick_ns)
    work = Work.of(plan, events.schema, alerts, BUCKETS)
    records = list(_records(rules, events.schema))
    states: list[bytes | None] = [None] * BUCKETS
    parts = [events.filter(pa.array(places_of(events) == n)) for n in range(BUCKETS)]
    seconds, rows = 0.0, 0
    for start in range(0, len(events), batch):
        latest = (start + batch - 1) * (1_000_000 // RATE)
        arrived = [[_between(part, latest, batch)] for part in parts]
        begun = time.process_time()
        for n in range(BUCKETS):
            job = LiveAlerts(work, events.schema.names, n, records if start == 0 else [])
            states[n], outcome = turn(job, work, states[n], arrived[n], latest)
            rows += len(outcome.results)
        seconds += (time.process_time() - begun) if start else 0.0
    return seconds, rows


def places_of(events: pa.Table) -> NDArray[np.int64]:
    """Choose the bucket of every event by its key."""
    codes = events["key"].combine_chunks().dictionary_encode().indices
    return np.asarray(codes).astype(np.int64) % BUCKETS


def _between(part: pa.Table, latest: int, batch: int) -> pa.Table:
    times = part["ts"].cast(pa.int64()).to_numpy()
    first = latest - (batch - 1) * (1_000_000 // RATE)
    begin, end = np.searchsorted(times, [first, latest + 1])
    return part.slice(int(begin), int(end - begin))


def _records(rules: dict[str, str], schema: pa.Schema) -> Iterator[Numbered]:
    for number, (name, text) in enumerate(rules.items()):
        found = dated(cepheid.query(text).with_schema(schema).plan)
        plan = found.plan if found.plan.shares_passes else as_pipeline(found.plan)
        timing = Timing(found.times, found.hidden, found.delay)
        about: tuple[Any, ...] = (None, 1, "", (), "", None, None, timing, ("key",))
        yield Numbered(number, 0, Put(name, name, *about, plan.to_json().decode()))


def measure(what: str, rules: dict[str, str], events: pa.Table, batch: int) -> None:
    """Print one line for each way."""
    for way, run in (("in process", in_process), ("in buckets", in_buckets)):
        seconds, rows = run(rules, events, batch)
        speed = (len(events) - batch) / max(seconds, 1e-9)
        told = f"{what:10} {len(rules):5} rules {way}  {speed:10,.0f} events/s of one core"
        say(f"{told}  {rows:9,} rows")


def on_spark(rules: dict[str, str], events: pa.Table, batch: int, folder: Path) -> None:
    """Run rules as ``cepheid stream --rules`` does, and print events per second of CPU time.

    CPU time is that of all processes: two cores do twice as much in a second, if all is spread.
    """
    # Spark takes seconds to load.
    from benchmarks.live_rules_spark import run

    time, count, rows = run(rules, events, batch, folder)
    speed = f"{count / time.cpu:10,.0f} events/s of one core"
    told = f"{'all':10} {len(rules):5} rules on Spark    {speed}  {rows:9,} rows"
    say(f"{told}  {count / time.clock:,.0f} events/s by the clock")
    parts = (f"{name} {getattr(time, name):.1f}" for name in ("jvm", "workers", "driver"))
    say(f"CPU seconds: {', '.join(parts)}")


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", type=int, default=1000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--distinct", action="store_true", help="no two rules are the same")
    parser.add_argument("--kinds", default="sequence,edges,situations,selection")
    asked = parser.parse_args()
    rules = draw_rules(asked.rules, distinct=asked.distinct)
    events = draw_events(asked.events)
    for kind in filter(None, asked.kinds.split(",")):
        own = {name: text for name, text in rules.items() if name.startswith(kind)}
        measure(kind, own, events, asked.batch)
    if asked.kinds:
        measure("all", rules, events, asked.batch)
    if asked.spark:
        with tempfile.TemporaryDirectory() as place:
            on_spark(rules, events, asked.batch, Path(place))
    say(f"bar: {BAR:,} events/s on two cores")


if __name__ == "__main__":
    main()
