"""An alarm that raises in whatever runs when it goes off."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def alarm(seconds: float, error: type[BaseException]) -> Iterator[None]:
    """Raise an error in the body when it takes so long."""

    def ring(*_: object) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
