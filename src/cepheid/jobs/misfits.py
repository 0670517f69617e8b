"""Refuse a checkpoint that another query, or another version of Cepheid, has written."""

from __future__ import annotations

from cepheid.errors import DataError, Diagnostic

NEW_CHECKPOINT = (
    "start the changed query anew, with `cepheid stream --restart-from` or a new checkpoint, or go "
    "back to the old one"
)


def misfit(why: str, *, way_out: str = NEW_CHECKPOINT) -> DataError:
    """Build the error for a checkpoint that another query has written."""
    message = f"the checkpoint does not fit the query: {why}"
    return DataError([Diagnostic("E524", message, helps=(way_out,))])
