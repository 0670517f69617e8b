"""Write the licences of everything that `pip install 'cepheid[...]'` can bring along.

python requirements/licences.py > requirements/licences.md

Reads the metadata of what is installed, so it runs in the environment of `make dev`. A package that
is not installed there, such as the libraries of CUDA, is listed as not read.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

LOCK = Path(__file__).with_name("run.txt")
NAMED = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)
LONG = 60
"""Some packages put the whole text of their licence where its name belongs."""


def licence(name: str) -> str:
    """Return the licence that a package states, by its expression, classifiers or field."""
    try:
        told = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return "not read: not installed with the development tools"
    if expression := told.get("License-Expression"):
        return expression
    classified = [c.split(" :: ")[-1] for c in told.get_all("Classifier", []) if "License ::" in c]
    field = (told.get("License") or "").strip().splitlines()
    short = field[0] if field and len(field[0]) <= LONG else ""
    return ", ".join(classified) or short or "see the package"


def main() -> None:
    """Print a table, one line a package."""
    lines = [
        "# Licences",
        "",
        "What Cepheid and its extras install, from `requirements/run.txt`.",
    ]
    lines += ["Written by `make lock`.", "", "| package | version | licence |", "|---|---|---|"]
    pairs = sorted(set(NAMED.findall(LOCK.read_text("utf-8"))), key=lambda pair: pair[0].lower())
    lines += [f"| {name} | {version} | {licence(name)} |" for name, version in pairs]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
