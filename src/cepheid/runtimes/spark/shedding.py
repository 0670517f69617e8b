"""Check whether a live query may shed events, and describe how."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pyarrow as pa

from cepheid.jobs.marks import CARRIED
from cepheid.jobs.shedding import SHED, Shed
from cepheid.language import tree
from cepheid.options import LiveOptions, refuse, texts, unused
from cepheid.plans.plan import OutputKind, Plan, SelectPlan, TrendPlan, WindowKind
from cepheid.plans.selection import Extent, SelectKind

if TYPE_CHECKING:
    from collections.abc import Callable

SHED_FIELD = pa.field(SHED, pa.int64())
OTHERS = "only aggregates of a SELECT or of trends in windows of time have a number for what is missing"  # fmt: skip  # noqa: E501

HAVING = "HAVING would be asked of a part of a window"


def shed_of(
    plan: Plan, asked: LiveOptions, results: pa.Schema, delay_of: Callable[[str], int]
) -> Shed | None:
    """Describe how a query sheds events, if that was asked for.

    Raises
    ------
    OptionError
        E591 if the query would not be meaningful without some of its events, E592 if there is no
        folder for notes.
    """
    if asked.shed is None:
        refuse_notes(asked)
        return None
    why = why_not_shed(plan) or _why_not_with(asked)
    if not why and SHED in results.names:
        why = f"a column of its rows is named `{SHED}`"
    if why:
        unused(SHED, why)
    if asked.shed_notes is None:
        message = "shed needs a folder in which it is noted what is dropped, and from when on"
        refuse("E592", message, 'add `shed_notes="/shared/state/shed"`, which all workers see')
    texts(shed_notes=asked.shed_notes)
    allowed_ms = delay_of(asked.shed) // 1000
    if allowed_ms < 1:
        refuse("E590", f"shed is what a micro-batch may take, at least 1 ms, not {asked.shed!r}")
    names = plan.partition.group_by
    if isinstance(plan, SelectPlan):
        window, shown = plan.select.window, tuple(key.name for key in plan.select.keys)
        lengths = window.within, window.slide
    else:
        assert isinstance(plan, TrendPlan), "others are refused"
        shown, lengths = names, (plan.window.within, plan.window.slide)
    return Shed(asked.shed_notes, allowed_ms, names, shown, *lengths, math.gcd(*lengths))


def refuse_notes(asked: LiveOptions) -> None:
    """Refuse a folder of notes if nothing is dropped."""
    if asked.shed_notes is not None:
        unused("shed_notes", "nothing is dropped", 'add `shed="2 seconds"`')


def refuse_shedding(asked: LiveOptions, why: str = OTHERS) -> None:
    """Refuse the option where no events are dropped."""
    if asked.shed is not None:
        unused(SHED, why)
    refuse_notes(asked)


def why_not_shed(plan: Plan) -> str:
    """Explain why a query is not meaningful without some of its events; empty if it is."""
    if isinstance(plan, SelectPlan):
        select = plan.select
        if select.kind is not SelectKind.AGGREGATE or select.window.extent is not Extent.TIME:
            return OTHERS
        return HAVING if select.having is not None else ""
    if not isinstance(plan, TrendPlan) or plan.output.kind is not OutputKind.AGGREGATES:
        return OTHERS
    if plan.window.kind not in (WindowKind.SLIDING, WindowKind.TUMBLING) or plan.emits_early:
        return "only windows with SLIDE that leave once have a number for what is missing"
    if plan.output.having is not None:
        return HAVING
    if any(template.guards for template in plan.patterns):
        return "without some events, NOT would find matches that there are not"
    if plan.semantics is not tree.Semantics.ANY_MATCH or plan.skip is not None:
        return "without some events, others would follow each other: only SEMANTICS any loses matches alone"  # fmt: skip  # noqa: E501
    if not plan.partition.group_by:
        return "events without GROUP-BY go to all buckets by their panes"
    return ""


def _why_not_with(asked: LiveOptions) -> str:
    if asked.late != "drop":
        return "late events would be told from those that were dropped"
    if asked.marks or asked.watermark == CARRIED:
        return "queries that follow would not know what is missing"
    if asked.hot_keys is not None:
        return "hot keys are split instead: leave one of the two out"
    return ""
