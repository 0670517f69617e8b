"""Write the bundled samples of real data: ``spy``, ``web`` and ``departures``.

python examples/make_samples.py 20131010_trade.zip apache_logs flights-3m.parquet

The first file is ``Data/equity/usa/tick/spy/20131010_trade.zip`` of QuantConnect/Lean, the second
``Common Data Formats/apache_logs/apache_logs`` of elastic/examples, both Apache-2.0; the third is
``data/flights-3m.parquet`` of the package vega-datasets, BSD-3-Clause.
"""

from __future__ import annotations

import csv
import io
import re
import sys
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

DATA = Path(__file__).parent.parent / "src/cepheid/data"
DAY = datetime(2013, 10, 10)
"""The exchange tells local times."""
CLOSE_MS = 16 * 3600 * 1000
PRICE_SCALE = 10_000
LINE = re.compile(
    r'(?P<host>\S+) \S+ \S+ \[(?P<time>[^\]]+)\] "\S+ (?P<path>\S+)[^"]*" (?P<status>\d+) '
    r'\S+ "[^"]*" "(?P<agent>[^"]*)'
)
ROBOT = re.compile("bot|crawl|spider|slurp|ezooms", re.IGNORECASE)
SECTIONS = ["articles", "blog", "files", "misc", "presentations", "projects", "scripts"]
KINDS = {
    "robots": re.compile(r"/robots\.txt$"),
    "home": re.compile(r"/(index\.html)?$"),
    "image": re.compile(r".*\.(png|jpe?g|gif|ico|svg)$"),
    "asset": re.compile(r".*\.(css|js|ttf|woff|xsl)$"),
}


def make_trades(archive: Path) -> pa.Table:
    """Read the trades after the market closed, with the vendor's mark of suspicious ones."""
    with zipfile.ZipFile(archive) as packed:
        text = packed.read(packed.namelist()[0]).decode()
    rows = [row for row in csv.reader(io.StringIO(text)) if int(row[0]) >= CLOSE_MS]
    count = len(rows)
    return pa.table(
        {
            "ts": pa.array(
                [DAY + timedelta(milliseconds=int(row[0])) for row in rows], pa.timestamp("us")
            ),
            "type": ["trade"] * count,
            "symbol": ["SPY"] * count,
            "trade_id": pa.array(range(1, count + 1), pa.int32()),
            "price": [int(row[1]) / PRICE_SCALE for row in rows],
            "volume": pa.array([int(row[2]) for row in rows], pa.int32()),
            "suspicious": [row[5] != "0" for row in rows],
        }
    )


def kind_of(path: str) -> str:
    """Sort a path: a page's section, or what else is asked for."""
    bare = path.partition("?")[0]
    for name, form in KINDS.items():
        if form.match(bare):
            return name
    section = bare.strip("/").partition("/")[0]
    return section if section in SECTIONS else "other"


def make_requests(log: Path) -> pa.Table:
    """Read the requests in their order. Hosts become numbers; the log has lost its minutes."""
    found = [LINE.match(line) for line in log.read_text(encoding="utf-8").splitlines() if line]
    asked = [one.groupdict() for one in found if one]
    assert len(asked) == len(found), "a line has another form"
    numbers: dict[str, int] = {}
    clients = [numbers.setdefault(one["host"], len(numbers) + 1) for one in asked]
    robots = {n for n, one in zip(clients, asked, strict=True) if ROBOT.search(one["agent"])}
    times = [datetime.strptime(one["time"], "%d/%b/%Y:%H:%M:%S %z") for one in asked]
    hours = [time.astimezone(UTC).replace(minute=0, second=0, tzinfo=None) for time in times]
    table = pa.table(
        {
            "ts": pa.array(hours, pa.timestamp("us")),
            "type": [kind_of(one["path"]) for one in asked],
            "client": pa.array(clients, pa.int32()),
            "status": pa.array([int(one["status"]) for one in asked], pa.int16()),
            "robot": [n in robots for n in clients],
        }
    )
    order = sorted(range(len(hours)), key=hours.__getitem__)
    return table.take(pa.array(order))


def make_departures(flights: Path) -> pa.Table:
    """Read four winter days of four large airports."""
    days = [("date", ">=", datetime(2001, 2, 22)), ("date", "<", datetime(2001, 2, 26))]
    airports = ("origin", "in", ["DFW", "EWR", "JFK", "ORD"])
    table = parquet.read_table(flights, filters=[*days, airports])
    return pa.table(
        {
            "ts": table["date"],
            "type": ["departure"] * len(table),
            "origin": table["origin"].cast(pa.string()),
            "delay": table["delay"].cast(pa.int16()),
        }
    ).sort_by("ts")


def main() -> None:
    """Write the samples."""
    trades, requests, flights = map(Path, sys.argv[1:])
    made = {
        "spy": make_trades(trades),
        "web": make_requests(requests),
        "departures": make_departures(flights),
    }
    for name, table in made.items():
        parquet.write_table(table, DATA / f"{name}.parquet", compression="zstd")


if __name__ == "__main__":
    main()
