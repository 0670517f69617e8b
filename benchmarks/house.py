"""How far a query travels through the source: functions, files, and switches between files.

    python -m benchmarks.house

A query runs in process from the command line, as a live query on Spark and as SQL. Every call of a
function of Cepheid on the way is counted, without kernels, which run as machine code where it
matters, and without those of tasks, which run in other processes. A question is a test on the kind
of a plan outside of the rooms of kinds.
"""

from __future__ import annotations

import ast
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

import cepheid

SOURCE = Path(cepheid.__file__).parent
TEXT = "RETURN sector, COUNT(*), AVG(S.price) PATTERN Stock S+ WHERE [company, sector] "
TEXT += "AND S.price > NEXT(S).price GROUP-BY sector WITHIN 10 seconds SLIDE 10 seconds"
SQL = """SELECT * FROM ticks MATCH_RECOGNIZE (
    PARTITION BY sector ORDER BY ts MEASURES LAST(A.price) AS low
    PATTERN (A+ B) DEFINE A AS price < 5, B AS price >= 5)"""
KINDS = ("TrendPlan", "SituationPlan", "SelectPlan", "RowPatternPlan")


class Way(NamedTuple):
    """What one way through the source touches."""

    functions: int
    files: int
    switches: int


def travel(run: Callable[[], Any]) -> Way:
    """Run something and return what it touches."""
    functions: set[CodeType] = set()
    files: set[str] = set()
    switches = 0
    last = ""
    inside = str(SOURCE)

    def see(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal switches, last
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(inside) or "/kernels/" in name:
            return
        functions.add(frame.f_code)
        files.add(name)
        switches += name != last
        last = name

    sys.setprofile(see)
    try:
        run()
    finally:
        sys.setprofile(None)
    return Way(len(functions), len(files), switches)


def events() -> pa.Table:
    """Return a few trades."""
    count = 40
    return pa.table(
        {
            "ts": pa.array([n * 1_000_000 for n in range(count)]).cast(pa.timestamp("us", "UTC")),
            "type": ["Stock"] * count,
            "company": [n % 3 for n in range(count)],
            "sector": ["a", "b"] * (count // 2),
            "price": [float(n * 7 % 11) for n in range(count)],
        }
    )


def questions() -> dict[str, int]:
    """Return how often each file asks of what kind a plan is."""
    found: dict[str, int] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        if path.is_relative_to(SOURCE / "kinds"):
            continue
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        count = sum(_asks(node) for node in nodes)
        if count:
            found[str(path.relative_to(SOURCE))] = count
    return found


def _asks(node: ast.AST) -> bool:
    """Return whether a node tests on a kind, or narrows a plan to one."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        narrows = node.func.attr == "of" and isinstance(node.func.value, ast.Name)
        return narrows and ast.unparse(node.func.value) in KINDS
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        kinds = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        return node.func.id == "isinstance" and bool(kinds & set(KINDS))
    return isinstance(node, ast.MatchClass) and getattr(node.cls, "id", "") in KINDS


def main() -> None:
    """Print the ways, and where a plan is asked for its kind."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[1]").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in"
        source.mkdir()
        parquet.write_table(events(), source / "e.parquet")
        path = str(source / "e.parquet")
        frame = spark.read.parquet(path)
        stream = spark.readStream.schema(frame.schema).parquet(str(source))
        frame.createOrReplaceTempView("ticks")
        ways = {
            "cepheid run": lambda: cepheid.query(TEXT).run(path),
            "q.stream": lambda: cepheid.query(TEXT).stream(stream, watermark="1 second"),
            "cepheid.sql": lambda: cepheid.sql(spark, SQL),
        }
        sys.stdout.write(f"{'way':<14}{'functions':>10}{'files':>8}{'switches':>10}\n")
        for name, run in ways.items():
            run()  # Modules are loaded once.
            way = travel(run)
            sys.stdout.write(f"{name:<14}{way.functions:>10}{way.files:>8}{way.switches:>10}\n")
    spark.stop()
    asked = questions()
    lines = sum(len(p.read_text(encoding="utf-8").splitlines()) for p in SOURCE.rglob("*.py"))
    total = sum(asked.values())
    sys.stdout.write(f"\n{lines:,} lines; {total} questions about the kind of a plan\n")
    for name, count in sorted(asked.items(), key=lambda pair: -pair[1]):
        sys.stdout.write(f"{count:>4}  {name}\n")


if __name__ == "__main__":
    main()
