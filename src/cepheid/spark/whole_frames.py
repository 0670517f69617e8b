"""Refuse streaming DataFrames where a function needs all events before it can answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cepheid.errors import Diagnostic, UnsupportedError

if TYPE_CHECKING:
    from cepheid.errors import Span

STREAM_WAY_OUT = "use `stream`: `q.stream(events, watermark='10 seconds')`"


def refuse_stream(
    events: Any, what: str, way_out: str, text: str = "", span: Span | None = None
) -> None:
    """Refuse a streaming DataFrame; accept all other events.

    Otherwise Spark would compute a separate, wrong result for each micro-batch.

    Parameters
    ----------
    events
        Events of any kind.
    what
        The function that reads them, as the start of a sentence.
    way_out
        The code to write instead.
    text, span
        The query, and the place where it names the events.

    Raises
    ------
    UnsupportedError
        E405.
    """
    if getattr(events, "isStreaming", False) is True:
        message = f"{what} reads all events before it answers, but this DataFrame is a stream"
        found = Diagnostic("E405", message, span, helps=(way_out,))
        raise UnsupportedError([found], text)


def refuse_stream_of_query(events: Any, text: str) -> None:
    """Refuse a streaming DataFrame for ``run`` of a query."""
    refuse_stream(events, "`run`", STREAM_WAY_OUT, text)
