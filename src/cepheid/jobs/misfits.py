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


def other_buckets(before: int, now: int, *, setting: str) -> DataError:
    """Build the error for a checkpoint with another number of buckets.

    The states of groups lie in the buckets of the checkpoint, and cannot be moved to others.
    """
    many = "1 bucket" if before == 1 else f"{before} buckets"
    why = f"its groups lie in {many}, and now there are {now}"
    way_out = f"{setting}, or start anew with `cepheid stream --restart-from`"
    return misfit(why, way_out=way_out)
