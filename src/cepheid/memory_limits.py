"""Limits on the memory of a run; a run that exceeds them stops with an error.

A pattern of a few words can have more matches than there are atoms. Rows that go to a file or to a
stream are written as they are found and have no limit. Limits apply to collected results, and to
the state that is kept to find further matches. They count rows and bytes and never seconds, so a
run stops at the same place on every machine.

The defaults keep a run within 2 GB of memory and, on a usual core, a few seconds. A collected
result takes a quarter of that and may be copied once; a step takes as much for its input and its
output while a result waits. Listing 50 million matches takes about as long as listing half a GiB of
them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Never

import msgspec

from cepheid.errors import DataError, Diagnostic
from cepheid.options import refuse

VARIABLE = "CEPHEID_LIMITS"
"""The environment variable that sets limits for a whole process: ``bytes=8000000000,rows=1000``."""


class Limits(msgspec.Struct, frozen=True):
    """The limits of a run.

    Attributes
    ----------
    rows, bytes
        The size of a collected result.
    state
        Bytes of matches that a single step finds, or must remember to find others.
    situations
        Situations that are kept, of all definitions and partitions; the default is some gigabytes.
    """

    rows: int = 50_000_000
    bytes: int = 1 << 29
    state: int = 1 << 28
    situations: int = 20_000_000


_USUAL = Limits()

_CURRENT: ContextVar[Limits | None] = ContextVar("cepheid_limits", default=None)


def current() -> Limits:
    """Return the limits in force."""
    found = _CURRENT.get()
    return found if found is not None else _from_environment(os.environ.get(VARIABLE, ""))


def is_usual(name: str) -> bool:
    """Check whether nobody has set a limit."""
    return bool(getattr(current(), name) == getattr(_USUAL, name))


@contextmanager
def limits(**changed: int) -> Iterator[Limits]:
    """Set limits for the runs inside a ``with`` block.

    Parameters
    ----------
    rows, bytes
        The size of a collected result: 50 million rows and 512 MiB by default.
    state
        Bytes of matches that a single step finds: 256 MiB by default.
    situations
        Situations that are kept: 20 million by default.

    Raises
    ------
    OptionError
        E590 if there is no such limit, E592 if it is not a positive number.

    Examples
    --------
    >>> import cepheid, pyarrow as pa
    >>> events = pa.table({"ts": range(100), "type": ["A"] * 100})
    >>> with cepheid.limits(rows=1_000):
    ...     cepheid.query("RETURN MATCHES PATTERN A+").run(events)  # 2^100 - 1 matches
    Traceback (most recent call last):
    cepheid.errors.DataError: error[E518]: the result has more than 1,000 rows
      = help: `matches` and `--output` have no limit, LIMIT asks for fewer rows, and `with cepheid.limits(rows=...)` raises it
    """  # noqa: E501  # a line of a message
    before = _CURRENT.set(_checked(current(), changed))
    try:
        yield current()
    finally:
        _CURRENT.reset(before)


def _from_environment(text: str) -> Limits:
    changed: dict[str, Any] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, number = part.partition("=")
        changed[name.strip()] = int(number) if number.strip().isdigit() else number
    return _checked(_USUAL, changed)


def _checked(base: Limits, changed: dict[str, Any]) -> Limits:
    for name, value in changed.items():
        if name not in Limits.__struct_fields__:
            known = ", ".join(Limits.__struct_fields__)
            refuse("E590", f"there is no limit `{name}`", f"limits are {known}")
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            refuse("E592", f"the limit `{name}` is a positive whole number, not {value!r}")
    return msgspec.structs.replace(base, **changed)


class Gathered:
    """Counts the rows and bytes that the threads of a run collect together."""

    def __init__(self) -> None:
        self._rows = self._size = 0
        self._lock = threading.Lock()

    def add(self, table: Any) -> None:
        """Count an Arrow table.

        Raises
        ------
        DataError
            E518
        """
        with self._lock:
            self._rows, self._size = self._rows + len(table), self._size + table.nbytes
            rows, size = self._rows, self._size
        check_rows(rows, size / max(rows, 1))


def collect(tables: Iterable[Any], gathered: Gathered | None = None) -> list[Any]:
    """Collect Arrow tables as long as they, and what was gathered before, are within the limits.

    Raises
    ------
    DataError
        E518
    """
    gathered = gathered or Gathered()
    found: list[Any] = []
    for table in tables:
        found.append(table)
        gathered.add(table)
    return found


def check_rows(count: float, size: float) -> None:
    """Refuse a result before it is built if its rows and bytes exceed the limits.

    Raises
    ------
    DataError
        E518
    """
    bound = current()
    if count > bound.rows:
        too_many("rows", f"{bound.rows:,} rows")
    if count * size > bound.bytes:
        too_many("bytes", _amount(bound.bytes))


def _amount(size: int) -> str:
    return f"{size / 2**30:,.3g} GiB" if size >= 1 << 30 else f"{size / 2**20:,.3g} MiB"


def too_many(name: str, amount: str) -> Never:
    """Stop a run whose result is too large to collect.

    Raises
    ------
    DataError
        E518
    """
    help_ = "`matches` and `--output` have no limit, LIMIT asks for fewer rows, and "
    help_ += f"`with cepheid.limits({name}=...)` raises it"
    raise DataError([Diagnostic("E518", f"the result has more than {amount}", helps=(help_,))])


def too_much_state(what: str, number: int, *, verb: str = "finds") -> Never:
    """Stop a run whose state is too large.

    Raises
    ------
    DataError
        E519
    """
    message = f"a single step {verb} more than {number:,} {what}"
    helps = (
        "make the window shorter, or add conditions",
        "`with cepheid.limits(state=...)` raises the limit, in bytes",
    )
    raise DataError([Diagnostic("E519", message, helps=helps)])
