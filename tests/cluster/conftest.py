"""One cluster for all tests of a process, and Pythons that its workers find by name."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.pythons import base_python, link_libraries, write_python
from tests.cluster.standalone import Cluster

BARE, MIXED = "python-bare", "python-mixed"
"""Pythons without Cepheid, and with it on every worker but one."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start a master and three workers, and end them."""
    folder = tmp_path_factory.mktemp("cluster")
    link_libraries(folder / "libraries")
    (folder / "daemons").mkdir()
    with Cluster(folder / "daemons", functools.partial(pythons_of, folder)) as started:
        yield started


def pythons_of(folder: Path, number: int) -> dict[str, str]:
    """Write the Pythons of a worker; return the search path that has them."""
    place = folder / f"pythons-{number}"
    libraries = folder / "libraries"
    write_python(place / BARE, base_python(), libraries)
    if number == 1:
        write_python(place / MIXED, base_python(), libraries)
    else:
        write_python(place / MIXED, sys.executable)
    return {"PATH": f"{place}{os.pathsep}{os.environ['PATH']}"}
