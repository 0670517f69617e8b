"""The systems: how each is installed below ``build/peers``, and the command that runs a case."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.peers.data import csv_of, parquet_of

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "peers"
SOURCES = Path(__file__).parent
INSTALL_LIMIT_S = 1200
OPENS = ("java.base/java.util=ALL-UNNAMED", "java.base/java.lang=ALL-UNNAMED")


class NotInstalledError(Exception):
    """A system cannot be installed here, and why."""


@dataclass(frozen=True)
class PythonSystem:
    """A package in an environment of its own; without a version it is that of the project."""

    name: str
    title: str
    package: str | None = None
    first_share: int = 10

    @property
    def dashes(self) -> dict[str, str]:
        """Return the cases that the system cannot say, with the reasons."""
        return {}

    @property
    def python(self) -> Path:
        """Return the Python that has the package."""
        own = BUILD / self.name / "bin" / "python"
        return own if self.package and own.exists() else Path(sys.executable)

    def install(self) -> None:
        """Make the environment, unless it is there."""
        ready = BUILD / self.name / ".ready"
        if self.package is None or ready.exists():
            return
        folder = str(BUILD / self.name)
        packages = [self.package, "pyarrow"]
        python = f"{folder}/bin/python"
        if shutil.which("uv"):
            _call(self, ["uv", "venv", "--quiet", "--clear", "--python", sys.executable, folder])
            _call(self, ["uv", "pip", "install", "--quiet", "--python", python, *packages])
        else:
            _call(self, [sys.executable, "-m", "venv", "--clear", folder])
            _call(self, [python, "-m", "pip", "install", "--quiet", *packages])
        ready.touch()

    def version(self) -> str:
        """Return the version that is measured."""
        package = (self.package or "cepheid").partition("=")[0]
        text = f"import importlib.metadata as m; print(m.version({package!r}))"
        found = subprocess.run(
            [self.python, "-c", text], capture_output=True, text=True, check=True
        )
        return found.stdout.strip()

    def command(self, case: str, limit_s: float, rounds: int, stems: list[Path]) -> list[str]:
        """Return the command that measures a case."""
        files = ",".join(str(parquet_of(stem)) for stem in stems)
        child = ["-m", "benchmarks.peers.child", self.name, case, str(limit_s), str(rounds), files]
        return [str(self.python), *child]


@dataclass(frozen=True)
class JavaSystem:
    """Jars that Maven copies, and a program of this folder that is compiled with them.

    ``beside`` are other programs that it uses.
    """

    name: str
    title: str
    jars: str
    program: str
    artifact: str
    first_share: int = 100
    beside: tuple[str, ...] = ()

    @cached_property
    def texts(self) -> Any:
        """Return the module with the texts of the cases."""
        return importlib.import_module(f"benchmarks.peers.{self.name}_peer")

    @property
    def dashes(self) -> dict[str, str]:
        """Return the cases that the system cannot say, with the reasons."""
        found: dict[str, str] = self.texts.DASHES
        return found

    def install(self) -> None:
        """Fetch the jars, unless they are there, and compile the program."""
        for tool in ("java", "javac", "mvn"):
            if not shutil.which(tool):
                message = f"`{tool}` is missing"
                raise NotInstalledError(message)
        folder, pom = BUILD / self.jars, SOURCES / f"{self.jars}.xml"
        ready = folder / ".ready"
        if not ready.exists() or ready.stat().st_mtime < pom.stat().st_mtime:
            copy = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
            _call(self, [*copy, f"-DoutputDirectory={folder}"])
            ready.touch()
        sources = [str(SOURCES / f"{name}.java") for name in ("Runs", *self.beside, self.program)]
        classes = str(BUILD / f"{self.name}-classes")
        _call(self, ["javac", "-nowarn", "-cp", f"{folder}/*", "-d", classes, *sources])

    def version(self) -> str:
        """Return the version that is measured."""
        (jar,) = (BUILD / self.jars).glob(f"{self.artifact}-[0-9]*.jar")
        return jar.stem.removeprefix(f"{self.artifact}-")

    def command(self, case: str, limit_s: float, rounds: int, stems: list[Path]) -> list[str]:
        """Return the command that measures a case."""
        opens = [part for name in OPENS for part in ("--add-opens", name)]
        classes = f"{BUILD / f'{self.name}-classes'}{os.pathsep}{BUILD / self.jars}/*"
        files = ",".join(str(csv_of(stem)) for stem in stems)
        asked = [case, str(limit_s), str(rounds), files, *self.texts.VARIANTS[case]]
        return ["java", "-Xmx4g", *opens, "-cp", classes, self.program, *asked]


System = PythonSystem | JavaSystem
OURS = PythonSystem("cepheid", "Cepheid", first_share=100)
RIVALS: tuple[System, ...] = (
    PythonSystem("duckdb", "DuckDB", "duckdb"),
    PythonSystem("polars", "Polars", "polars"),
    PythonSystem("chdb", "chdb", "chdb"),
    JavaSystem("flink_sql", "Flink SQL", "flink", "FlinkSql", "flink-table-runtime"),
    JavaSystem("flink_cep", "Flink CEP", "flink", "FlinkCep", "flink-cep"),
    JavaSystem("esper", "Esper", "esper", "EsperPeer", "esper-runtime"),
    JavaSystem("siddhi", "Siddhi", "siddhi", "SiddhiPeer", "siddhi-core"),
)
SYSTEMS: dict[str, System] = {system.name: system for system in (OURS, *RIVALS)}


def _call(system: System, command: list[str]) -> None:
    """Run a command of an installation; the last line of its output says why it fails."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=INSTALL_LIMIT_S
    )
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        reason = next((line for line in said if "ERROR" in line), said[-1] if said else "")
        message = f"{system.title}: {command[0]} failed: {reason[:300]}"
        raise NotInstalledError(message)
