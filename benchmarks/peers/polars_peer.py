"""The cases in Polars: a path in, a DataFrame out. Nothing of Cepheid is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

TYPE, TS, KEY, PRICE = pl.col("type"), pl.col("ts"), pl.col("key"), pl.col("price")
WIN = (TS // 10000).alias("win")
COUNT = pl.col("count")


def plus(path: str) -> Any:
    """Count in closed form: a B ends 2^a - 1 matches, a the number of A before it."""
    starts = (TYPE == "A").cast(pl.Int64).cum_sum().over("key", "win")
    ends = ((TYPE == "B").cast(pl.Float64) * (pl.lit(2.0).pow(pl.col("a")) - 1)).sum()
    events = pl.scan_parquet(path).select("key", "type", WIN).with_columns(a=starts)
    return events.group_by("key", "win").agg(count=ends).filter(COUNT > 0).select("key", "count")


def _abc() -> Any:
    ab = ((TYPE == "B").cast(pl.Float64) * (TYPE == "A").cast(pl.Float64).cum_sum()).cum_sum()
    return ((TYPE == "C").cast(pl.Float64) * ab).sum()


def seq(path: str) -> Any:
    """Count by sums that run within a group."""
    events = pl.scan_parquet(path).select("key", "type", WIN)
    counted = events.group_by("key", "win", maintain_order=True).agg(count=_abc())
    return counted.filter(COUNT > 0).select("key", "count")


def seq_over(path: str) -> Any:
    """Count by sums over windows, one after the other."""
    frame = pl.scan_parquet(path).select("key", "type", WIN)
    a = (TYPE == "A").cast(pl.Float64).cum_sum().over("key", "win")
    b = ((TYPE == "B").cast(pl.Float64) * pl.col("a")).cum_sum().over("key", "win")
    c = ((TYPE == "C").cast(pl.Float64) * pl.col("b")).sum()
    counted = frame.with_columns(a=a).with_columns(b=b).group_by("key", "win").agg(count=c)
    return counted.filter(COUNT > 0).select("key", "count")


def trailing(path: str) -> Any:
    """Count by sums that run within the last second of every event."""
    events = pl.scan_parquet(path).select("host", "ts", "type")
    rolling = events.rolling("ts", period="1000i", group_by="host", closed="right")
    counted = rolling.agg(TYPE.last().alias("last"), _abc().alias("count"))
    rows = counted.filter((pl.col("last") == "C") & (COUNT > 0))
    return rows.select("host", pl.col("ts").alias("window_end"), "count")


def _of(path: str, kind: str, key: str, name: str) -> Any:
    return pl.scan_parquet(path).filter(kind == TYPE).select(key, TS.alias(name)).set_sorted(name)


def within(path: str) -> Any:
    """Join by buckets of a second, each start in its own and the next."""

    def bucket(name: str) -> Any:
        return (pl.col(name) // 1000).alias("second")

    def both(frame: Any) -> Any:
        second = pl.col("a") // 1000
        return frame.with_columns(second=pl.concat_list(second, second + 1)).explode("second")

    a, b, c = (_of(path, kind, "host", kind.lower()) for kind in "ABC")
    keys = ["host", "second"]
    late = pl.col("a") + 1000
    ab = both(a).join(b.with_columns(bucket("b")), on=keys)
    ab = ab.filter((pl.col("b") > pl.col("a")) & (pl.col("b") < late)).drop("second")
    abc = both(ab).join(c.with_columns(bucket("c")), on=keys)
    abc = abc.filter((pl.col("c") > pl.col("b")) & (pl.col("c") < late))
    return abc.select("host", "a", "c")


def _following(left: Any, right: Any, key: str, name: str, after: str) -> Any:
    """Give each row the next row of its key; one that has none gets NULL."""
    return left.join_asof(
        right, left_on=after, right_on=name, by=key, strategy="forward",
        allow_exact_matches=False, coalesce=False, check_sortedness=False,
    )  # fmt: skip


def next_match(path: str) -> Any:
    """Join each A with the next B, and that with the next C."""
    a, b, c = (_of(path, kind, "host", kind.lower()) for kind in "ABC")
    found = _following(b, c, "host", "c", "b")
    found = _following(a, found, "host", "b", "a")
    return found.filter(pl.col("c") < pl.col("a") + 1000).select("host", "a", "c")


def runs(path: str) -> Any:
    """Put the first and last rows of runs side by side, without groups."""
    events = pl.scan_parquet(path).select("key", "ts", "price")
    same = KEY.shift(1) == KEY
    marked = (
        events.sort("key", maintain_order=True)
        .with_columns(falls=((PRICE.shift(1) > PRICE) & same).fill_null(value=False))
        .with_columns(
            goes_on=pl.col("falls").shift(-1).fill_null(value=False),
            closed=(KEY.shift(-1) == KEY).fill_null(value=False),
        )
        .collect()
        .lazy()
    )
    heads = marked.filter(~pl.col("falls") & pl.col("goes_on"))
    tails = marked.filter(pl.col("falls") & ~pl.col("goes_on"))
    both = pl.concat(
        [
            heads.select("key", TS.alias("begin"), PRICE.alias("p0")),
            tails.select(PRICE.alias("p1"), "closed"),
        ],
        how="horizontal",
    )
    return both.filter("closed").select("key", "begin", "p0", "p1")


def trends(path: str) -> Any:
    """Build every trend, one event longer in each round."""
    events = pl.read_parquet(path, columns=["key", "ts", "price"]).with_columns(WIN)
    following = events.select("key", "win", pl.col("ts").alias("t"), PRICE.alias("p"))
    grown = events.with_columns(n=pl.lit(1), s=PRICE)
    levels = []
    while len(grown):
        levels.append(
            grown.group_by("key", "win").agg(pl.len(), pl.col("n").sum(), pl.col("s").sum())
        )
        longer = grown.lazy().join(following.lazy(), on=["key", "win"])
        longer = longer.filter((pl.col("t") > TS) & (pl.col("p") < PRICE))
        s, n = pl.col("s") + pl.col("p"), pl.col("n") + 1
        grown = longer.select("key", "win", ts="t", price="p", n=n, s=s).collect()
    total = pl.concat(levels).lazy().group_by("key", "win").agg(pl.all().sum())
    average = pl.col("s") / pl.col("n")
    return total.select("key", pl.col("len").cast(pl.Float64).alias("count"), avg=average)


def funnel(path: str) -> Any:
    """Join each view with the next cart, and that with the next order."""
    v, c, o = (_of(path, kind, "key", kind) for kind in ("view", "cart", "order"))
    found = _following(c, o, "key", "order", "cart")
    found = _following(v, found, "key", "cart", "view")
    late = pl.col("view") + 300000
    level = (
        pl.when(pl.col("order") <= late).then(3).when(pl.col("cart") <= late).then(2).otherwise(1)
    )
    levels = found.group_by("key").agg(level=level.max())
    steps = [
        levels.select(pl.lit(step).alias("step"), keys=(pl.col("level") >= step).sum())
        for step in (1, 2, 3)
    ]
    return pl.concat(steps)


def absence(path: str) -> Any:
    """Join each order with the next payment."""
    orders, payments = _of(path, "order", "key", "ts"), _of(path, "payment", "key", "paid")
    found = _following(orders, payments, "key", "paid", "ts")
    late = pl.col("paid").is_null() | (pl.col("paid") >= TS + 60000)
    return found.filter(late).select("key", "ts")


def select(path: str) -> Any:
    """Aggregate groups of a key and a window."""
    groups = pl.scan_parquet(path).group_by("key", WIN)
    found = groups.agg(count=pl.len(), avg=PRICE.mean(), max=PRICE.max())
    return found.select("key", "count", "avg", "max")


VARIANTS: dict[str, tuple[Callable[[str], Any], ...]] = {
    "plus": (plus,),
    "seq": (seq, seq_over),
    "trailing": (trailing,),
    "within": (within,),
    "next": (next_match,),
    "runs": (runs,),
    "trends": (trends,),
    "funnel": (funnel,),
    "absence": (absence,),
    "select": (select,),
}
DASHES: dict[str, str] = {}


def answer(make: Callable[[str], Any], path: str) -> Any:
    """Return the rows of a query over a file."""
    return make(path).collect().to_arrow()
