"""Let Ctrl-C through: a kernel that runs for long asks now and then whether it should stop.

Python sees a signal between two instructions of its own, and machine code has none of them. So
kernels whose work has no bound call ``let_signals_in`` in their outer loops. Interpreted kernels
are Python, and need nothing; they look at the clock there instead (``watch.py``).
"""

from __future__ import annotations

from typing import Any

from cepheid.kernels.interruption import WAITING, InterruptedKernel
from cepheid.kernels.tiers import Intrinsic, kernel
from cepheid.kernels.watch import check_time

ROUNDS = 128
"""Rounds of a loop between two looks: a look takes as long as a few rounds of a quick loop."""


def _never() -> bool:
    """Interpreted kernels are interrupted by Python."""
    return False


def _make() -> Any:
    # Only compiled kernels load what makes machine code.
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
        # Kernels run beside other threads, so Python's lock is taken for the look.
        held = call(builder, "PyGILState_Ensure")
        stopped = builder.icmp_signed("!=", call(builder, "PyErr_CheckSignals"), number(0))
        with builder.if_then(stopped, likely=False):
            # What the handler of the signal raised waits until the kernel has ended.
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
"""Return whether the handler of a signal wants this thread to stop."""


@kernel(inline="code")
def let_signals_in(rounds):
    """Stop where somebody pressed Ctrl-C, once in a while; return the number of rounds so far."""
    if rounds % ROUNDS == ROUNDS - 1 and interrupted():
        raise InterruptedKernel
    return rounds + 1


@let_signals_in.interpreted
def _(rounds):
    check_time()
    return rounds + 1


@kernel(inline="code")
def look_at_clock():
    """Give up an interpreted call that takes too long; machine code is as quick as it can be."""


@look_at_clock.interpreted
def _():
    check_time()
