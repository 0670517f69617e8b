"""``cepheid demo``: four questions about bundled events, each with its answer as a picture.

The first two run in this process. The other two need Spark: real trades, and a live stream.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as typed
from pyarrow import parquet

from cepheid.api import query
from cepheid.errors import CepheidError
from cepheid.interfaces.chart import bars, sparkline
from cepheid.interfaces.console import show
from cepheid.interfaces.demo_page import Section, page_of, svg_bars, svg_columns, svg_lines
from cepheid.runtimes.checkpoints import BUCKETS_SETTING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pc: Any = typed  # The stubs know no scalars beside arrays.

STEPS = ("visit", "product", "addcart", "order", "paid")
FUNNEL = f"RETURN FUNNEL(visit) PATTERN SEQ({', '.join(STEPS)})"
UNPAID = """RETURN O.ts AS ordered, O.visit AS visit, O.price AS total
PATTERN SEQ(order O, NOT paid P) WHERE [visit] WITHIN 1 day SLIDE 1 day"""
TRENDS = """RETURN symbol, COUNT(*) AS trends PATTERN trade T+
WHERE [symbol] AND T.price > NEXT(T).price GROUP-BY symbol
WITHIN 10 minutes SLIDE 10 minutes"""
ALERT = """RETURN visit, COUNT(*) AS tries, SUM(D.price) AS total
PATTERN declined D WHERE [visit] GROUP-BY visit HAVING COUNT(*) >= 3
WITHIN 2 minutes SLIDE 2 minutes"""
WATERMARK = "30 seconds"
HOURS = f"0h{'12h':>13}{'23h':>9}"
"""The hours below a line of a day."""

HALVES = 2
"""The files of the live stream: a micro-batch each."""

WITHOUT_SPARK = "{lacking} would add Spark: falling trends of real trades, and a live alert."


class Answer(NamedTuple):
    """A question, the query, what it found in words and pictures, and how long it took."""

    title: str
    text: str
    told: str
    picture: str
    drawn: str
    seconds: float


def tell_story(page: Path) -> None:
    """Answer all questions that this machine can run, print them, and write the page."""
    answers: list[Answer] = []

    def tell(answer: Answer) -> None:
        answers.append(answer)
        told = f"{answer.told} ({answer.seconds:.1f} s)"
        show(f"{len(answers)}  {answer.title}\n{_indented(answer.text)}")
        show(f"{_indented(answer.picture, 5)}\n   {told}\n")
        sys.stdout.flush()  # Spark takes seconds, in which people read.

    shop = parquet.read_table(_bundled("shop.parquet"))
    show(f"A made-up shop: {len(shop):,} events of a day, {_count(shop, 'visit'):,} visits.\n")
    tell(_timed(lambda: funnel(shop)))
    tell(_timed(lambda: unpaid(shop)))
    lacking = what_spark_lacks()
    note = ""
    if lacking:
        note = WITHOUT_SPARK.format(lacking=lacking)
        show(note)
    else:
        from cepheid.spark import session as spark_session

        with _quiet(), spark_session.session("local[2]", brief=True) as spark:
            tell(_timed(lambda: trends(spark)))
            tell(_timed(lambda: live_alert(spark, shop)))
    sections = [Section(a.title, a.text, a.told, a.drawn, a.seconds) for a in answers]
    _write(page, page_of(sections, note))
    show(f"{page} has the pictures. `cepheid explain` tells how a query runs, and why.")


def what_spark_lacks() -> str:
    """Name what Spark lacks on this machine; empty if it would start."""
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark (pip install 'cepheid[spark]')"
    from cepheid.spark.session import check_java

    try:
        if os.environ.get("SPARK_REMOTE") is None:
            check_java()
    except CepheidError:
        return "Java 17 (openjdk-17-jre-headless)"
    return ""


# ---------------------------------------------------------------------------------------
# The questions


def funnel(shop: pa.Table) -> Answer:
    """Count the visits that came as far as each step."""
    found = query(FUNNEL).run(shop)
    counts = [row["keys"] for row in found.to_pylist()]
    shares = [
        f"{step:<8} {100 * n / counts[0]:3.0f} %" for step, n in zip(STEPS, counts, strict=True)
    ]
    paid_s = found["median_time"][-1].as_py().total_seconds()
    told = (
        f"{counts[0]:,} visits, {counts[-1]:,} paid, half of them within {paid_s:.0f} s of their "
    )
    told += "order; in process"
    return Answer(
        "Funnel: how far do visits come?",
        FUNNEL,
        told,
        bars(shares, counts),
        svg_bars(shares, counts),
        0.0,
    )


def unpaid(shop: pa.Table) -> Answer:
    """List the orders that nobody paid."""
    found = query(UNPAID).run(shop)
    hours = pc.hour(found["ordered"]).to_pylist()
    counts = [hours.count(hour) for hour in range(24)]
    total = pc.sum(found["total"]).as_py() or 0.0
    first = found.slice(0, 1).to_pylist()[0]
    told = f"{len(found)} orders worth {total:,.2f}, the first at {first['ordered']:%H:%M} "
    told += f"by visit {first['visit']}; in process"
    picture = f"{sparkline(counts)}\n{HOURS}"
    drawn = svg_columns(counts, [f"{hour} h" for hour in range(24)])
    return Answer("Unpaid: which orders have no payment?", UNPAID, told, picture, drawn, 0.0)


def trends(spark: SparkSession) -> Answer:
    """Count the trends of falling prices among real trades, on Spark."""
    from cepheid.spark import session as spark_session

    compiled = query(TRENDS)
    path = _bundled("trades.parquet")
    found = spark_session.collect(compiled.run(path, spark=spark), compiled.plan)
    rows: list[Any] = found.to_pylist()
    windows = sorted({row["window_start"] for row in rows})
    series: dict[str, list[float]] = {}
    for row in rows:
        line = series.setdefault(row["symbol"], [0.0] * len(windows))
        line[windows.index(row["window_start"])] = row["trends"]
    most = max(row["trends"] for row in rows)
    told = f"up to {most:.1e} trends in ten minutes, counted, not built; real trades, on Spark"
    lines = [
        f"{name:<5}{sparkline(line, logarithmic=True)}  most {max(line):.3g}"
        for name, line in sorted(series.items())
    ]
    labels = [f"{window:%H:%M}" for window in windows]
    drawn = svg_lines(dict(sorted(series.items())), labels)
    title = "Trends: how many ways did a price fall?"
    return Answer(title, TRENDS, told, "\n".join(lines), drawn, 0.0)


def live_alert(spark: SparkSession, shop: pa.Table) -> Answer:
    """Raise an alert on a live stream when a card is declined three times in two minutes."""
    with tempfile.TemporaryDirectory(prefix="cepheid-demo-") as folder:
        rows = _live_rows(spark, shop, Path(folder))
    (alert,) = rows
    when = f"{alert['window_start']:%H:%M}"
    declined = shop.filter(pc.equal(shop["type"], "declined"))
    hours = pc.hour(declined["ts"]).to_pylist()
    counts = [hours.count(hour) for hour in range(24)]
    told = f"{when} ALERT visit {alert['visit']}: {alert['tries']:.0f} cards declined, "
    told += f"{alert['total']:,.2f}; one alert of {len(declined)} such cards, on Spark"
    picture = f"{sparkline(counts)}\n{HOURS}"
    labels = [f"{hour} h" for hour in range(24)]
    drawn = svg_columns(counts, labels, marked=alert["window_start"].hour)
    return Answer("Live: who tries one card after another?", ALERT, told, picture, drawn, 0.0)


def _live_rows(spark: SparkSession, shop: pa.Table, folder: Path) -> list[dict[str, Any]]:
    """Run the alert over files that arrive one after the other."""
    from cepheid.spark.session import keep_checkpoints_local

    source, checkpoint = folder / "events", folder / "checkpoint"
    source.mkdir()
    size = -(-len(shop) // HALVES)
    for number in range(HALVES):
        parquet.write_table(shop.slice(number * size, size), source / f"{number}.parquet")
    keep_checkpoints_local(spark, str(checkpoint))
    for setting in ("spark.sql.shuffle.partitions", BUCKETS_SETTING):
        spark.conf.set(setting, "2")  # As many tasks as cores; Spark's default is 200.
    schema = spark.read.parquet(str(source)).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    rows = query(ALERT).stream(reader.parquet(str(source)), watermark=WATERMARK)
    found: list[dict[str, Any]] = []

    def keep(batch: Any, _number: int) -> None:
        found.extend(batch.toArrow().to_pylist())

    writer = rows.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(keep)
    writer.trigger(availableNow=True).start().awaitTermination()
    return found


# ---------------------------------------------------------------------------------------
# How they are told


def _timed(answer: Callable[[], Answer]) -> Answer:
    start = time.perf_counter()
    return answer()._replace(seconds=time.perf_counter() - start)


def _quiet() -> Any:
    return warnings.catch_warnings(action="ignore")


def _bundled(name: str) -> str:
    return str(resources.files("cepheid").joinpath(f"data/{name}"))


def _count(shop: pa.Table, kind: str) -> int:
    return int(pc.sum(pc.equal(shop["type"], kind)).as_py())


def _indented(text: str, blanks: int = 3) -> str:
    return "\n".join(" " * blanks + line for line in text.splitlines())


def _write(page: Path, text: str) -> None:
    """Write the page atomically."""
    page.parent.mkdir(parents=True, exist_ok=True)
    temporary = page.with_name(f".{page.name}.{os.getpid()}")
    try:
        temporary.write_text(text, "utf-8")
        temporary.replace(page)
    finally:
        temporary.unlink(missing_ok=True)
