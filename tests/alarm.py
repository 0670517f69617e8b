"""An alarm that raises in whatever runs when it goes off."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def alarm(seconds: float, error: type[BaseException], *, processor: bool = False) -> Iterator[None]:
    """Raise an error in the body when it takes so long, or so much time of processors."""
    timer = signal.ITIMER_PROF if processor else signal.ITIMER_REAL
    number = signal.SIGPROF if processor else signal.SIGALRM

    def ring(*_: object) -> None:
        raise error

    before = signal.signal(number, ring)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)
