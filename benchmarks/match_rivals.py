"""Falling prices by hand in other systems, for a Python that has them: a table in, runs out.

No rival here has MATCH_RECOGNIZE: a run is a group of rows since the last price that did not fall
(gaps and islands). The results are the rows of all runs, as ours are.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

Run = Callable[[], dict[str, Any]]

ISLANDS = """
    WITH l AS (
        SELECT company, seq, price, lag(price) OVER w AS pp, lead(price) OVER w AS np
        FROM e WINDOW w AS (PARTITION BY company ORDER BY seq)
    ), g AS (
        SELECT *, sum(CASE WHEN NOT coalesce(price < pp, false) THEN 1 ELSE 0 END)
            OVER (PARTITION BY company ORDER BY seq ROWS UNBOUNDED PRECEDING) AS grp FROM l
    ), r AS (
        SELECT company, grp, count(*) AS len, arg_min(price, seq) AS p0, arg_max(price, seq) AS p1,
            max(CASE WHEN np IS NULL THEN 1 ELSE 0 END) AS is_open FROM g GROUP BY company, grp
    )
    SELECT company, len, p0, p1 FROM r WHERE len > 1 AND is_open = 0"""


def duckdb(table: pa.Table) -> Run:
    """Return DuckDB with the events in a table of its own."""
    db: Any = importlib.import_module("duckdb")

    connection = db.connect(config={"threads": 2})
    connection.register("arrow", table)
    connection.execute("CREATE TABLE e AS SELECT * FROM arrow")

    def run() -> dict[str, Any]:
        connection.execute(f"CREATE OR REPLACE TEMP TABLE runs AS {ISLANDS}")
        (row,) = connection.execute("SELECT count(*), sum(len), sum(p0 - p1) FROM runs").fetchall()
        return {"matches": row[0], "check": [int(value) for value in row], "ok": True}

    return run


def polars(table: pa.Table) -> Run:
    """Return Polars: groups of rows since the last price that did not fall."""
    pl: Any = importlib.import_module("polars")

    frame: Any = pl.from_arrow(table)
    price = pl.col("price")

    def run() -> dict[str, Any]:
        steps = (
            frame.lazy()
            .sort("company", "seq")
            .with_columns(
                before=price.shift(1).over("company"), after=price.shift(-1).over("company")
            )
        )
        falls = (price < pl.col("before")).fill_null(value=False)
        runs = (
            steps.with_columns(run=(~falls).cast(pl.Int64).cum_sum())
            .group_by("run")
            .agg(
                pl.col("company").first(), pl.len().alias("len"), price.first().alias("p0"),
                price.last().alias("p1"), pl.col("after").is_null().any().alias("open"),
            )
            .filter((pl.col("len") > 1) & ~pl.col("open"))
            .collect()
        )  # fmt: skip
        return _checked(runs)

    return run


def polars_ends(table: pa.Table) -> Run:
    """Return Polars without groups: the first and last rows of runs, side by side."""
    pl: Any = importlib.import_module("polars")

    frame: Any = pl.from_arrow(table)
    price, company = pl.col("price"), pl.col("company")

    def run() -> dict[str, Any]:
        ordered = frame.sort("company", maintain_order=True).lazy().with_row_index("place")
        same = company == company.shift(1)
        marked = ordered.with_columns(
            falls=((price < price.shift(1)) & same).fill_null(value=False)
        ).with_columns(
            goes_on=pl.col("falls").shift(-1).fill_null(value=False),
            closed=(company.shift(-1) == company).fill_null(value=False),
        )
        heads = marked.filter(~pl.col("falls") & pl.col("goes_on"))
        tails = marked.filter(pl.col("falls") & ~pl.col("goes_on"))
        both = pl.concat(
            [
                heads.select("company", price.alias("p0"), pl.col("place").alias("begin")),
                tails.select(price.alias("p1"), pl.col("place").alias("end"), "closed"),
            ],
            how="horizontal",
        )
        length = (pl.col("end") - pl.col("begin") + 1).alias("len")
        return _checked(both.filter("closed").select("company", length, "p0", "p1").collect())

    return run


def _checked(runs: Any) -> dict[str, Any]:
    check = [len(runs), int(runs["len"].sum()), int((runs["p0"] - runs["p1"]).sum())]
    return {"matches": len(runs), "check": check, "ok": True}


RIVALS: dict[str, Callable[[pa.Table], Run]] = {
    "duckdb": duckdb,
    "polars": polars,
    "polars-ends": polars_ends,
}
