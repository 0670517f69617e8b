"""The environment of programs that start a small cluster on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark

ROOT = Path(__file__).parents[2]


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """Return variables for a program; workers of a cluster write beside Spark's own files."""
    home = folder / "spark"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        **variables,
    }
