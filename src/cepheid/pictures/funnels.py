"""Draw the result of a funnel: a bar for every step, with the share that comes so far."""

from __future__ import annotations

import pyarrow as pa

from cepheid.errors import DataError, Diagnostic
from cepheid.pictures.axes import Spec, spec_of
from cepheid.pictures.dots import label

GROUPS_MAX = 12
_WHOLE: Spec = {"tickMinStep": 1, "tickCount": 6}
_STEPS = ("step", "variable", "keys", "share_of_first")


def is_funnel(table: pa.Table) -> bool:
    """Check whether a table is the result of a funnel."""
    return set(_STEPS) <= set(table.column_names)


def funnel_of(table: pa.Table) -> tuple[Spec, str]:
    """Draw a funnel, one below the other for groups; return what it leaves out, too.

    Raises
    ------
    DataError
        E582 if the result is none of `RETURN FUNNEL`.
    """
    if not is_funnel(table) or not len(table):
        message = "there is nothing to draw: the result is that of no funnel"
        helps = ("write `RETURN FUNNEL(session) PATTERN SEQ(view v, cart c, buy b)`",)
        raise DataError([Diagnostic("E582", message, helps=helps)])
    groups = table.column_names[: table.column_names.index("step")]
    rows = [
        {
            "group": label([row[name] for name in groups]),
            "step": f"{row['step']} {label([row['variable']])}",
            "order": row["step"],
            "keys": row["keys"],
            "share": "" if row["share_of_first"] is None else f"{row['share_of_first']:.0%}",
        }
        for row in table.to_pylist()
    ]
    known = list(dict.fromkeys(row["group"] for row in rows))
    shown = [row for row in rows if row["group"] in set(known[:GROUPS_MAX])]
    note = f"the funnel has the first {GROUPS_MAX} of {len(known):,} groups"
    encoding: Spec = {
        "y": {"field": "step", "sort": {"field": "order"}, "title": None},
        "x": {"field": "keys", "type": "quantitative", "title": "keys", "axis": _WHOLE},
    }
    text = {"type": "text", "align": "left", "dx": 4}
    layers: list[Spec] = [
        {"mark": {"type": "bar", "cornerRadiusEnd": 3}},
        {"mark": text, "encoding": {"text": {"field": "share"}}},
    ]
    one: Spec = {"width": 520, "layer": layers, "encoding": encoding}
    if not groups:
        return spec_of(shown, **one), ""
    facet = {"row": {"field": "group", "title": " ".join(groups)}}
    return spec_of(shown, facet=facet, spec=one), note * (len(known) > GROUPS_MAX)
