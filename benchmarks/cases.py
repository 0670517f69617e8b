"""What a method hands over to be timed."""

from __future__ import annotations

from collections.abc import Callable, Sized
from dataclasses import dataclass


class LimitReachedError(Exception):
    """A method stopped by itself at its time limit."""


@dataclass(frozen=True, slots=True)
class Case:
    """A function to time, which returns the check.

    The stream is kept although a method may not need all of it: so the peak memory of every method
    includes the same input.
    """

    name: str
    stream: Sized
    run: Callable[[], float]
