"""The wheel, built from the source distribution, has all that a user needs, and nothing more."""

from __future__ import annotations

import email
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import cepheid

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both, without the network; the wheel comes from the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    assert list(folder.glob("*.tar.gz"))
    return built


def test_the_wheel_has_every_file_of_the_package_and_no_test(wheel: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src/cepheid"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = {line.removeprefix("src/") for line in tracked.stdout.splitlines()}
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {n for n in names if n.startswith("cepheid/")} == wanted
    assert not {n for n in names if n.split("/")[0] in ("tests", "benchmarks")}


def test_the_wheel_tells_version_licence_and_extras(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (path,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    told = email.message_from_bytes(archive.read(path))
    assert told["Version"] == PROJECT["version"] == cepheid.__version__
    assert told["License-Expression"] == "Apache-2.0"
    assert set(told.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])


def test_the_demo_runs_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """Files of the checkout do not help: the package is read from the wheel alone."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = "import cepheid, sys; from cepheid.interfaces.cli import main; "
    code += "sys.stderr.write(cepheid.__file__); sys.argv[0] = 'cepheid'; main()"
    bare = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"}  # So it does not start Spark.
    done = subprocess.run(
        [sys.executable, "-c", code, "demo", "--page", str(tmp_path / "demo.html")],
        cwd=tmp_path,
        env=bare | {"PYTHONPATH": str(tmp_path / "site"), "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(tmp_path / "site") in done.stderr
    assert "259 paid" in done.stdout
    assert (tmp_path / "demo.html").is_file()
