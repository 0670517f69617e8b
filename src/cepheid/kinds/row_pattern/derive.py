"""Rows of a MATCH_RECOGNIZE clause as events of a derived stream (§15.3)."""

from __future__ import annotations

import msgspec

from cepheid.jobs.derived import TIME, Derivation, no_window, untimed_rows
from cepheid.kinds.row_pattern.live_plan import bind_live, why_not_planned_live
from cepheid.kinds.row_pattern.reach import reach_of
from cepheid.kinds.row_pattern.statement import read_statement
from cepheid.plans.plan import RowPatternPlan


def derive_row_pattern(plan: RowPatternPlan) -> Derivation:
    """Plan a clause whose rows are events; without the columns of events, less is checked.

    Raises
    ------
    UnsupportedError
        E412 without WITHIN, E415 if it is not known how long a row can wait for others.
    """
    (site,) = read_statement(plan.text, plan.functions).sites
    if site.clause.within is None:
        way_out = "add `WITHIN INTERVAL '10' MINUTE` after PATTERN (...)"
        no_window(plan, "without `WITHIN`, a match may wait for rows that never come", way_out)
    if plan.table_columns:
        _check_ahead(plan)
    row = "the last row of its match" if site.clause.rows == "one" else "its row"
    timed = msgspec.structs.replace(plan, timed=True)
    return Derivation(timed, (TIME,), (TIME,), at=f"{row}, up to WITHIN later than events")


def _check_ahead(plan: RowPatternPlan) -> None:
    """Refuse a clause whose rows may wait longer than WITHIN."""
    why = why_not_planned_live(plan)
    if why is not None:
        untimed_rows(plan, f"the clause cannot feed a stream: {why.message}", *why.helps)
    reach = reach_of(bind_live(plan))
    if reach.ahead or reach.beyond:
        what = "NEXT looks at a row behind, which may never come, so rows have no time"
        untimed_rows(plan, what, "look back by PREV, or compare rows of the pattern")
