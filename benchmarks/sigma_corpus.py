"""Translate the public rules of Sigma, and look whether their tests fire.

python -m benchmarks.sigma_corpus FOLDER

FOLDER is a checkout of the repository of the rules, which is not a part of Cepheid. Three things
are printed: what becomes of all rules, with and without a mapping; why rules are not carried over;
and how many of the repository's tests, events that a rule must find, are found by `cepheid detect`.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from cepheid.events.windows_log import NUMBERS, flat_event
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
    """A rule and the events that it must find."""

    rule: str
    path: str
    events: list[dict[str, Any]]


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


def read_tests(folder: Path) -> Iterator[Test]:
    """Read the tests that have events of Windows as JSON."""
    for file in sorted((folder / "regression_data").rglob("info.yml")):
        info = yaml.safe_load(file.read_text(encoding="utf-8"))
        for event_file in sorted(file.parent.glob("*.json")):
            text = event_file.read_text(encoding="utf-8-sig")
            events = [flat_event(one) for one in _records(text) if "Event" in one]
            for rule in info["rule_metadata"]:
                yield Test(rule["id"], file.parent.relative_to(folder).as_posix(), events)


def run_tests(folder: Path) -> None:
    """Run the rules of all tests over the events of all tests by `cepheid detect`."""
    tests = [test for test in read_tests(folder) if test.events]
    names = {name for test in tests for event in test.events for name in event}
    types = {name: "integer" if name in NUMBERS else "text" for name in names - {"ts"}}
    settings = with_mapping(Settings(types=types), "windows")
    every = translate(folder, settings)
    by_id = {_identity(rule): rule for rule in every}
    rules = {test.rule: by_id[test.rule] for test in tests if test.rule in by_id}
    with tempfile.TemporaryDirectory() as made:
        at = Path(made)
        write_rules(rules.values(), at / "rules")
        with (at / "events.jsonl").open("w", encoding="utf-8") as out:
            numbered = [{**e, "test": n} for n, test in enumerate(tests) for e in test.events]
            numbered.sort(key=lambda one: one["ts"])
            out.writelines(json.dumps(one) + "\n" for one in numbered)
        ready = ready_rules(
            find_rules(str(at / "rules")), EventColumns("ts", "Channel", "us", None)
        )
        refusals = Refusals(ready)
        found = detect(ready, [str(at / "events.jsonl")], refusals)
    fired = {(alert.rule, alert.row["test"]) for alert in found.alerts}
    hit = 0
    for number, test in enumerate(tests):
        rule = rules.get(test.rule)
        if rule is not None and (rule.name, number) in fired:
            hit += 1
            continue
        why = "not among the rules" if rule is None else "; ".join(rule.reasons) or "does not fire"
        print(f"    {test.path}: {why}")
    events = sum(len(test.events) for test in tests)
    print(f"tests: {hit} of {len(tests)} fire, over {events:,} events")


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
    run_tests(folder)


if __name__ == "__main__":
    main()
