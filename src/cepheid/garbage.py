"""Pause Python's search for garbage in cycles while many trees are built, which have none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections(*, kept: bool = False) -> Iterator[None]:
    """Pause the search: it walks all objects that are there, again and again as they get more.

    Thousands of rules are millions of objects, and a fourth of the time to read them went there.

    Parameters
    ----------
    kept
        Whether what is built stays to the end of the process; then later searches leave it out.

    Examples
    --------
    >>> with without_collections():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if kept:
            gc.freeze()
        if collects:
            gc.enable()
