"""Handle Ctrl-C in long-running kernels: they poll for pending signals.

Python handles a signal between two bytecode instructions, and machine code has none. So kernels
whose work has no bound call ``let_signals_in`` in their outer loops. Interpreted kernels are Python
and need no polling; they check the clock there instead (``watch.py``).
"""

from __future__ import annotations

from typing import Any

from cepheid.kernels.interruption import WAITING, InterruptedKernel
from cepheid.kernels.tiers import Intrinsic, kernel
from cepheid.kernels.watch import check_time

ROUNDS = 128
"""Rounds of a loop between two polls: a poll takes as long as a few rounds of a fast loop."""


def _never() -> bool:
    """Do nothing: Python interrupts interpreted kernels."""
    return False


def _make() -> Any:
    # Only compiled kernels import numba.
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    number, nothing, address = ir.IntType(32), ir.VoidType(), ir.IntType(8).as_pointer()

    def call(builder: Any, name: str, *arguments: Any, gives: Any = number) -> Any:
        kind = ir.FunctionType(gives, [argument.type for argument in arguments])
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(function, arguments)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        # Kernels run without the GIL, so the poll acquires it.
        held = call(builder, "PyGILState_Ensure")
        stopped = builder.icmp_signed("!=", call(builder, "PyErr_CheckSignals"), number(0))
        with builder.if_then(stopped, likely=False):
            # The handler's exception is kept until the kernel has ended.
            room = [cgutils.alloca_once(builder, address, zfill=True) for _ in range(3)]
            call(builder, "PyErr_Fetch", *room, gives=nothing)
            call(builder, "PyErr_NormalizeException", *room, gives=nothing)
            name = context.insert_const_string(builder.module, WAITING)
            call(builder, "PySys_SetObject", name, builder.load(room[1]))
        call(builder, "PyGILState_Release", held, gives=nothing)
        return context.cast(builder, stopped, types.boolean, signature.return_type)

    @intrinsic
    def interrupted(typing_context: Any) -> Any:
        return types.boolean(), generate

    return interrupted


interrupted = Intrinsic(_never, _make)
"""Check whether a signal handler wants this thread to stop."""


@kernel(inline="code")
def let_signals_in(rounds):
    """Poll for Ctrl-C once in a while, and stop; return the number of rounds so far."""
    if rounds % ROUNDS == ROUNDS - 1 and interrupted():
        raise InterruptedKernel
    return rounds + 1


@let_signals_in.interpreted
def _(rounds):
    check_time()
    return rounds + 1


@kernel(inline="code")
def look_at_clock():
    """Abort an interpreted call that takes too long; machine code does nothing here."""


@look_at_clock.interpreted
def _():
    check_time()
