"""Run simulated kernels in one thread of Python, instead of one for each thread of the device.

The simulator of numba starts a thread of Python for each thread of a block, and asks them all in a
loop whether they wait; most of the time goes there. Here each is a greenlet, which runs to the next
barrier before another one goes on. Their order turns round at every barrier, so a kernel that lacks
one gives a wrong result.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any, NamedTuple

import greenlet
import numpy as np
from tests.accelerator.launches import note_launch, watch_kernels

NO_THREAD: Any = None
_current = [NO_THREAD]


class Place(NamedTuple):
    """The number of a thread in its block, or of a block in its grid."""

    x: int
    y: int
    z: int


class Thread:
    """A thread of the device."""

    def __init__(self, block: tuple[int, ...], place: tuple[int, ...], run: Any) -> None:
        self.blockIdx, self.threadIdx = Place(*block), Place(*place)
        self._greenlet = greenlet.greenlet(run)

    def goes_on(self) -> bool:
        """Run to the next barrier; tell whether the thread waits there."""
        _current[0] = self
        self._greenlet.switch()
        return not self._greenlet.dead

    def syncthreads(self) -> None:
        """Wait for the other threads of the block."""
        self._greenlet.parent.switch()


def run_block(manager: Any, block: tuple[int, ...], *args: Any) -> None:
    """Run all threads of a block, from barrier to barrier."""
    places = np.ndindex(*manager._block_dim)
    threads = [Thread(block, place, lambda: manager._f(*args)) for place in places]
    while threads:
        threads = [thread for thread in threads if thread.goes_on()][::-1]
    _current[0] = NO_THREAD


def shared_array(shared: Any, shape: Any, dtype: Any) -> Any:
    """Allocate shared memory, which all threads of a launch find by the line that asks for it."""
    numpy_support: Any = sys.modules["numba.np.numpy_support"]
    types: Any = sys.modules["numba.core.types"]
    if isinstance(dtype, types.Type):
        dtype = numpy_support.as_dtype(dtype)
    if shape == 0:
        count = shared._dynshared_size // dtype.itemsize
        return np.frombuffer(shared._dynshared.data, dtype=dtype, count=count)
    frame = sys._getframe(1)
    place = frame.f_code, frame.f_lineno
    if place not in shared._allocations:
        shared._allocations[place] = np.empty(shape, dtype)
    return shared._allocations[place]


ATTRIBUTES = frozenset({"shape", "strides", "dtype", "size", "ndim", "flags", "nbytes", "squeeze"})
"""What an array on a device tells; the simulator passes all questions on to NumPy."""


def restrict_arrays(cuda: Any) -> None:
    """Refuse what arrays on a device cannot do: fancy indices, NumPy's methods, odd shapes."""
    arrays: Any = sys.modules["numba.cuda.simulator.cudadrv.devicearray"].FakeCUDAArray
    item, allocate = arrays.__getitem__, cuda.device_array

    def attribute(own: Any, name: str) -> Any:
        if name not in ATTRIBUTES:
            raise AttributeError(name)
        return getattr(own._ary, name)

    def checked_item(own: Any, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        assert all(isinstance(part, int | np.integer | slice) for part in parts), index
        return item(own, index)

    def device_array(shape: Any, *args: Any, **options: Any) -> Any:
        whole = isinstance(shape, int) or all(isinstance(n, int | np.integer) for n in shape)
        assert whole, "a device takes a number of Python, or a tuple"
        return allocate(shape, *args, **options)

    arrays.__getattr__, arrays.__getitem__ = attribute, checked_item
    cuda.device_array = device_array


def install() -> None:
    """Change the simulator of this process, if it is in use."""
    from numba import cuda

    kernel: Any = sys.modules.get("numba.cuda.simulator.kernel")
    if kernel is None:
        return
    api: Any = sys.modules["numba.cuda.simulator.kernelapi"]
    launch = kernel.FakeCUDAKernel.__call__

    def call(own: Any, *args: Any) -> Any:
        if own._device:
            if "cuda" not in own.fn.__code__.co_names:
                return own.fn(*args)
            if own.fn.__globals__["cuda"] is not cuda:
                return own.fn(*args)  # Its module is that of a function that runs.
        else:
            note_launch(own, args)
        return launch(own, *args)

    kernel.FakeCUDAKernel.__call__ = call
    # Kernels read the arrays themselves, which need no wrapper.
    kernel.FakeWithinKernelCUDAArray = lambda array: array._ary
    kernel.BlockManager.run = run_block
    api.threading = SimpleNamespace(current_thread=lambda: _current[0])
    api.FakeCUDAShared.array = shared_array
    watch_kernels(cuda)
    restrict_arrays(cuda)
