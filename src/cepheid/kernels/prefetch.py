"""Prefetch memory that is needed soon."""

from __future__ import annotations

from typing import Any

from cepheid.kernels.tiers import Intrinsic


def _nothing(array: Any, index: Any) -> None:
    """Do nothing: interpreted kernels do not prefetch."""


def _make() -> Any:
    # Only compiled kernels import numba.
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba import types
    from numba.extending import intrinsic

    write, keep, data = 1, 3, 1

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        number, address = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [address, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [address], kind)
        place = builder.bitcast(builder.gep(first, [arguments[1]]), address)
        builder.call(function, [place, number(write), number(keep), number(data)])
        return context.get_dummy_value()

    @intrinsic
    def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
        return types.void(array, types.int64), generate

    return prefetch


prefetch = Intrinsic(_nothing, _make)
"""Prefetch the cache line of array[index]; the index is not checked, the array is flat."""
