"""Compare, rule by rule, the events that the public rules of Sigma find with those of rsigma.

python -m benchmarks.sigma_rivals FOLDER PROGRAM [--log FILE] [--events 200000] [--every 10]

FOLDER is a checkout of the repository of the rules, PROGRAM is `rsigma`, and FILE a log of Windows
as lines of JSON, as for `benchmarks.sigma_speed`; none is a part of Cepheid. Where an event comes
from is told to each engine in its own way, so most is learnt where nobody tells it: all rules run
over all events of the repository's tests, and over every tenth event of the log. Then the rules of
Windows run over the whole log, with log sources. Rules that find other events are listed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from benchmarks.sigma_corpus import translate
from benchmarks.sigma_speed import (
    Event,
    copy_rules,
    logged,
    repeated,
    translated,
    write_events,
)

from cepheid.events.files import read_all
from cepheid.events.time_formats import TextTimes
from cepheid.interfaces.cli_input import find_rules
from cepheid.interfaces.detect import detect
from cepheid.interfaces.rule_queries import EventColumns, Refusals, ready_rules
from cepheid.translate.columns import types_of
from cepheid.translate.translated import Settings, Translated
from cepheid.translate.write import write_rules

LOG_SOURCE = ("product", "service", "category")
SHOWN = 3
Found = dict[str, dict[dt.datetime, str]]
"""The events of each rule by their times, which differ, and in words."""


class Compared(NamedTuple):
    """What two engines find."""

    ours: Found
    theirs: Found
    titles: dict[str, str]


def find_here(rules: list[Translated], file: Path, at: Path) -> tuple[Found, dict[str, str]]:
    """Run rules by `cepheid detect`, by the ids that their authors gave them."""
    write_rules(rules, at)
    ids = {rule.name: re.search(r"^Id: (\S+)$", rule.about, re.MULTILINE) for rule in rules}
    ready = ready_rules(find_rules(str(at)), EventColumns("ts", "Channel", "us", None))
    found: Found = {}
    titles = {}
    for alert in detect(ready, {"": (str(file),)}, Refusals(ready)).alerts:
        named = ids.get(alert.rule)
        rule = named[1] if named else alert.rule
        titles[rule] = alert.rule
        found.setdefault(rule, {})[alert.row["ts"].replace(tzinfo=None)] = _words(alert.row)
    return found, titles


def find_there(program: str, rules: Path, file: Path, *options: str) -> Iterator[tuple[str, Event]]:
    """Run rules by the other engine; yield the id of the rule and the event of each row."""
    command = [program, "engine", "eval", "-r", str(rules), "--quiet", "--include-event", *options]
    with file.open("rb") as given:
        done = subprocess.run(
            [*command, "--output-format", "ndjson"], stdin=given, capture_output=True, check=True
        )
    for line in done.stdout.splitlines():
        row = json.loads(line)
        yield row["rule_id"], row["event"]


def _words(event: Mapping[str, Any]) -> str:
    return f"{event.get('Channel')} {event.get('EventID')}"


def compare(
    folder: Path, program: str, rules: list[Translated], file: Path, *options: str
) -> Compared:
    """Run rules in both engines over the same file."""
    with tempfile.TemporaryDirectory() as made:
        copy_rules(folder, rules, Path(made) / "theirs")
        ours, titles = find_here(rules, file, Path(made) / "ours")
        theirs: Found = {}
        for rule, event in find_there(program, Path(made) / "theirs", file, *options):
            at = dt.datetime.fromisoformat(event["ts"]).replace(tzinfo=None)
            theirs.setdefault(rule, {})[at] = _words(event)
    return Compared(ours, theirs, titles)


def tell(title: str, found: Compared, rules: int, events: int) -> None:
    """Print counts, and the rules that find other events."""
    names = sorted({*found.ours, *found.theirs})
    pairs = {name: (found.ours.get(name, {}), found.theirs.get(name, {})) for name in names}
    other = {name: pair for name, pair in pairs.items() if set(pair[0]) != set(pair[1])}
    rows = [sum(map(len, one.values())) for one in (found.ours, found.theirs)]
    print(f"{title}: {rules:,} rules over {events:,} events")
    print(f"    {rows[0]:,} rows here, {rows[1]:,} there; {len(names)} rules have rows, ", end="")
    print(f"{len(names) - len(other)} of them the same")
    for name, (ours, theirs) in other.items():
        more, less = ours.keys() - theirs.keys(), theirs.keys() - ours.keys()
        kinds = sorted({ours[at] for at in more} | {theirs[at] for at in less})[:SHOWN]
        print(f"    {name} {found.titles.get(name, '')}: ", end="")
        print(f"{len(more)} only here, {len(less)} only there ({', '.join(kinds)})")


def _everywhere(folder: Path, program: str, events: list[Event], title: str) -> None:
    """Compare all rules over events whose log source nobody tells."""
    with tempfile.TemporaryDirectory() as made:
        file = Path(made) / "events.jsonl"
        write_events(events, file)
        lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        bare = [{k: v for k, v in one.items() if k not in LOG_SOURCE} for one in lines]
        file.write_text("".join(json.dumps(one) + "\n" for one in bare), "utf-8")
        table = pa.concat_tables(read_all([file], None, TextTimes("ts")))
        settings = Settings(types=types_of(table.schema))
        rules = [rule for rule in translate(folder, settings) if not rule.reasons]
        tell(title, compare(folder, program, rules, file), len(rules), len(events))


def main() -> None:
    """Print how many rules find the same events in both engines, and which do not."""
    read = argparse.ArgumentParser()
    read.add_argument("folder", type=Path)
    read.add_argument("program")
    read.add_argument("--log", type=Path)
    read.add_argument("--events", type=int, default=200_000)
    read.add_argument("--every", type=int, default=10)
    asked = read.parse_args()
    tests = list({id(one): one for one in repeated(asked.folder, 10_000)}.values())
    bare = [{name: value for name, value in one.items() if name != "ts"} for one in tests]
    _everywhere(asked.folder, asked.program, bare, "the events of the tests")
    if asked.log is None:
        return
    events = logged(asked.log, asked.events)
    _everywhere(asked.folder, asked.program, events[:: asked.every], "some events of the log")
    with tempfile.TemporaryDirectory() as made:
        file = Path(made) / "events.jsonl"
        write_events(events, file)
        count = len(events)
        del events
        table = pa.concat_tables(read_all([file], None, TextTimes("ts")))
        rules = translated(asked.folder, table, count)
        del table
        found = compare(asked.folder, asked.program, rules, file, "--logsource-routing")
        tell("the log, with log sources", found, len(rules), count)


if __name__ == "__main__":
    main()
