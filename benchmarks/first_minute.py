"""What a new user waits for: the first answer on a machine, later ones, and the smallest commands.

    python -m benchmarks.first_minute [--events 24000]

Ten kinds of query over real trades from the command line, each with an empty cache of kernels, then
once more with what the first run left, and with all kernels compiled where `cepheid warm` has run.
CPU seconds of the whole command, all its threads and children; rows that miss their bar come first.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from cepheid.kernels.warm import missing

TRADES = Path(__file__).resolve().parents[1] / "src/cepheid/data/trades.parquet"
BIN = Path(sys.executable).parent
FIRST_S, LATER_S, TRAILING_S = 1.5, 0.8, 6.0

QUERIES = {
    "count": "RETURN symbol, COUNT(*) PATTERN trade T+ WHERE [symbol] AND T.volume > 300 "
    "GROUP-BY symbol WITHIN 10 seconds SLIDE 10 seconds",
    "sliding": "RETURN COUNT(*), AVG(a.price) PATTERN SEQ(trade a+, trade b) "
    "WHERE a.symbol = 'BAC' AND b.symbol = 'SPY' WITHIN 60 seconds SLIDE 10 seconds",
    "trailing": "RETURN COUNT(*) PATTERN SEQ(trade a, trade b) "
    "WHERE a.symbol = 'AIG' AND b.symbol = 'SPY' WITHIN 10 seconds",
    "next-match": "RETURN COUNT(*) PATTERN SEQ(trade a, trade b+) SEMANTICS skip-till-next-match "
    "WHERE [symbol] AND b.price > 1.0001 * a.price WITHIN 60 seconds SLIDE 60 seconds",
    "falling": "RETURN symbol, COUNT(*), AVG(T.price) PATTERN trade T+ "
    "WHERE [symbol] AND T.price > NEXT(T).price GROUP-BY symbol WITHIN 60 seconds "
    "SLIDE 60 seconds",
    "negation": "RETURN COUNT(*) PATTERN SEQ(trade a, NOT trade c, trade b) "
    "WHERE a.symbol = 'BAC' AND b.symbol = 'SPY' AND c.symbol = 'AIG' WITHIN 60 seconds "
    "SLIDE 60 seconds",
    "matches": "RETURN MATCHES PATTERN SEQ(trade a, trade b) SEMANTICS skip-till-next-match "
    "WHERE a.symbol = 'AIG' AND b.symbol = 'SPY' WITHIN 10 seconds SLIDE 10 seconds",
    "situations": "FROM trades PARTITION BY symbol "
    "DEFINE high AS price > 40, large AS volume > 300 "
    "PATTERN high contains;overlaps;finished by large WITHIN 1 minute RETURN COUNT(large) AS n",
    "SELECT": "SELECT symbol, COUNT(*), AVG(price) FROM trades GROUP BY symbol WINDOW 10 seconds",
    "exact": "RETURN COUNT(*) PATTERN SEQ(trade a, trade b) "
    "WHERE [symbol] AND a.volume > 200 WITHIN 10 seconds SLIDE 10 seconds NUMBERS exact",
}


class Row(NamedTuple):
    """What was run, what it took and what it may take."""

    name: str
    cpu_s: float
    bar_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=24_000)
    rows = sorted(measure(parser.parse_args().events), key=lambda row: -row.cpu_s / row.bar_s)
    print(f"{'':34}{'CPU s':>8}{'bar':>7}{'ratio':>7}")
    for row in rows:
        missed = "  MISSED" if row.cpu_s > row.bar_s else ""
        ratio = row.cpu_s / row.bar_s
        print(f"{row.name:34}{row.cpu_s:8.2f}{row.bar_s:7.2f}{ratio:7.2f}{missed}")


def measure(events: int) -> Iterator[Row]:
    """Yield a row for every command."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        pq.write_table(tiled(events), home / "trades.parquet")
        cpu_s([str(BIN / "cepheid"), "--help"], home / "cache")  # Compiles Python's bytecode.
        yield Row("cepheid --help", cpu_s([str(BIN / "cepheid"), "--help"], home / "cache"), 0.2)
        importing = [sys.executable, "-c", "import cepheid"]
        yield Row("import cepheid", cpu_s(importing, home / "cache"), 0.06)
        for name, text in QUERIES.items():
            cache, query = home / name, home / f"{name}.cq"
            query.write_text(text)
            command = [str(BIN / "cepheid"), "run", str(query), "--output", str(home / "out.csv")]
            command += ["--input", str(home / "trades.parquet")]
            bar_s = TRAILING_S if name == "trailing" else FIRST_S
            yield Row(f"{name}, first", cpu_s(command, cache), bar_s)
            yield Row(f"{name}, later", cpu_s(command, cache), bar_s if bar_s > 2 else LATER_S)
            if not missing():
                yield Row(f"{name}, warm", cpu_s(command, None), LATER_S)


def tiled(events: int) -> pa.Table:
    """Return the bundled trades as often as needed, one after another in time."""
    trades = pq.read_table(TRADES)
    times = trades["ts"].cast(pa.int64()).to_numpy()
    length = int(times[-1] - times[0]) + 1_000_000
    pieces = []
    for copy in range(-(-events // len(trades))):
        shifted = pa.array(times + copy * length).cast(trades.schema.field("ts").type)
        pieces.append(trades.set_column(0, "ts", shifted))
    return pa.concat_tables(pieces).slice(0, events)


def cpu_s(command: list[str], cache: Path | None) -> float:
    """Run a command with a cache of kernels of its own, or the user's; return its CPU seconds."""
    environment = {**os.environ, "CEPHEID_KERNELS": "auto"}
    if cache is not None:
        environment["CEPHEID_CACHE"] = str(cache)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # An installed package is compiled.
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        message = f"{' '.join(command)} failed"
        raise RuntimeError(message)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
