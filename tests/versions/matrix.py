"""The table of versions: each supported pair of Spark and Python, in an environment of its own.

``make matrix`` makes the environments below ``build/matrix`` and runs ``tests.versions.cell`` in
each, with a classic session and over Spark Connect. A pair that passed is not run again until
``--again``: what was found is in ``tests/versions/cells.json``, and as a table in docs/spark.md.
``--python 3.14=PATH`` names an interpreter that is not on the search path; ``--only 4.0-3.11`` runs
one pair.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "spark.md"
BUILD = ROOT / "build" / "matrix"
DONE = Path(__file__).with_name("cells.json")
BEGIN, END = "<!-- versions: written by `make matrix` -->", "<!-- versions: end -->"

SPARKS = ("4.0", "4.1", "4.2", "4.3")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
UNSUPPORTED = {("4.0", "3.14"): "Spark 4.0 supports Python up to 3.13"}
"""Pairs that Spark does not support, by the classifiers of its packages."""

KINDS = {"classic": 2, "connect": 4}
"""Their parts of the exit code of a cell, if they fail."""
CELL_S = 3600
"""The longest time of a cell, on a busy machine."""


class Cell(msgspec.Struct, frozen=True):
    """A pair of versions that was tried."""

    spark: str
    python: str
    exact: str
    """The versions that were installed."""
    passed: dict[str, bool]
    minutes: float
    commit: str


def interpreter(python: str, given: dict[str, str]) -> str | None:
    """Find an interpreter: the given one, that of the search path, or one of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = [given.get(python), shutil.which(f"python{python}")]
    found += [str(path) for path in sorted(pyenv.glob(f"{python}.*/bin/python"))]
    for path in filter(None, found):
        code = f"import sys; sys.exit('%d.%d' % sys.version_info[:2] != '{python}')"
        if subprocess.run([path, "-c", code], capture_output=True, check=False).returncode == 0:
            return path
    return None


def install(spark: str, python: str, path: str) -> Path:
    """Make the environment of a pair, with the project as a user installs it."""
    place = BUILD / f"spark{spark}-python{python}"
    own = place / "bin" / "python"
    if not own.exists():
        subprocess.run([path, "-m", "venv", "--without-pip", str(place)], check=True)
    # uv takes a fraction of the time.
    if uv := shutil.which("uv"):
        installs, again = [uv, "pip", "install", "--python", str(own)], "--reinstall"
    else:
        installs = [sys.executable, "-m", "pip", "--python", str(own), "install"]
        again = "--force-reinstall"
    needs = [f"{ROOT}[spark]", f"pyspark[connect]=={spark}.*", "pytest", "hypothesis"]
    subprocess.run([*installs, "--quiet", *needs], check=True)
    # The wheel of a development version keeps its number, and the old one would stay.
    subprocess.run([*installs, "--quiet", again, "--no-deps", str(ROOT)], check=True)
    return own


def versions_in(own: Path) -> str:
    """Ask an environment for the versions that matter."""
    code = (
        "import sys; from importlib.metadata import version as v\n"
        "print('Python %d.%d.%d' % sys.version_info[:3], *(f'{n} {v(n)}' for n in "
        "('pyspark', 'numba', 'numpy', 'pyarrow', 'pandas')), sep=', ')"
    )
    done = subprocess.run([own, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit() -> str:
    """Return the commit of the working tree."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def run_cell(spark: str, python: str, path: str) -> Cell:
    """Run every way in the environment of a pair, which is not activated."""
    begun = time.monotonic()
    own = install(spark, python, path)
    # As for a user: no PYSPARK_PYTHON, and the environment is not on the search path.
    left_out = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "SPARK_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment |= {"PYTHONPATH": str(ROOT), "CEPHEID_KERNELS": "interpret"}
    environment["CEPHEID_CACHE"] = str(BUILD / f"kernels-python{python}")
    log = BUILD / f"spark{spark}-python{python}.log"
    with log.open("wb") as output:
        done = subprocess.run(
            [str(own), "-m", "tests.versions.cell"],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=CELL_S,
            check=False,
            cwd=BUILD,
        )
    # Another code is that of an error before or behind the ways.
    whole = done.returncode in range(0, sum(KINDS.values()) + 1, 2)
    passed = {kind: whole and not done.returncode & part for kind, part in KINDS.items()}
    minutes = (time.monotonic() - begun) / 60
    return Cell(spark, python, versions_in(own), passed, minutes, commit())


def pairs() -> list[tuple[str, str]]:
    """Return the pairs, those first that say most: the oldest Python, then the newest Spark."""
    every = [(s, p) for p in PYTHONS for s in SPARKS if (s, p) not in UNSUPPORTED]
    return sorted(every, key=lambda pair: (pair[1] != PYTHONS[0], pair[0] != SPARKS[-1], pair[0]))


def table(cells: Iterable[Cell]) -> str:
    """Write the table, with notes below."""
    known = {(cell.spark, cell.python): cell for cell in cells}
    lines = [f"| | {' | '.join(f'Python {p}' for p in PYTHONS)} |", f"|---|{'---|' * len(PYTHONS)}"]
    lines += [
        f"| Spark {s} | {' | '.join(_verdict(s, p, known) for p in PYTHONS)} |" for s in SPARKS
    ]
    ends = {"oldest": (SPARKS[0], PYTHONS[0]), "newest": (SPARKS[-1], PYTHONS[-1])}
    notes = [f"{reason}." for reason in UNSUPPORTED.values()]
    notes += [f"The {age} pair: {known[ends[age]].exact}." for age in ends if ends[age] in known]
    return "\n".join([*lines, "", "\n".join(notes)])


def _verdict(spark: str, python: str, known: dict[tuple[str, str], Cell]) -> str:
    if (spark, python) in UNSUPPORTED:
        return "not supported by Spark"
    cell = known.get((spark, python))
    if cell is None:
        return "not tried"
    failed = [kind for kind, passed in cell.passed.items() if not passed]
    verdict = f"**fails** ({', '.join(failed)})" if failed else "all ways, classic and Connect"
    return f"{verdict} ({cell.commit})"


def write_page(cells: Iterable[Cell]) -> None:
    """Put the table into the documentation."""
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    PAGE.write_text(f"{head}{BEGIN}\n\n{table(cells)}\n\n{END}{tail}", encoding="utf-8")


def say(text: str) -> None:
    """Print a line at once, as a cell takes minutes."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run the pairs that did not pass yet, print the table, and write it to the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", default=[], metavar="VERSION=PATH")
    parser.add_argument("--only", action="append", default=[], metavar="SPARK-PYTHON")
    parser.add_argument("--again", action="store_true")
    asked = parser.parse_args()
    given = dict(one.split("=", 1) for one in asked.python)
    BUILD.mkdir(parents=True, exist_ok=True)
    cells = msgspec.json.decode(DONE.read_bytes(), type=list[Cell]) if DONE.exists() else []
    known = {(cell.spark, cell.python): cell for cell in cells}
    for spark, python in pairs():
        cell = known.get((spark, python))
        if asked.only and f"{spark}-{python}" not in asked.only:
            continue
        if cell is not None and all(cell.passed.values()) and not asked.again:
            continue
        path = interpreter(python, given)
        if path is None:
            say(f"Spark {spark}, Python {python}: no interpreter; name it with --python")
            continue
        known[spark, python] = cell = run_cell(spark, python, path)
        say(f"{cell.exact}: {cell.passed}, {cell.minutes:.1f} minutes")
        cells = sorted(known.values(), key=lambda one: (one.spark, one.python))
        DONE.write_bytes(msgspec.json.format(msgspec.json.encode(cells)) + b"\n")
    say(table(known.values()))
    write_page(known.values())
    return 0 if all(all(cell.passed.values()) for cell in known.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
