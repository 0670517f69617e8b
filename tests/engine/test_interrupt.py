"""Ctrl-C ends a run at once, compiled or interpreted, and the next run is none the worse.

An alarm plays the part of the key: its handler raises where Python looks for signals.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from tests.alarm import alarm

import cepheid
from cepheid.kernels.tiers import Tier, forced

ROWS = 400_000


class Pressed(BaseException):
    """What the handler raises: as little an Exception as KeyboardInterrupt."""


def events(rows: int = ROWS) -> pa.Table:
    x = np.random.default_rng(3).integers(0, 1000, rows)
    kinds = np.where(x % 2, "A", "B")
    columns = (np.arange(rows), kinds, x, x[::-1].copy())
    return pa.table([pa.array(column) for column in columns], names=["ts", "type", "x", "y"])


QUADRATIC = "RETURN COUNT(*) PATTERN A+ WHERE A.x * NEXT(A).y < A.y * 2"
NEXT = "RETURN COUNT(*) PATTERN SEQ(A+, B) SEMANTICS next WHERE A.x * NEXT(A).y < A.y * 2"
LISTED = "RETURN MATCHES PATTERN SEQ(A+, B) WHERE A.x * B.y < 0"
WORK: dict[str, Callable[[pa.Table], object]] = {
    "pairs": lambda table: cepheid.query(QUADRATIC).run(table),
    "next match": lambda table: cepheid.query(NEXT).run(table),
    "matches": lambda table: cepheid.query(LISTED).run(table),
}


@pytest.mark.parametrize("tier", [Tier.COMPILE, Tier.INTERPRET])
@pytest.mark.parametrize("name", WORK)
def test_a_signal_ends_a_run(name: str, tier: Tier) -> None:
    work = WORK[name]
    with forced(tier):
        small = work(events(20))  # Compiles or loads what is needed.
        table = events()
        begun = time.monotonic()
        with pytest.raises(Pressed), alarm(1.0, Pressed):
            work(table)
        assert time.monotonic() - begun < 30  # It would take many minutes.
        assert work(events(20)) == small
