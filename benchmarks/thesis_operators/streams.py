"""Count codes in host memory: copying and counting overlap, with two alternating buffers.

While one buffer is copied to the device, the other is counted. The kernel reads small batches
directly from host memory: a copy would take longer than the work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.kernels.count import count_kernel
from cepheid.accelerator.linear import DeviceSystem, Matrices, Sizes, default_sizes
from cepheid.kernels.products import chain

BATCH_WORDS = 1 << 23
"""Words of a batch: 64 MiB, so that a copy takes much longer than a launch."""


def pinned(length: int) -> NDArray[np.uint8]:
    """Allocate pinned host memory, for copies without help of the CPU."""
    return np.asarray(cuda.pinned_array(length, np.uint8))


def count_from_host(
    device: DeviceSystem, words: NDArray[np.uint64], batch: int = BATCH_WORDS,
    sizes: Sizes | None = None,
) -> tuple[NDArray[np.complex128], bool]:  # fmt: skip
    """Count a stream of codes in host memory; return its matrix, and whether it is valid.

    It is invalid if doubles with a shared exponent ran out of range.
    """
    sizes = sizes or default_sizes()
    # A batch keeps the device busy for a fraction of its copy; fewer matrices are left to multiply.
    sizes = sizes._replace(chunks=max(sizes.chunks // 8, 1))
    chunks = device.chunks_of(min(batch, len(words)), sizes)
    streams = [cuda.stream(), cuda.stream()]
    buffers = [cuda.device_array(min(batch, len(words)), np.uint64) for _ in streams]
    flags = cuda.to_device(np.zeros(1, np.int32))
    # All buffers are allocated first, because an allocation stops the device.
    room = device.empty(-(-len(words) // batch) * chunks)
    used = 0
    for number, begin in enumerate(range(0, len(words), batch)):
        stream, buffer = streams[number % 2], buffers[number % 2]
        part = words[begin : begin + batch]
        buffer[: len(part)].copy_to_device(part, stream=stream)
        count = device.chunks_of(len(part), sizes)
        out = Matrices(room.numbers[used : used + count], room.values)
        device.count(buffer[: len(part)], sizes, flags, stream, out)
        used += count
    cuda.synchronize()
    product = device.multiply(room, np.array([used]), sizes)
    numbers = product.numbers.copy_to_host().view(np.complex128)[0, ..., 0]
    return numbers, not flags.copy_to_host()[0]


class SmallCounter:
    """Counts small batches with one launch; codes and matrices are in mapped memory."""

    def __init__(self, device: DeviceSystem, events: int, chunk_words: int = 32) -> None:
        self.device = device
        self.chunk = chunk_words
        words = -(-events // 8)
        self.chunks = -(-words // chunk_words)
        d = device.system.dimension
        self.words: Any = cuda.mapped_array(words, np.uint64)
        self.codes = host_of(self.words).view(np.uint8)
        self.numbers: Any = cuda.mapped_array((self.chunks, d, 1, d, 2), np.float64)
        self.flags: Any = cuda.mapped_array(1, np.int32)
        kernel: Any = count_kernel(d, device.system.starts, device.per_symbol)
        self.arguments = (
            device.table, self.words, self.chunk, device.period, device.opening,
            device.system.steady, self.numbers, self.flags,
        )  # fmt: skip
        if hasattr(kernel, "specialize"):
            # Kernels that know their types are launched in a fraction of the time.
            kernel = kernel.specialize(*self.arguments)
        self.launch = kernel[-(-self.chunks // 32), 32]

    def count(self, codes: NDArray[np.uint8]) -> NDArray[np.complex128]:
        """Count a batch and return its matrix."""
        device = self.device
        self.codes[: len(codes)] = codes
        self.codes[len(codes) :] = device.system.identity
        self.launch(*self.arguments)
        cuda.synchronize()
        return np.asarray(chain(host_of(self.numbers).view(np.complex128)[..., 0]))


def host_of(array: Any) -> NDArray[Any]:
    """View mapped memory as a plain array; the simulator wraps one."""
    if isinstance(array, np.ndarray):
        return np.ndarray.view(array, np.ndarray)
    return np.asarray(array._ary)
