"""Run the benchmarks and print their figures: ``make bench``."""

from __future__ import annotations

import startup
from rich.console import Console
from rich.table import Table


def main() -> None:
    """Run one benchmark after the other."""
    table = Table(title="Start-up and planning, medians of 15", title_justify="left")
    table.add_column("what")
    table.add_column("figure", justify="right")
    for what, figure in startup.measure():
        table.add_row(what, figure)
    Console().print(table)


if __name__ == "__main__":
    main()
