"""The arguments that queries and workloads share in, the source that the planner sees out."""

from __future__ import annotations

from collections.abc import Iterable

from cepheid import options
from cepheid.events.time_formats import as_format
from cepheid.expressions.own import OwnFunction
from cepheid.functions import functions_for
from cepheid.jobs.ticks import TICKS_NS
from cepheid.patterns.scope import Source


def source_of(
    time: str,
    type: str | None,  # noqa: A002  # fixed name
    tiebreak: Iterable[str],
    time_unit: str,
    time_format: str | None,
    functions: Iterable[OwnFunction] | None,
) -> Source:
    """Check the columns of events, and the functions that a text may call.

    Raises
    ------
    OptionError
        E590, E592 or E593.
    """
    kinds = "" if type is None else type
    options.texts(time=time, type=kinds)
    tiebreakers = options.names_in("tiebreak", tiebreak)
    options.one_of("time_unit", time_unit, TICKS_NS)
    form, known = as_format(time_format), functions_for(functions)
    return Source(time, kinds, tiebreakers, None, time_unit, time_format=form, functions=known)
