"""Let a live query take more memory than the usual limits, where one event needs it.

Limits keep every run within memory that any machine has (`memory_limits`). A batch run that exceeds
one stops, and its user decides. A live query would end, and what comes meanwhile would wait. So its
steps are halved first and, if a single event needs more than the limit, the turn runs again with a
limit four times as large, up to a share of the memory that the machine has free. A turn is a
function of a state and of events, so that nothing of the first try is left. A limit that somebody
set is kept.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

import msgspec

from cepheid.errors import DataError, Diagnostic
from cepheid.memory_limits import Limits, current, is_usual, limits

P = ParamSpec("P")
Result = TypeVar("Result")
Tell = Callable[[list[str]], object]

GROWTH = 4
"""The factor by which a limit grows."""
SHARE_MIN = 4
"""A turn may take one of so many parts of the free memory, or of as many as there are cores: turns
of other buckets run beside it."""
SITUATION_BYTES = 256
"""The memory of a situation that is kept, with that of the step that reads it."""
ROW_BYTES = 64
"""The least memory of a row that is collected."""
VALUE_MAX = (1 << 31) - (1 << 20)
"""Bytes of an array of Java, less what Spark adds."""


class _Limit(NamedTuple):
    """Limits that grow together for an error, the bytes of one, and what it is about."""

    names: tuple[str, ...]
    unit: int
    what: str
    is_kept: bool = False


_LIMITS = {
    # Panes may take four times the limit of a step.
    "E511": _Limit(("state",), 4, "quarters of the bytes of panes"),
    "E512": _Limit(("state", "rows"), 1, "bytes of matches to check"),
    "E515": _Limit(("situations",), SITUATION_BYTES, "situations that are kept", is_kept=True),
    "E518": _Limit(("bytes", "rows"), 1, "bytes of rows"),
    "E519": _Limit(("state",), 1, "bytes of one step"),
}

_given: dict[str, int] = {}
"""Limits of this process that have grown for what is kept: every later turn would fail first."""

_TELL: ContextVar[Tell | None] = ContextVar("cepheid_room", default=None)


@contextmanager
def telling(tell: Tell) -> Iterator[None]:
    """Tell decisions of the turns in this block."""
    token = _TELL.set(tell)
    try:
        yield
    finally:
        _TELL.reset(token)


def roomy(turn: Callable[P, Result]) -> Callable[P, Result]:
    """Let a turn of a live query run again with a larger limit, as long as it needs one.

    It raises the error of the limit if somebody set it, or the machine has no memory for more.
    """

    @functools.wraps(turn)
    def run(*args: P.args, **named: P.kwargs) -> Result:
        return _with_room(functools.partial(turn, *args, **named))

    return run


def _with_room(turn: Callable[[], Result]) -> Result:
    kept = {name for name in Limits.__struct_fields__ if not is_usual(name)}
    with ExitStack() as grown:
        if _given and kept.isdisjoint(_given):
            grown.enter_context(limits(**_given))
        while True:
            try:
                return turn()
            except DataError as error:
                limit = _LIMITS.get(error.diagnostics[0].code)
                if limit is None or not kept.isdisjoint(limit.names) or not _grows(error):
                    raise
                more = _more(limit, error)
            grown.enter_context(limits(**more))


def _grows(error: DataError) -> bool:
    """Check whether an error offers a larger limit; some numbers have none."""
    return any("limit" in text for text in error.diagnostics[0].helps)


def _more(limit: _Limit, error: DataError) -> dict[str, int]:
    """Return larger limits; raise the error if the machine has no memory for them."""
    now, free = getattr(current(), limit.names[0]), free_memory()
    most = min(GROWTH * now, free // (share() * limit.unit))
    if most <= now:
        raise _with_reason(error, limit, now, free)
    found = dict.fromkeys(limit.names, most)
    if "rows" in found:
        found["rows"] = max(most // ROW_BYTES, current().rows)
    if limit.is_kept:
        _given.update(found)
    tell = _TELL.get()
    if tell is not None:
        tell([f"a turn needs more than {now:,} {limit.what}: it may have {most:,} from now on"])
    return found


def _with_reason(error: DataError, limit: _Limit, now: int, free: int) -> DataError:
    first = error.diagnostics[0]
    why = f"a turn may take 1/{share()} of the free memory, {free / 2**20:,.0f} MiB: "
    why += f"{now:,} {limit.what} are more"
    return DataError([msgspec.structs.replace(first, helps=(why, *first.helps))])


def check_value(size: int) -> None:
    """Refuse the state of a bucket that Spark cannot keep as one value.

    Raises
    ------
    DataError
        E515
    """
    if size > VALUE_MAX:
        message = f"the state of a bucket has {size:,} bytes: Spark keeps 2 GiB as one value"
        helps = (
            "make the window shorter, or WHERE stricter, and start anew",
            "more buckets have less each, if GROUP-BY or PARTITION BY spreads the state",
        )
        raise DataError([Diagnostic("E515", message, helps=helps)])


def share() -> int:
    """Return the number of turns that share the free memory."""
    return max(SHARE_MIN, os.cpu_count() or 1)


def free_memory() -> int:
    """Return the bytes of memory that are free here, in a container, or for this process.

    Spark limits its Python workers by ``spark.executor.pyspark.memory``, if that is set.
    """
    found = [1024 * _number("/proc/meminfo", "MemAvailable:")]
    most, used = (_number(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    if most:
        found.append(most - used)
    own = _number("/proc/self/limits", "Max address space")
    if own:
        found.append(own - 1024 * _number("/proc/self/status", "VmSize:"))
    return max(min(found), 0)


def _number(path: str, name: str = "") -> int:
    """Read a number of the kernel; 0 where there is none: other systems, or no bound."""
    try:
        lines = Path(path).read_text("ascii").splitlines()
    except OSError:
        return 0
    words = next((one.removeprefix(name).split() for one in lines if one.startswith(name)), [""])
    return int(words[0]) if words[0].isdecimal() else 0
