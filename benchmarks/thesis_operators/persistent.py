"""Count small batches without launches: a kernel polls a mailbox in mapped memory.

While it waits, operations that synchronise all streams block: use it in a process that does nothing
else on the device, or ``close`` it first.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
from benchmarks.thesis_operators.serving import serve_kernel
from benchmarks.thesis_operators.streams import host_of
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.device import Found, find_device
from cepheid.accelerator.linear import DeviceSystem
from cepheid.kernels.products import chain

LOOKS_MAX = 1 << 20
"""Polls of the mailbox, about a microsecond each, after which the kernel ends."""

PATIENCE_S = 5.0
"""The time that the host waits for an answer."""


class PersistentCounter:
    """Counts small batches; the kernel stays on the device between them.

    Examples
    --------
    ``with PersistentCounter(device, 4096) as counter: counter.count(codes)``
    """

    def __init__(
        self, device: DeviceSystem, events: int, chunk_words: int = 8, looks_max: int = LOOKS_MAX
    ) -> None:
        self.device = device
        words = -(-events // 8)
        self._chunks = -(-words // chunk_words)
        d = device.system.dimension
        self._words: Any = cuda.mapped_array(words, np.uint64)
        self.codes = host_of(self._words).view(np.uint8)
        self._numbers: Any = cuda.mapped_array((self._chunks, d, 1, d, 2), np.float64)
        self._flags: Any = cuda.mapped_array(1, np.int32)
        self._box: Any = cuda.mapped_array(3, np.int64)
        self._mailbox = host_of(self._box)
        self._mailbox[:] = 0
        host_of(self._flags)[:] = 0
        self._asked = 0
        self._stream: Any = cuda.stream()
        simulated = find_device()[0] is Found.SIMULATOR
        self._threads = self._chunks if simulated else -(-self._chunks // 32) * 32
        kernel = serve_kernel(d, device.system.starts, device.per_symbol, self._threads)
        self._launch = kernel[1, self._threads, self._stream]
        self._arguments = (
            device.table, self._words, chunk_words, device.period, device.opening,
            device.system.steady, self._numbers, self._flags, self._box, looks_max,
        )  # fmt: skip
        self._simulated = simulated
        self._thread: threading.Thread | None = None

    def _start(self) -> None:
        self._mailbox[2] = 1
        if self._simulated:
            # A launch in the simulator returns when the kernel has ended.
            self._join()
            self._thread = threading.Thread(target=self._launch, args=self._arguments, daemon=True)
            self._thread.start()
        else:
            self._launch(*self._arguments)

    def count(self, codes: NDArray[np.uint8]) -> NDArray[np.complex128]:
        """Count a batch and return its matrix.

        Raises
        ------
        TimeoutError
            If the device does not answer.
        """
        self.codes[: len(codes)] = codes
        self.codes[len(codes) :] = self.device.system.identity
        self._asked += 1
        mailbox, asked = self._mailbox, self._asked
        mailbox[0] = asked
        latest = time.perf_counter() + PATIENCE_S
        while mailbox[1] != asked:
            if not mailbox[2]:
                # The first time it is compiled, which is no fault of the device.
                self._start()
                latest = time.perf_counter() + PATIENCE_S
            if time.perf_counter() > latest:
                message = "the kernel on the device does not answer"
                raise TimeoutError(message)
        return np.asarray(chain(host_of(self._numbers).view(np.complex128)[..., 0]))

    @property
    def narrow(self) -> bool:
        """Check whether doubles with a shared exponent ran out of range in a batch."""
        return bool(host_of(self._flags)[0])

    def close(self) -> None:
        """Stop the kernel."""
        self._mailbox[0] = -1
        latest = time.perf_counter() + PATIENCE_S
        while self._mailbox[2] and time.perf_counter() < latest:
            time.sleep(1e-4)

        self._join()

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join(PATIENCE_S)

    def __enter__(self) -> PersistentCounter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
