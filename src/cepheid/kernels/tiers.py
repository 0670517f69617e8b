"""Run a kernel in the fastest tier for its work: interpreted, loaded from the cache, or compiled.

A kernel is written once, as a Python function over arrays. Small work runs that function unchanged,
because numba takes longer to load than the work takes. Larger work runs machine code: from the
cache of this machine if it is there, and from the compiler once the work would take longer than
compiling. The work is estimated; if the estimate is too low, the call is aborted and restarted as
machine code (``watch.py``). All tiers return the same bits.
"""

from __future__ import annotations

import enum
import functools
import importlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar, Literal

import numpy as np

from cepheid.kernels.costs import (
    ARRAY_RATE_S,
    LINK_S,
    LOAD_S,
    called_from_python,
    compile_seconds,
    rate_seconds,
)
from cepheid.kernels.interruption import InterruptedKernel, interruption
from cepheid.kernels.signature import of_values
from cepheid.kernels.twins import Function, Twin, clone, twins_of
from cepheid.kernels.watch import OverrunKernel, keep, restore, watched

Work = Callable[..., float]
Inline = Literal["", "code", "source"]


class Tier(enum.Enum):
    """The tier of kernels; AUTO decides for every call."""

    AUTO = "auto"
    INTERPRET = "interpret"
    COMPILE = "compile"


VARIABLE = "CEPHEID_KERNELS"
"""The environment variable that names a tier for a whole process."""


class _Setting:
    """The tier in force in this process."""

    tier: ClassVar[Tier] = Tier(os.environ.get(VARIABLE) or "auto")


def current_tier() -> Tier:
    """Return the tier in force."""
    return _Setting.tier


@contextmanager
def forced(tier: Tier) -> Iterator[None]:
    """Run all kernels of this process in one tier within the body."""
    before, _Setting.tier = _Setting.tier, tier
    try:
        yield
    finally:
        _Setting.tier = before


class Operation(Twin):
    """An operation on numbers, with one version each for doubles, wide numbers and residues.

    The decorated function is the version for doubles; ``wide`` and ``residue`` add the others.
    ``of`` is the argument, a number or an array of numbers, whose type decides.
    """

    def __init__(self, function: Function, of: int) -> None:
        self.name, self.of = function.__name__, of
        self.double: Function = function
        self.kinds: dict[str, Function] = {"double": function}
        self._plain: Function | None = None
        self._machine: Any = None
        self.__doc__ = function.__doc__

    def wide(self, function: Function) -> Function:
        """Register the version for wide numbers."""
        self.kinds["wide"] = function
        return function

    def residue(self, function: Function) -> Function:
        """Register the version for residues."""
        self.kinds["residue"] = function
        return function

    @property
    def plain(self) -> Function:
        """Build a Python function that dispatches on the type of its argument."""
        if self._plain is None:
            self._plain = _dispatch(self.of, {k: clone(f, "plain") for k, f in self.kinds.items()})
        return self._plain

    @property
    def machine(self) -> Any:
        """Build a numba function with an overload for each type."""
        if self._machine is None:
            # Imports numba.
            from cepheid.kernels.machine import overloaded

            self._machine = overloaded(self)
        return self._machine


_KIND_OF: dict[type, str] = {
    **dict.fromkeys((float, np.float64), "double"),
    **dict.fromkeys((complex, np.complex128), "wide"),
    **dict.fromkeys((int, bool, np.uint64, np.int64, np.int32), "residue"),
}


def _dispatch(of: int, functions: dict[str, Function]) -> Function:
    """Build a function that dispatches on the type of one argument; called for every number."""
    by_type = {kind: functions[name] for kind, name in _KIND_OF.items()}

    def of_array(*arguments: Any) -> Any:
        return by_type[arguments[of].dtype.type](*arguments)

    by_type[np.ndarray] = of_array
    if of:
        return lambda *arguments: by_type[type(arguments[of])](*arguments)
    count = functions["double"].__code__.co_argcount
    if count == 1:
        return lambda a: by_type[type(a)](a)
    if count == 3:
        return lambda a, b, c: by_type[type(a)](a, b, c)
    return lambda *arguments: by_type[type(arguments[0])](*arguments)


def operation(of: int = 0) -> Callable[[Function], Operation]:
    """Make an operation from a function of doubles."""
    return lambda function: Operation(function, of)


class Intrinsic(Twin):
    """An operation that exists in machine code only; interpreted kernels skip it."""

    def __init__(self, function: Function, make: Callable[[], Any]) -> None:
        self._function, self._make = function, make
        self._made: Any = None

    @property
    def plain(self) -> Function:
        """Return the Python function, which does nothing."""
        return self._function

    @property
    def machine(self) -> Any:
        """Return the numba intrinsic."""
        if self._made is None:
            self._made = self._make()
        return self._made


class Kernel(Twin):
    """A function over arrays that runs in the fastest tier for its work."""

    registry: ClassVar[dict[str, Kernel]] = {}
    """All kernels by name, for those who compile them ahead and those who test them."""
    all_interpreted_s: ClassVar[float] = 0.0
    """The time that this process has spent on interpreting kernels."""
    any_linked: ClassVar[bool] = False
    """Whether this process has loaded LLVM."""

    def __init__(
        self,
        function: Function,
        *,
        inline: Inline,
        work: Work | None,
        shortcut: str = "",
        borrows: bool = False,
    ) -> None:
        self.function, self.inline, self.work = function, inline, work
        self.shortcut, self.borrows = shortcut, borrows
        self.name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.__module__, self.__wrapped__ = function.__module__, function
        self.interpreted_s = 0.0
        """The time that this process has spent on interpreting the kernel."""
        self.rate_s = rate_seconds(self.name)
        """The cost of one interpreted unit of work, learned from calls."""
        self._written = function
        self._patience_s = LINK_S
        """The interpreting time after which this process looks into the cache."""
        self._plain: Function | None = None
        self._inner: Any = None
        self._entry: Any = None
        self._linked: dict[str, Function] = {}
        """The machine code that was linked without numba, by the types of its arguments."""
        Kernel.registry[self.name] = self

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel."""
        try:
            if _Setting.tier is not Tier.INTERPRET:
                if self._entry is not None:
                    return self._entry(*arguments)
                linked = self._linked.get(of_values(arguments)) if self._linked else None
                if linked is not None:
                    return linked(*arguments)
            if self.interprets(arguments):
                return self.interpret(*arguments)
            return self.run_compiled(*arguments)
        except InterruptedKernel:
            raise interruption() from None

    def run_compiled(self, *arguments: Any) -> Any:
        """Run the kernel as machine code: linked from the cache if it is there, or compiled."""
        if self._entry is None:
            # Looks at files.
            from cepheid.kernels.linking import link

            signature = of_values(arguments)
            linked = link(self, signature)
            if linked is not None:
                self._linked[signature] = linked
                Kernel.any_linked = True
                return linked(*arguments)
        return self.entry(*arguments)

    def interpreted(self, function: Function) -> Function:
        """Register another body for the interpreter, with whole-array operations."""
        self._written = function
        self.rate_s = min(self.rate_s, ARRAY_RATE_S)
        return function

    @property
    def plain(self) -> Function:
        """Return the twin that interpreted kernels call."""
        if self._plain is None:
            self._plain = clone(self._written, "plain")
            if self.shortcut:
                # Only interpreted kernels load it.
                module = importlib.import_module(f"{__package__}.{self.shortcut}")
                body = getattr(module, self.__name__)
                self._plain = _either(clone(body, "plain"), self._plain)
        return self._plain

    @property
    def machine(self) -> Any:
        """Return numba's dispatcher for calls from other kernels, without a Python wrapper.

        A kernel that Python calls as well is compiled once, with the wrapper.
        """
        if self.name in called_from_python():
            return self.entry
        if self._inner is None:
            from cepheid.kernels.machine import dispatcher

            self._inner = dispatcher(self, entry=False)
        return self._inner

    @property
    def entry(self) -> Any:
        """Return numba's dispatcher for calls from Python."""
        if self._entry is None:
            from cepheid.kernels.machine import dispatcher

            self._entry = dispatcher(self, entry=True)
        return self._entry

    def interpret(self, *arguments: Any) -> Any:
        """Run the kernel as Python; integers wrap and overflow silently, as in machine code.

        A call that takes longer than expected is restarted as machine code.
        """
        begun, overrun, result = time.thread_time(), False, None
        units = self.units(arguments)
        kept = keep(arguments, units * self.rate_s) if self._is_watched() else None
        try:
            with (
                np.errstate(all="ignore"),
                nullcontext() if kept is None else self._watch(arguments),
            ):
                result = _unboxed(self.plain(*arguments))
        except OverrunKernel:
            assert kept is not None, "only what can begin again is watched"
            restore(kept)
            overrun = True
        took = time.thread_time() - begun  # A busy machine makes no tier cheaper.
        self.interpreted_s += took
        Kernel.all_interpreted_s += took
        if overrun or units >= 100:
            self.rate_s = max(self.rate_s, took / max(units, 1.0))
        return self.run_compiled(*arguments) if overrun else result

    def _is_watched(self) -> bool:
        return _Setting.tier is Tier.AUTO and self.asks_time

    @functools.cached_property
    def asks_time(self) -> bool:
        """Check whether the interpreted kernel polls the clock."""
        if "check_time" in self._written.__code__.co_names:
            return True
        return any(isinstance(t, Kernel) and t.asks_time for t in twins_of(self._written))

    def _watch(self, arguments: tuple[Any, ...]) -> AbstractContextManager[None]:
        def longest() -> float:
            # Looks at files.
            from cepheid.kernels.cache import has

            return 0.0 if has(self, arguments) else compile_seconds(self.name)

        return watched(LOAD_S, longest)

    def units(self, arguments: tuple[Any, ...]) -> float:
        """Estimate the work of a call, by the kernel's estimator or by its longest array."""
        if self.work is not None:
            return float(self.work(*arguments))
        return _longest(arguments)

    def interprets(self, arguments: tuple[Any, ...]) -> bool:
        """Check whether a call should be interpreted.

        A call is interpreted while the total interpreted time, including this call, is below the
        start-up time of the next tier; so the total is at most about twice the optimum. All kernels
        together pay for loading LLVM, each one for linking or compiling it.
        """
        if _Setting.tier is not Tier.AUTO:
            return _Setting.tier is Tier.INTERPRET
        call_s = self.units(arguments) * self.rate_s
        estimate_s = self.interpreted_s + call_s
        if estimate_s < self._patience_s:
            return True
        if not Kernel.any_linked and Kernel.all_interpreted_s + call_s < LOAD_S:
            return True
        # Looks at files.
        from cepheid.kernels.cache import has

        if has(self, arguments):
            return False
        compile_s = compile_seconds(self.name)
        if estimate_s >= compile_s:
            return False
        # Another process may compile it meanwhile; looking for it takes longer than a small call.
        self._patience_s = min(2 * estimate_s, compile_s)
        return True


def _either(shortcut: Function, loop: Function) -> Function:
    """Build a function that runs the loop where the shortcut declines."""

    def run(*arguments: Any) -> Any:
        result = shortcut(*arguments)
        return loop(*arguments) if result is NotImplemented else result

    return run


def _longest(arguments: Any) -> float:
    most = 1
    for value in arguments:
        if isinstance(value, np.ndarray):
            if value.ndim and value.shape[0] > most:
                most = value.shape[0]
        elif isinstance(value, tuple):
            most = max(most, int(_longest(value)))
    return most


def _unboxed(result: Any) -> Any:
    """Convert numpy scalars to Python numbers, as numba does."""
    if isinstance(result, np.generic):
        return result.item()
    if type(result) is tuple:
        return tuple(map(_unboxed, result))
    return result


def kernel(
    *, inline: Inline = "", work: Work | None = None, shortcut: str = "", borrows: bool = False
) -> Callable[[Function], Any]:
    """Make a kernel from a function over arrays.

    Parameters
    ----------
    inline
        Inline the function into its callers: in machine code, or in their source, which takes
        longer to compile and saves reference counting for arrays inside tuples.
    work
        The work of a call, from its arguments, where it is not the length of the longest array.
    shortcut
        The module with a function of the same name, which interprets most calls faster. It returns
        NotImplemented to decline a call, before it has written anything; then the loop runs.
    borrows
        Every array is the caller's: the function, and what is inlined into it, neither makes nor
        returns one. Then machine code counts no references to arrays, which it does otherwise
        wherever a loop passes one on, at the price of several additions each.
    """
    return lambda function: Kernel(
        function, inline=inline, work=work, shortcut=shortcut, borrows=borrows
    )
