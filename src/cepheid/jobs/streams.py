"""Look up events by the names of streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cepheid.errors import DataError, Diagnostic, suggest_names
from cepheid.plans.plan import Plan


def named_streams(plan: Plan, events: Any) -> list[Any]:
    """Look up the input of each stream: one input for all streams, or a dict by name.

    Raises
    ------
    DataError
        E561 if a stream has no events.
    """
    names = plan.streams
    if not names:
        return [events]
    if not isinstance(events, Mapping):
        if len(set(names)) == 1:
            return [events] * len(names)
        different = list(dict.fromkeys(names))
        *others, last = (f"`{name}`" for name in different)
        message = f"the query reads {', '.join(others)} and {last}, but only one stream was given"
        given = ", ".join(f"'{name}': ..." for name in different)
        helps = (f"give {'both' if len(different) == 2 else 'all'}: `{{{given}}}`",)
        raise DataError([Diagnostic("E561", message, helps=helps)], plan.text)
    for name in names:
        if name not in events:
            message = f"there are no events for the stream `{name}`"
            known = [str(other) for other in events]
            near = suggest_names(name, known, owner="the dict")
            helps = (near if known else f"give them by their name: `{name}=...`",)
            raise DataError([Diagnostic("E561", message, helps=helps)], plan.text)
    return [events[name] for name in names]
