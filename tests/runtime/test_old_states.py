"""States that earlier versions wrote are read, and their queries go on as if nothing had happened.

The files in ``states/`` were written by ``python -m tests.runtime.test_old_states NAME``. When the
format of a state changes, write a new folder with the new version, and keep the old ones. A kind
that did not exist yet has no file of an old version; the newest folder has all kinds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.laws.test_damage import KINDS, states

FOLDER = Path(__file__).parent / "states"
VERSIONS = sorted(path.name for path in FOLDER.iterdir())
FAR = 2**50
WAITING = ("counted, live", "matches, live", "situations, live")
"""These queries wait for later events, whatever the watermark."""

SENDS_AGAIN = ("stretches, live",)
"""These buckets send in every micro-batch what later matches may need."""


def path_of(version: str, kind: str) -> Path:
    return FOLDER / version / f"{kind.replace(', ', '-').replace(' ', '-')}.state"


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_the_newest_version_has_every_kind() -> None:
    assert all(path_of(VERSIONS[-1], kind).exists() for kind in KINDS)


@pytest.mark.parametrize(
    ("kind", "version"),
    [(kind, version) for version in VERSIONS for kind in KINDS if path_of(version, kind).exists()],
)
def test_a_state_of_an_earlier_version_goes_on(kind: str, version: str) -> None:
    data = path_of(version, kind).read_bytes()
    now, read, go_on = states()[kind]
    read(data)
    if go_on is not None:
        saved, outcome = go_on(data, FAR)
        expected = go_on(now, FAR)[1]
        assert sorted_rows(outcome.results) == sorted_rows(expected.results)
        assert outcome[1:] == expected[1:]
        assert len(outcome.results) or kind in WAITING
        # What it writes is of this version, and is read.
        assert len(go_on(saved, FAR + 1)[1].results) == 0 or kind in SENDS_AGAIN


def write_states(version: str) -> None:
    """Write a state of every kind, as this version does."""
    for kind, state in states().items():
        path = path_of(version, kind)
        if path.exists():
            continue  # Of the same version, and older: that is better.
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(state.data)


if __name__ == "__main__":
    write_states(sys.argv[1])
