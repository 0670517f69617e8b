"""The exception for a kernel that a signal stops, and the Python exception that replaces it."""

from __future__ import annotations

import sys

WAITING = "_cepheid_interruption"
"""The attribute of ``sys`` that keeps the handler's exception until the kernel has ended."""


class InterruptedKernel(Exception):  # noqa: N818  # it is no error
    """A kernel ended because of a signal; machine code can raise no KeyboardInterrupt."""


def interruption() -> BaseException:
    """Return the exception that the signal handler raised."""
    found = sys.__dict__.pop(WAITING, None)
    return found if isinstance(found, BaseException) else KeyboardInterrupt()
