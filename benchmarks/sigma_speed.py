"""Measure how many events a second the public rules of Sigma take, on one core.

python -m benchmarks.sigma_speed FOLDER [--log FILE] [--events 200000] [--rules 3000] [--rsigma ...]

FOLDER is a checkout of the repository of the rules, and FILE a log of Windows as lines of JSON, one
flat object for each event; neither is a part of Cepheid. Without a log, the events of the
repository's tests are repeated, with new times. All rules that the mapping of Windows carries over
run together, or as many as asked for, on one core: over events in memory, and as `cepheid detect`,
from a file of lines of JSON to a file of alerts. PROGRAM is `rsigma`, which then takes the same
file, in which log sources stand beside the events, and the rules as their authors wrote them.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from benchmarks.sigma_corpus import FOLDERS, read_tests, translate

from cepheid.events.files import read_all
from cepheid.events.time_formats import TextTimes
from cepheid.events.windows_log import NUMBERS
from cepheid.interfaces.backtest import Stretch, backtest
from cepheid.interfaces.cli_input import find_rules
from cepheid.interfaces.detect import absent_columns
from cepheid.interfaces.rule_queries import EventColumns, Ready, Refusals, ready_rules
from cepheid.jobs.sources import source_of
from cepheid.translate.columns import types_of
from cepheid.translate.sigma.mapping import with_mapping
from cepheid.translate.sigma.windows import CHANNELS, POWERSHELL_EVENTS, SYSMON_EVENTS
from cepheid.translate.translated import Settings, Translated
from cepheid.translate.write import write_rules

STEP_US, FIRST = 1_000, 20_000
SERVICES = {channel.lower(): name for name, channels in CHANNELS.items() for channel in channels}
CATEGORIES: dict[tuple[Any, Any], str] = {}
"""The categories of events; an event of the registry has the first of two that rules know."""
for _name, _numbers in SYSMON_EVENTS.items():
    for _number in _numbers:
        CATEGORIES.setdefault((CHANNELS["sysmon"][0].lower(), _number), _name)
for _name, (_channels, _numbers) in POWERSHELL_EVENTS.items():
    CATEGORIES |= {(one.lower(), number): _name for one in _channels for number in _numbers}
Event = dict[str, Any]


def repeated(folder: Path, count: int) -> list[Event]:
    """Read the events of the tests, and repeat them."""
    events = [event for test in read_tests(folder, "json") for event in test.events]
    return [events[at % len(events)] for at in range(count)]


def logged(log: Path, count: int) -> list[Event]:
    """Read the first events of a log; values that are no texts are written as JSON."""
    with log.open(encoding="utf-8") as lines:
        return [dict(_texts(json.loads(line))) for line in islice(lines, count)]


def _texts(event: Event) -> Iterator[tuple[str, Any]]:
    for name, value in event.items():
        if name in NUMBERS:
            yield name, int(value)
        elif value is not None:
            yield name, value if isinstance(value, str) else json.dumps(value)


def translated(folder: Path, events: pa.Table, count: int) -> list[Translated]:
    """Translate rules for the columns of events."""
    settings = with_mapping(Settings(types=types_of(events.schema)), "windows")
    return [rule for rule in translate(folder, settings) if not rule.reasons][:count]


def compiled(rules: Path) -> Ready:
    """Read rules from files, as the command does."""
    began = time.process_time()
    ready = ready_rules(find_rules(str(rules)), EventColumns("ts", "Channel", "us", None))
    print(f"{len(ready.queries):,} rules read in {time.process_time() - began:.1f} s")
    return ready


def measure(ready: Ready, events: pa.Table) -> None:
    """Print the processor time of planning, and of events beyond those of a first run.

    What does not depend on the number of events is in both runs, and in their difference no more.
    """
    began = time.process_time()
    for name in absent_columns(ready, events.schema):
        events = events.append_column(name, pa.nulls(len(events)))
    refusals, times = Refusals(ready), ready.workload.times

    def run(count: int) -> tuple[float, int]:
        start = time.process_time()
        source = source_of(events.slice(0, count), times)
        found = backtest(ready, Stretch(source), refusals, lambda _: None)
        rows = sum(len(report.rows) for report in found.reports)
        return time.process_time() - start, rows

    few = min(FIRST, len(events) // 2)
    run(few)
    print(f"planned, with a run over {few:,} events, in {time.process_time() - began:.1f} s")
    fixed, _ = run(few)
    seconds, rows = run(len(events))
    more = len(events) - few
    rate = more / (seconds - fixed)
    print(
        f"cepheid: {len(events):,} events: {seconds:.2f} s, the first {few:,} {fixed:.2f} s; ",
        end="",
    )
    print(f"{rate:,.0f} events/s of the others, {rows:,} rows")


def with_log_source(event: Event) -> Event:
    """Add what rules of Sigma call the log of an event."""
    found = {**event, "product": "windows"}
    channel, number = str(event.get("Channel")).lower(), event.get("EventID")
    if channel in SERVICES:
        found["service"] = SERVICES[channel]
    if (channel, number) in CATEGORIES:
        found["category"] = CATEGORIES[channel, number]
    return found


def write_events(events: list[Event], file: Path) -> None:
    """Write events as lines of JSON, one every millisecond, with their log sources."""
    begin = dt.datetime(2026, 1, 1)  # UTC
    with file.open("w", encoding="utf-8") as out:
        for place, event in enumerate(events):
            at = begin + dt.timedelta(microseconds=place * STEP_US)
            out.write(json.dumps({"ts": f"{at.isoformat()}Z", **with_log_source(event)}) + "\n")


def _run(command: list[str], lines: Path) -> tuple[float, int]:
    """Run a program over lines; return its processor time and the number of lines it writes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with lines.open("rb") as given:
        done = subprocess.run(command, stdin=given, stdout=subprocess.PIPE, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds, done.stdout.count(b"\n")


def run_cepheid(rules: Path, file: Path, first: Path, count: int) -> None:
    """Run `cepheid detect` from a file to alerts; a run over one event tells how long it starts."""
    command = [str(Path(sys.executable).parent / "cepheid"), "detect", str(rules)]
    command += ["--type", "Channel", "--input"]
    runs = [_run([*command, str(one)], Path(os.devnull)) for one in (first, file)]
    _tell("cepheid detect", runs, count)


def run_rsigma(program: str, rules: Path, file: Path, first: Path, count: int) -> None:
    """Run the other engine over the same files."""
    command = [program, "engine", "eval", "-r", str(rules), "--logsource-routing", "--quiet"]
    command += ["--output-format", "ndjson"]
    _tell("rsigma", [_run(command, one) for one in (first, file)], count)


def _tell(name: str, runs: list[tuple[float, int]], count: int) -> None:
    (start, _), (whole, rows) = runs
    rate = (count - 1) / (whole - start)
    print(f"{name}: {whole:.1f} s from the file to {rows:,} alerts, {count / whole:,.0f} events/s")
    print(f"    {start:.1f} s with one event, so {rate:,.0f} events/s of the others")


def copy_rules(folder: Path, rules: list[Translated], to: Path) -> None:
    """Copy the files of rules as their authors wrote them."""
    to.mkdir()
    names = {rule.file for rule in rules}
    found = (one / name for one in map(folder.joinpath, FOLDERS) for name in names)
    for number, path in enumerate(path for path in found if path.is_file()):
        shutil.copy(path, to / f"{number}-{path.name}")


def main() -> None:
    """Print rules, events, seconds of processor time, and events a second."""
    read = argparse.ArgumentParser()
    read.add_argument("folder", type=Path)
    read.add_argument("--log", type=Path)
    read.add_argument("--events", type=int, default=200_000)
    read.add_argument("--rules", type=int, default=3_000)
    read.add_argument("--rsigma")
    asked = read.parse_args()
    pa.set_cpu_count(1)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if asked.log is not None:
        events = logged(asked.log, asked.events)
    else:
        events = repeated(asked.folder, asked.events)
    count = len(events)
    with tempfile.TemporaryDirectory() as made:
        ours, theirs = Path(made) / "ours", Path(made) / "theirs"
        first, file = Path(made) / "first.jsonl", Path(made) / "events.jsonl"
        write_events(events[:1], first)
        write_events(events, file)
        del events
        table = pa.concat_tables(read_all([file], None, TextTimes("ts")))
        rules = translated(asked.folder, table, asked.rules)
        write_rules(rules, ours)
        copy_rules(asked.folder, rules, theirs)
        print(f"load of the machine: {os.getloadavg()[0]:.1f}; {table.num_columns} columns")
        measure(compiled(ours), table)
        del table
        run_cepheid(ours, file, first, count)
        if asked.rsigma:
            run_rsigma(asked.rsigma, theirs, file, first, count)


if __name__ == "__main__":
    main()
