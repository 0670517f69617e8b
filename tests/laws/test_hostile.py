"""Hostile queries give a result or a diagnostic, in 10 s of processor time and 2 GB of memory.

They run under the limits that hold where nothing is said, each part of them in a process of its
own. Without CEPHEID_HOSTILE there is a sample of what it names: 2,000 in ``make long``.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from tests.amount import share
from tests.laws.hostile import FIXED, Told

from cepheid.kernels.warm import warm

ROOT = Path(__file__).parents[2]
ALL = 2_000
COUNT = int(os.environ.get("CEPHEID_HOSTILE", "60"))
PATIENCE_S = 120
"""Who hears nothing for so long takes the process for hung: the alarm rang long ago."""

ALLOCATION = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Arrow's own allocator reserves a GiB ahead, which the limit counts as used, and keeps what is
free from numpy: a query would depend on those that the process ran before."""

SOUND = re.compile(r"result|E\d\d\d")


class Died(msgspec.Struct):
    """The query in which a process ended or went silent."""

    number: int
    why: str


def outcomes(first: int, step: int) -> list[Told | Died]:
    """Run the queries of a range in a process; a new one goes on where one has died."""
    found: list[Told | Died] = []
    while first < ALL:
        told, why = _run(first, step)
        found += [one for one in told if one.outcome]
        if not why:
            return found
        last = told[-1].number if told else first
        found.append(Died(last, why))
        first = last + step
    return found


def _run(first: int, step: int) -> tuple[list[Told], str]:
    """Return what a process told, and how it died if it did."""
    paths = [str(ROOT / "src"), str(ROOT)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | ALLOCATION
    command = [sys.executable, "-m", "tests.laws.hostile", str(first), str(ALL), str(step)]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        told: list[Told] = []
        rest = b""
        while select.select([process.stdout], [], [], PATIENCE_S)[0]:
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                status = process.wait()
                error = process.stderr.read().decode(errors="replace")
                return told, f"ended with {status}: {error[-1000:]}" if status else ""
            *lines, rest = (rest + data).split(b"\n")
            told += [msgspec.json.decode(line, type=Told) for line in lines]
        process.kill()
        return told, f"silent for {PATIENCE_S} s"


@pytest.mark.timeout(0)
def test_hostile_queries_give_a_result_or_a_diagnostic() -> None:
    if COUNT >= ALL:
        for _ in warm():  # Compiling, once on a machine, is no part of a query.
            pass
    # A step that five does not divide, as five kinds take turns.
    step = ALL // COUNT + (ALL // COUNT % 5 == 0) if COUNT < ALL else 1
    found = outcomes(len(FIXED) if COUNT < ALL else 0, step)
    bad = [one for one in found if isinstance(one, Died) or not SOUND.fullmatch(one.outcome)]
    assert not bad, "\n\n".join(map(str, bad))
    codes = Counter(one.outcome for one in found if isinstance(one, Told))
    assert codes["result"] > len(found) // 10, codes
    assert len(codes) > 5, codes


@share(3)
@pytest.mark.parametrize("number", [1, 3, 19, 26, 36, 278, 529, 1669])
def test_what_was_found_stays_found(number: int) -> None:
    told, why = _run(number, ALL)
    assert not why
    assert SOUND.fullmatch(told[-1].outcome), told
    assert told[-1].seconds < 5
