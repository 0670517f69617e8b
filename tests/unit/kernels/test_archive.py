"""The package runs from an archive too: ``spark-submit --py-files`` ships it that way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from cepheid.kernels import cache, costs

SOURCE = Path(cache.__file__).parents[2]
CODE = """
import cepheid
from cepheid.kernels import cache, costs
assert ".zip" in cepheid.__file__, cepheid.__file__
print(cache.key(), len(costs.listed()))
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an archive with the files of the wheel."""
    place = tmp_path_factory.mktemp("archive") / "cepheid.zip"
    pack_package(place)
    return place


def pack_package(place: Path, change: bytes = b"") -> None:
    """Write the package to an archive, its kernels with a change."""
    with ZipFile(place, "w") as packed:
        for path in sorted((SOURCE / "cepheid").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                more = change if path.name == "linear.py" else b""
                packed.writestr(path.relative_to(SOURCE).as_posix(), path.read_bytes() + more)


def facts(archive: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=os.environ | {"PYTHONPATH": str(archive)},
        cwd=archive.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_kernels_have_the_same_names_in_an_archive(archive: Path) -> None:
    # With other names, a worker would not find the kernels that the driver sends.
    assert facts(archive) == [cache.key(), str(len(costs.listed()))]


def test_changed_kernels_in_an_archive_have_other_names(archive: Path) -> None:
    # With the same names, a worker would run the kernels of another version.
    changed = archive.with_name("changed.zip")
    pack_package(changed, b"\n# A change.\n")
    assert facts(changed)[0] != cache.key()
