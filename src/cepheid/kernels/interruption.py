"""What a kernel raises when a signal stops it, and what Python raises in its place."""

from __future__ import annotations

import sys

WAITING = "_cepheid_interruption"
"""Where ``sys`` keeps what the handler of a signal raised, until the kernel has ended."""


class InterruptedKernel(Exception):  # noqa: N818  # it is no error
    """A kernel ended because of a signal; machine code can raise no KeyboardInterrupt."""


def interruption() -> BaseException:
    """Return what the handler of the signal raised."""
    found = sys.__dict__.pop(WAITING, None)
    return found if isinstance(found, BaseException) else KeyboardInterrupt()
