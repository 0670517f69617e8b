"""Ask the processor for memory that is needed soon, so that nothing waits for it."""

from __future__ import annotations

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

_WRITE, _KEEP, _DATA = 1, 3, 1


@intrinsic
def prefetch(typing_context, array, index):
    """Bring the cache line of array[index] near; the index is not checked, the array is flat."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        number, address = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [address, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [address], kind)
        place = builder.bitcast(builder.gep(data, [arguments[1]]), address)
        builder.call(function, [place, number(_WRITE), number(_KEEP), number(_DATA)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate
