"""Translate the public rules of Sigma, and look whether their tests fire.

python -m benchmarks.sigma_corpus FOLDER

FOLDER is a checkout of the repository of the rules, which is not a part of Cepheid. Three things
are printed: what becomes of all rules, with and without a mapping; why rules are not carried over;
and how many of the repository's tests, events that a rule must find, are found by `cepheid detect`:
events of Windows as JSON and as EVTX, and lines of text.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from cepheid.events.windows_log import NUMBERS, flat_event, read_windows_log
from cepheid.interfaces.cli_input import find_rules
from cepheid.interfaces.detect import detect
from cepheid.interfaces.rule_queries import EventColumns, Refusals, ready_rules
from cepheid.translate.dialects import DIALECTS
from cepheid.translate.report import summary
from cepheid.translate.sigma.mapping import with_mapping
from cepheid.translate.translate import translate_path
from cepheid.translate.translated import Settings, Translated
from cepheid.translate.write import write_rules

FOLDERS = (
    "rules",
    "rules-emerging-threats",
    "rules-threat-hunting",
    "rules-compliance",
    "rules-placeholder",
)
REASONS_SHOWN = 12


class Test(NamedTuple):
    """A rule, the events that it must find, and how many of them if the test says so."""

    rule: str
    path: str
    events: list[dict[str, Any]]
    alerts: int | None


def translate(folder: Path, settings: Settings) -> list[Translated]:
    """Translate the rules of all folders."""
    rules = DIALECTS["sigma"]
    found = [name for name in FOLDERS if (folder / name).is_dir()]
    return [one for name in found for one in translate_path(folder / name, rules, settings)]


def tell(title: str, rules: list[Translated], seconds: float) -> None:
    """Print counts, and the reasons by frequency."""
    print(f"{title}: {summary(rules)}; {seconds:.1f} s of processor time")
    reasons = Counter(re.sub("`[^`]*`", "`…`", why) for rule in rules for why in rule.reasons)
    general: Counter[str] = Counter()
    for reason, count in reasons.items():
        general[re.sub(r"no log for .*", "no log for a log source", reason)] += count
    for reason, count in general.most_common(REASONS_SHOWN):
        print(f"    {count:5,}  {reason}")


def _records(text: str) -> Iterator[dict[str, Any]]:
    """Read objects of JSON that stand one after another, or in a list."""
    decoder, at = json.JSONDecoder(), 0
    while (at := len(text) - len(text[at:].lstrip())) < len(text):
        found, at = decoder.raw_decode(text, at)
        yield from found if isinstance(found, list) else [found]


def _json_events(file: Path) -> list[dict[str, Any]]:
    text = file.read_text(encoding="utf-8-sig")
    return [flat_event(one) for one in _records(text) if "Event" in one]


def _evtx_events(file: Path) -> list[dict[str, Any]]:
    rows = read_windows_log(file).to_pylist()
    present = [{name: value for name, value in row.items() if value is not None} for row in rows]
    return [{**row, "ts": row["ts"].isoformat()} for row in present]


def _lines(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [{"ts": f"2026-01-01T00:00:{n:02}Z", "message": line} for n, line in enumerate(lines)]


READERS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    "json": _json_events,
    "evtx": _evtx_events,
    "raw": _lines,
}
"""The kinds of files that events of tests are in."""


def read_tests(folder: Path, kind: str) -> Iterator[Test]:
    """Read the tests that have events in files of a kind."""
    for file in sorted((folder / "regression_data").rglob("info.yml")):
        info = yaml.safe_load(file.read_text(encoding="utf-8"))
        (told, *_) = info.get("regression_tests_info") or [{}]
        for event_file in sorted(file.parent.glob(f"*.{kind}")):
            events = READERS[kind](event_file)
            for rule in info["rule_metadata"]:
                where = file.parent.relative_to(folder).as_posix()
                yield Test(rule["id"], where, events, told.get("match_count"))


def run_tests(folder: Path, kind: str, settings: Settings) -> None:
    """Run the rules of all tests over the events of all tests by `cepheid detect`."""
    tests = [test for test in read_tests(folder, kind) if test.events]
    names = {name for test in tests for event in test.events for name in event}
    types = {name: "integer" if name in NUMBERS else "text" for name in names - {"ts"}}
    every = translate(folder, settings._replace(types=types))
    by_id = {_identity(rule): rule for rule in every}
    rules = {test.rule: by_id[test.rule] for test in tests if test.rule in by_id}
    with tempfile.TemporaryDirectory() as made:
        fired = _fired(rules.values(), tests, Path(made))
    hit = counted = 0
    for number, test in enumerate(tests):
        rule = rules.get(test.rule)
        found = fired[rule.name, number] if rule is not None else 0
        hit += found > 0
        counted += found == test.alerts
        if not found:
            why = "not among the rules" if rule is None else "; ".join(rule.reasons)
            print(f"    {test.path}: {why or 'does not fire'}")
        elif test.alerts is not None and found != test.alerts:
            print(f"    {test.path}: {found} alerts, and not {test.alerts}")
    events = sum(len(test.events) for test in tests)
    told = sum(test.alerts is not None for test in tests)
    print(f"tests, {kind}: {hit} of {len(tests)} fire, over {events:,} events; ", end="")
    print(f"{counted} of the {told} that tell the number of alerts have it")


def _fired(rules: Iterable[Translated], tests: list[Test], at: Path) -> Counter[tuple[str, int]]:
    """Count alerts by rule and test: all events are in one file, in the order of time."""
    write_rules(rules, at / "rules")
    with (at / "events.jsonl").open("w", encoding="utf-8") as out:
        numbered = [{**event, "test": n} for n, test in enumerate(tests) for event in test.events]
        numbered.sort(key=lambda one: one["ts"])
        out.writelines(json.dumps(one) + "\n" for one in numbered)
    columns = EventColumns("ts", "Channel", "us", None)
    ready = ready_rules(find_rules(str(at / "rules")), columns)
    found = detect(ready, {"": (str(at / "events.jsonl"),)}, Refusals(ready))
    return Counter((alert.rule, alert.row["test"]) for alert in found.alerts)


def _identity(rule: Translated) -> str:
    named = re.search(r"^Id: (\S+)$", rule.about, re.MULTILINE)
    return named[1] if named else ""


def main() -> None:
    """Print what becomes of the rules of a folder, and of its tests."""
    folder = Path(sys.argv[1])
    plain = Settings(keywords=("message",))
    for title, settings in (
        ("without a mapping", plain),
        ("windows", with_mapping(plain, "windows")),
    ):
        start = time.process_time()
        tell(title, translate(folder, settings), time.process_time() - start)
    for kind in ("json", "evtx"):
        run_tests(folder, kind, with_mapping(Settings(), "windows"))
    run_tests(folder, "raw", plain)


if __name__ == "__main__":
    main()
