"""MATCH_RECOGNIZE over streaming DataFrames: emit the rows of certain matches, each once.

Rows go to buckets by the keys of PARTITION BY and wait there for the watermark, as the events of
all live queries do (``stream.py``); ``kinds/row_pattern/steps.py`` then matches them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.kinds.row_pattern.live_plan import plan_live
from cepheid.kinds.row_pattern.live_rules import describe_live, why_not_live
from cepheid.kinds.row_pattern.live_text import why_not_around
from cepheid.options import LiveOptions
from cepheid.runtimes.spark.bad_records import events_schema
from cepheid.runtimes.spark.stream import Delays, check_records, check_stream, live_rows, set_up
from cepheid.spark.versions import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cepheid.kinds.row_pattern.plan import MatchPlan
    from cepheid.kinds.row_pattern.statement import Site, Statement


def live_frame(
    frame: DataFrame, statement: Statement, clause: MatchPlan, asked: LiveOptions | None
) -> tuple[DataFrame, DataFrame]:
    """Run a clause over a stream and return its rows and its bad records as DataFrames.

    Raises
    ------
    UnsupportedError
        E405 if there is no watermark, or the text cannot be live.
    """
    if asked is None:
        raise UnsupportedError([_no_watermark(statement.sites[0])], statement.text)
    schema = arrow_schema(events_schema(frame))
    found = why_not_around(statement)
    found = found or why_not_live(statement.sites[0].clause, clause, schema)
    if found is not None:
        raise UnsupportedError([found], statement.text)
    spark = frame.sparkSession
    # Over a table, times are in the zone of the session too: HOUR(ts) means the same.
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    set_up(spark)
    check_stream(frame, asked)
    plan = plan_live(statement, clause, schema, zone)
    delays = Delays.of(spark, asked)
    checked = check_records(frame, [plan], delays)
    return live_rows(checked.events(asked.bad), plan, delays).rows(), checked.bad()


def describe_stream(frame: DataFrame, statement: Statement, clause: MatchPlan) -> list[str]:
    """Describe how a clause runs over a stream, or why it does not."""
    schema = arrow_schema(events_schema(frame))
    around = why_not_around(statement)
    if around is not None:
        return [f"no: {around.message}", *(f"  {text}" for text in around.helps)]
    return describe_live(statement.sites[0].clause, clause, schema)


def _no_watermark(site: Site) -> Diagnostic:
    message = "this DataFrame is a stream, whose rows cannot be ordered without a watermark"
    helps = ("say how late rows may arrive: `cepheid.sql(spark, text, watermark='10 seconds')`",)
    return Diagnostic("E405", message, site.source, helps=helps)
