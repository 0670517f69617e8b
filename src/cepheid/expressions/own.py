"""Functions of one's own: names and kinds that a plan holds, and the callables of this process.

A plan is data, so it names a function and no code (``OwnFunction``). The callables stand in a table
of the process, each as long as something in the process names it. Where Spark sends an
``OwnFunction`` to a task, it takes its callable along, in the way in which Spark sends every Python
function; a function that is read from JSON has none, and is looked up by its name.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from cepheid.errors import DataError, Diagnostic
from cepheid.events.schema import ValueKind

Callee = Callable[..., Any]

_CALLEES: dict[tuple[str, int], Callee] = {}
_NAMED: Counter[tuple[str, int]] = Counter()
"""The number of objects that name a callable."""
_REGISTERED: dict[str, OwnFunction] = {}
_EDITIONS = itertools.count()
"""No edition is given twice, so that what was kept for one serves no other."""
_LOCK = threading.RLock()


class OwnFunction(msgspec.Struct, frozen=True, omit_defaults=True, weakref=True):
    """A function that a user has defined; ``cepheid.function`` makes it.

    ``edition`` tells functions of one name apart. ``takes`` are the kinds of the arguments, None if
    nobody has said.
    """

    name: str
    gives: ValueKind
    edition: int = 0
    takes: tuple[ValueKind, ...] | None = None

    def __post_init__(self) -> None:
        """Keep the callable as long as this object lives."""
        key = (self.name, self.edition)
        with _LOCK:
            _NAMED[key] += 1
        weakref.finalize(self, _release, key).atexit = False

    @property
    def usage(self) -> str:
        """Write how it is called."""
        takes = ("...",) if self.takes is None else self.takes
        return f"{self.name}({', '.join(takes)})"

    @property
    def callee(self) -> Callee:
        """Look the callable up.

        Raises
        ------
        DataError
            E575 if this process has none of this name.
        """
        found = _CALLEES.get((self.name, self.edition))
        if found is None:
            # A plan of an earlier process has its edition, so the latest of the name is meant.
            newest = max((n for name, n in list(_CALLEES) if name == self.name), default=None)
            if newest is None:
                message = f"the function `{self.name}` is not defined in this process"
                helps = ("call `cepheid.function` as where the query was made",)
                raise DataError([Diagnostic("E575", message, helps=helps)])
            found = _CALLEES[self.name, newest]
        return found

    def __repr__(self) -> str:
        return f"OwnFunction  {self.usage} gives {self.gives.value}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Take the callable along to a task."""
        return _arrive, (self.name, self.gives, self.edition, self.takes, self.callee)


def _release(key: tuple[str, int]) -> None:
    """Drop a callable that nothing names any more."""
    with _LOCK:
        _NAMED[key] -= 1
        if not _NAMED[key]:
            del _NAMED[key]
            _CALLEES.pop(key, None)


def _arrive(
    name: str,
    gives: ValueKind,
    edition: int,
    takes: tuple[ValueKind, ...] | None,
    callee: Callee,
) -> OwnFunction:
    """Put a function that came with a task into the table, where it stays.

    The plan of the task may come later, as JSON.
    """
    with _LOCK:
        _NAMED[name, edition] += (name, edition) not in _CALLEES
        _CALLEES[name, edition] = callee
    return OwnFunction(name, gives, edition, takes)


def define(
    name: str, callee: Callee, gives: ValueKind, takes: tuple[ValueKind, ...] | None
) -> OwnFunction:
    """Put a function into the table; the same callable keeps its edition."""
    with _LOCK:
        editions = [edition for known, edition in _CALLEES if known == name]
        same = (edition for edition in editions if _CALLEES[name, edition] is callee)
        edition = next(same, None)
        edition = next(_EDITIONS) if edition is None else edition
        _CALLEES[name, edition] = callee
        return OwnFunction(name, gives, edition, takes)


def registered(name: str) -> OwnFunction | None:
    """Look up the function that queries of this process call by a name."""
    return _REGISTERED.get(name)


def register(function: OwnFunction) -> None:
    """Let all later queries of this process call a function."""
    _REGISTERED[function.name] = function


def forget(name: str) -> None:
    """Let later queries call a function no more."""
    _REGISTERED.pop(name, None)


def all_registered() -> tuple[OwnFunction, ...]:
    """List the functions that queries of this process may call, by name."""
    return tuple(_REGISTERED[name] for name in sorted(_REGISTERED))


def united(lists: Iterable[Iterable[OwnFunction]]) -> tuple[OwnFunction, ...]:
    """List the functions of several queries, each once."""
    return tuple(dict.fromkeys(function for one in lists for function in one))
