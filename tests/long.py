"""The long comparisons: many random examples, every tier, every slow test; ``make long``.

Each part is a run of pytest. A part that passed for the present commit, or a share of the random
queries of a construct that ever passed, is not run again, so a run that was stopped goes on where
it was. What was found is in ``tests/long.json``, and as a table in ``docs/long.md``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[1]
DONE = ROOT / "tests/long.json"
TABLE = ROOT / "docs/long.md"

INTERPRETED, COMPILED = {"CEPHEID_KERNELS": "interpret"}, {"CEPHEID_KERNELS": "compile"}
RANDOM = {
    "oracle and laws": ["tests/oracle", "tests/laws"],
    "linear": ["tests/engine/test_linear.py", "tests/engine/test_numbers.py"],
    "neighbours": ["tests/engine/test_neighbours.py", "tests/engine/test_partial_equivalence.py"],
    "matches": ["tests/engine/test_enumerate.py", "tests/engine/test_pushed_predicates.py"],
    "chosen matches": ["tests/engine/test_skip.py"],
    "workloads": ["tests/engine/test_workload.py", "tests/engine/test_workload_negation.py"],
    "pipelines": ["tests/pipeline", "-m", "not spark and not slow"],
    "row patterns": ["tests/row_pattern"],
    "situations": ["tests/situations", "-m", "not spark and not slow"],
    "SELECT": ["tests/select", "-m", "not spark and not slow"],
    "store": ["tests/store"],
    "ways to run": ["tests/agreement/test_agreement.py", "-m", "not spark"],
}
CONSTRUCTS = (
    *("deadlines", "links", "UNTIL", "WITHOUT", "ANY", "SKIP", "NOT NEXT", "GREEDY", "DISTINCT"),
    "funnels",
)
SHARES = 10
"""Each construct is compared in shares of their own seeds, so that a long run can be stopped."""
OTHER = {
    "same bits in all tiers": ["tests/engine/test_tiers.py", "tests/golden"],
    "ways to run on Spark": ["tests/agreement", "-m", "spark"],
    "slow tests": ["-m", "slow"],
    "10,000 flips of every kind of state": ["tests/laws/test_damage.py", "--flips", "10000"],
    "2,000 cuts of the power": ["tests/store/test_power_loss.py", "--cuts", "2000"],
    "20 kills of a live query": ["tests/runtime/test_crash.py", "-m", "slow", "--kills", "20"],
    "200 kills of executors": ["tests/cluster", "-m", "slow"],
    "all cases on Spark": ["-m", "spark and share"],
    "all cases in process": ["-m", "share and not spark"],
}


class Part(msgspec.Struct, frozen=True):
    """What was run: its commit, its verdict and its minutes."""

    name: str
    commit: str
    passed: bool
    tests: str
    minutes: float
    ways: dict[str, tuple[int, int]] = {}
    """The comparisons of each way to run, and the disagreements among them."""


def parts() -> list[tuple[str, list[str], dict[str, str]]]:
    """Return the name, the arguments of pytest and the environment of every part."""
    found = [(f"{name}, interpreted", files, INTERPRETED) for name, files in RANDOM.items()]
    found += [(f"{name}, compiled", files, COMPILED) for name, files in RANDOM.items()]
    found += [construct_share(name, n) for n in range(SHARES) for name in CONSTRUCTS]
    found += [(name, files, {}) for name, files in OTHER.items()]
    mutated = INTERPRETED | {"CEPHEID_MUTATIONS": "20000"}
    found.append(("20,000 mutated queries", ["tests/laws/test_mutated_runs.py"], mutated))
    hostile = {"CEPHEID_HOSTILE": "2000"}
    return [*found, ("2,000 hostile queries", ["tests/laws/test_hostile.py"], hostile)]


def construct_share(construct: str, share: int) -> tuple[str, list[str], dict[str, str]]:
    """Return one share of the comparisons of a construct, interpreted in every fifth share."""
    chosen = f"test_constructs.py::test_ways_in_process_agree[{construct}]"
    files = [f"tests/agreement/{chosen}", "--hypothesis-seed", str(share)]
    tier = INTERPRETED if share % 5 == 4 else COMPILED
    return f"{construct}, share {share + 1} of {SHARES}", files, tier


def commit() -> str:
    """Return the commit of the working tree, or that it has changes of its own."""
    git = ["git", "-C", str(ROOT)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    others = ["src", "tests", ":!tests/long.json"]
    diff = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", *others])
    return head.stdout.strip() + ("+" if diff.returncode else "")


def main() -> int:
    """Run what has not passed yet, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=2_000, help="random examples a test")
    parser.add_argument("--only", default="", help="the parts whose name holds this text")
    parser.add_argument("--jobs", type=int, default=1, help="how many parts run side by side")
    wanted = parser.parse_args()
    now = commit()
    done = msgspec.json.decode(DONE.read_bytes(), type=dict[str, Part]) if DONE.exists() else {}
    one_by_one = threading.Lock()

    def run_part(name: str, files: list[str], variables: dict[str, str]) -> None:
        before = done.get(name)
        passed = before is not None and before.passed
        # Shares add up over commits: all of them take hours.
        known = passed and before is not None and (before.commit == now or " share " in name)
        if wanted.only not in name or (known and not now.endswith("+")):
            return
        sys.stdout.write(f"{name} ...\n")
        found = run(name, files, variables, wanted.examples, now)
        with one_by_one:
            done[name] = found
            DONE.write_bytes(msgspec.json.format(msgspec.json.encode(done)) + b"\n")
            TABLE.write_text(table(done, wanted.examples))

    with ThreadPoolExecutor(wanted.jobs) as pool:
        list(pool.map(run_part, *zip(*parts(), strict=True)))
    failed = [name for name, part in done.items() if not part.passed]
    sys.stdout.write(f"failed: {', '.join(failed)}\n" if failed else "all passed\n")
    return 1 if failed else 0


def run(name: str, files: list[str], variables: dict[str, str], examples: int, now: str) -> Part:
    """Run one part."""
    environment = {**os.environ, **variables}
    environment |= {"HYPOTHESIS_PROFILE": "long", "CEPHEID_EXAMPLES": str(examples)}
    counted = tempfile.TemporaryDirectory()
    environment["CEPHEID_TALLY"] = counted.name
    workers = "0" if "::" in files[0] else "2"
    command = [sys.executable, "-m", "pytest", "-n", workers, "-q", "--timeout", "3600", *files]
    begun = time.perf_counter()
    ended = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    last = [line for line in ended.stdout.splitlines() if " passed" in line or " failed" in line]
    if ended.returncode:
        sys.stdout.write(ended.stdout[-4000:])
    tests = last[-1].strip("= ").partition(" in ")[0] if last else "no test ran"
    minutes = (time.perf_counter() - begun) / 60
    with counted:
        ways = added(Path(counted.name).glob("*.json"))
    return Part(name, now, ended.returncode == 0, tests, minutes, ways)


def added(files: Iterable[Path]) -> dict[str, tuple[int, int]]:
    """Return the counts of all processes together."""
    read = [msgspec.json.decode(f.read_bytes(), type=dict[str, tuple[int, int]]) for f in files]
    return together(read)


def together(counts: Iterable[dict[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    """Add up comparisons and disagreements by way."""
    sums: dict[str, tuple[int, int]] = {}
    for ways in counts:
        for way, (drawn, differ) in ways.items():
            before = sums.get(way, (0, 0))
            sums[way] = (before[0] + drawn, before[1] + differ)
    return sums


def table(done: dict[str, Part], examples: int) -> str:
    """Return the page of the last run."""
    lines = [
        "# The long comparisons",
        "",
        f"`make long` ran them last with {examples:,} random examples a test, on two cores. It",
        "goes on where it was stopped: a part that has passed for a commit is not run again.",
        "",
        "| part | tests | minutes | commit |",
        "|---|---|---|---|",
    ]
    order = [name for name, _, _ in parts() if name in done]
    for part in (done[name] for name in order if " share " not in name):
        verdict = part.tests if part.passed else f"**{part.tests}**"
        lines.append(f"| {part.name} | {verdict} | {part.minutes:.1f} | {part.commit} |")
    ways = together(done[name].ways for name in order)
    by_construct = {way: counts for way, counts in ways.items() if "/" in way}
    ways = {way: counts for way, counts in ways.items() if "/" not in way}
    if by_construct:
        lines += constructs_table([done[name] for name in order], by_construct)
    if ways:
        lines += ["", "## Ways to run", "", "Every way to run a drawn query is compared with the"]
        lines += ["definition or, where the oracle does not reach, with a run over a table.", ""]
        lines += ["| way to run | comparisons drawn | disagreements |", "|---|---|---|"]
        for way, (drawn, differ) in sorted(ways.items()):
            lines.append(f"| {way} | {drawn:,} | {differ:,} |")
    return "\n".join(lines) + "\n"


def constructs_table(done: list[Part], ways: dict[str, tuple[int, int]]) -> list[str]:
    """Return how many comparisons each construct had on each way, and what disagreed."""
    shares = [part for part in done if " share " in part.name]
    commits = ", ".join(sorted({part.commit for part in shares}))
    minutes = sum(part.minutes for part in shares)
    queries = sum(drawn for way, (drawn, _) in ways.items() if way.endswith("/table"))
    differ = sum(disagreeing for _, disagreeing in ways.values())
    rows = sorted({way.partition("/")[2] for way in ways})
    lines = ["", "## Constructs of other systems", ""]
    lines += [f"{queries:,} random queries, each with the construct of its column, on every way"]
    lines += [f"that takes it: {differ:,} disagreements. {len(shares)} shares passed or failed in"]
    lines += [f"{minutes:.0f} minutes, at {commits}."]
    failed = [part.name for part in shares if not part.passed]
    lines += [f"Failed: {', '.join(failed)}."] if failed else []
    lines += ["", f"| comparisons drawn | {' | '.join(CONSTRUCTS)} |"]
    lines += ["|---" * (len(CONSTRUCTS) + 1) + "|"]
    for row in rows:
        cells = [ways.get(f"{construct}/{row}", (0, 0))[0] for construct in CONSTRUCTS]
        lines.append(f"| {row} | {' | '.join(f'{cell:,}' for cell in cells)} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
