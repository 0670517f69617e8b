"""Run the benchmarks and print their figures: ``make bench``."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # A script sees its own folder only; the modules import each other from the root.
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from benchmarks.suite import main

    sys.exit(main())
