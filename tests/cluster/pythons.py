"""Pythons of workers: one without Cepheid, and an environment in an archive."""

from __future__ import annotations

import sys
import sysconfig
import tarfile
import venv
from pathlib import Path

from tests.runtime.cluster import ROOT

LIBRARIES = Path(sysconfig.get_paths()["purelib"])
PACKED = (
    "dateutil", "llvmlite", "llvmlite.libs", "msgspec", "numba", "numpy", "numpy.libs", "pandas",
    "platformdirs", "pyarrow", "pyarrow.libs", "pytz", "six.py", "tzdata",
)  # fmt: skip
"""What workers import besides Cepheid; PySpark comes from the cluster."""


def link_libraries(folder: Path) -> None:
    """Link all libraries of this environment but Cepheid; files of paths are not read there."""
    folder.mkdir(parents=True)
    for entry in LIBRARIES.iterdir():
        if not entry.name.startswith(("cepheid", "_cepheid", "__editable__")):
            (folder / entry.name).symlink_to(entry)


def write_python(place: Path, program: str, libraries: Path | None = None) -> None:
    """Write a program that runs a Python with more libraries."""
    place.parent.mkdir(parents=True, exist_ok=True)
    more = "" if libraries is None else f'PYTHONPATH="$PYTHONPATH:{libraries}" '
    place.write_text(f'#!/bin/sh\n{more}exec "{program}" "$@"\n')
    place.chmod(0o755)


def base_python() -> str:
    """Return the Python that environments are made of; it has no libraries."""
    return str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())


def pack_environment(place: Path, folder: Path) -> None:
    """Write an archive as ``venv-pack`` does: an environment with Cepheid and its libraries.

    Spark keeps links and rights of files only if the archive is called ``.tar.gz``.
    """
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    inside = next((folder / "lib").glob("python3*/site-packages")).relative_to(folder)
    with tarfile.open(place, "w:gz", compresslevel=1) as archive:
        for entry in folder.iterdir():
            archive.add(entry, entry.name)
        archive.add(ROOT / "src" / "cepheid", str(inside / "cepheid"))
        for name in PACKED:
            if (LIBRARIES / name).exists():
                archive.add(LIBRARIES / name, str(inside / name))
