"""Measure how many events a second the public rules of Sigma take, on one core.

python -m benchmarks.sigma_speed FOLDER [EVENTS] [RULES]

FOLDER is a checkout of the repository of the rules, which is not a part of Cepheid. Its tests have
events of Windows, which are repeated, with new times, until there are as many as asked for. All
rules that the mapping of Windows carries over run together, or as many as asked for.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from benchmarks.sigma_corpus import read_tests, translate

from cepheid.events.windows_log import NUMBERS
from cepheid.interfaces.backtest import Stretch, backtest
from cepheid.interfaces.cli_input import find_rules
from cepheid.interfaces.detect import absent_columns
from cepheid.interfaces.rule_queries import EventColumns, Ready, Refusals, ready_rules
from cepheid.jobs.sources import source_of
from cepheid.translate.sigma.mapping import with_mapping
from cepheid.translate.translated import Settings
from cepheid.translate.write import write_rules

EVENTS, RULES = 100_000, 3_000
STEP_US = 1_000


def repeated(folder: Path, count: int) -> pa.Table:
    """Read the events of the tests, and repeat them, one every millisecond."""
    events = [event for test in read_tests(folder) for event in test.events]
    names = sorted({name for event in events for name in event} - {"ts"})
    columns = {
        name: pa.array(
            [event.get(name) for event in events], pa.int64() if name in NUMBERS else pa.string()
        )
        for name in names
    }
    once = pa.table(columns)
    whole = pa.concat_tables([once] * -(-count // len(once))).slice(0, count).combine_chunks()
    times = pa.array(range(0, count * STEP_US, STEP_US), pa.int64()).cast(pa.timestamp("us"))
    return whole.append_column("ts", times)


def rules_for(folder: Path, events: pa.Table, count: int) -> Ready:
    """Translate rules for the columns of events, and compile them."""
    types = {n: "integer" if n in NUMBERS else "text" for n in events.column_names if n != "ts"}
    settings = with_mapping(Settings(types=types), "windows")
    carried = [rule for rule in translate(folder, settings) if not rule.reasons]
    with tempfile.TemporaryDirectory() as made:
        write_rules(carried[:count], Path(made) / "rules")
        return ready_rules(find_rules(f"{made}/rules"), EventColumns("ts", "Channel", "us", None))


def main() -> None:
    """Print rules, events, seconds of processor time, and events a second."""
    folder = Path(sys.argv[1])
    asked = [int(one) for one in sys.argv[2:]]
    count, most = [*asked, *(EVENTS, RULES)[len(asked) :]]
    pa.set_cpu_count(1)
    events = repeated(folder, count)
    began = time.process_time()
    ready = rules_for(folder, events, most)
    for name in absent_columns(ready, events.schema):
        events = events.append_column(name, pa.nulls(len(events)))
    planned = time.process_time()
    print(f"{len(ready.queries):,} rules ready in {planned - began:.1f} s of processor time")
    refusals = Refusals(ready)
    times = ready.workload.times
    for size in (len(events) // 10, len(events)):
        start = time.process_time()
        source = source_of(events.slice(0, size), times)
        found = backtest(ready, Stretch(source), refusals, lambda _: None)
        seconds = time.process_time() - start
        rows = sum(len(report.rows) for report in found.reports)
        print(f"{size:,} events: {seconds:.2f} s, {size / seconds:,.0f} events/s, {rows:,} rows")


if __name__ == "__main__":
    main()
