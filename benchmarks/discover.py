"""Compare discovery with pm4py: the same rules with the same counts, and the seconds of both.

python -m benchmarks.discover LOG.parquet --key case_id [--pm4py PYTHON]

``PYTHON`` is an interpreter that has pm4py and pyarrow; its licence keeps it out of ours.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from pathlib import Path

import cepheid
from cepheid.discovery.cases import Names, read_cases
from cepheid.discovery.declare import count_facts
from cepheid.discovery.forms import FORMS
from cepheid.events.time_formats import TextTimes
from cepheid.jobs.sources import source_of

RIVAL = Path(__file__).parent / "peers" / "pm4py_declare.py"
Counts = dict[str, dict[str, list[int]]]


def ours(log: str, key: str) -> tuple[Counts, float]:
    """Count the forms of Declare from the file."""
    began = time.perf_counter()
    names = Names(key, "ts", "type")
    table = source_of(log, TextTimes("ts", "")).whole(names.all)
    read = read_cases(table, names, 1_000)
    facts = count_facts(read.cases)
    found: Counts = {}
    for form in FORMS:
        stake, holds = form.counts(facts)
        own = found[form.name] = {}
        for one, first in enumerate(read.types):
            if form.types == 1:
                own[first] = [int(stake[one]), int(holds[one])]
                continue
            for two, second in enumerate(read.types):
                if one != two and stake[one, two]:
                    own[f"{first}|{second}"] = [int(stake[one, two]), int(holds[one, two])]
    return found, time.perf_counter() - began


def main() -> None:
    """Run both, compare the rules, and print the seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log")
    parser.add_argument("--key", required=True)
    parser.add_argument("--pm4py", help="an interpreter that has pm4py and pyarrow")
    given = parser.parse_args()
    best = min((ours(given.log, given.key) for _ in range(3)), key=lambda one: one[1])
    counts, seconds = best
    rules = sum(map(len, counts.values()))
    print(f"cepheid   {seconds:8.2f} s  {rules:,} rules of {len(counts)} forms")
    if given.pm4py:
        words = [given.pm4py, str(RIVAL), given.log, given.key]
        told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        theirs = json.loads(told.splitlines()[-1])
        same = theirs["rules"] == counts
        print(f"pm4py     {theirs['seconds']:8.2f} s  ratio {theirs['seconds'] / seconds:.1f}")
        print(f"all counts are equal: {same}")
    for length in (2, 3, 4):
        found = cepheid.discover(given.log, key=given.key, max_length=length)
        told = f"{found.search.candidates:,} rules, sequences of up to {length} types"
        print(f"discover  {found.search.seconds:8.2f} s  {told}")


if __name__ == "__main__":
    main()
