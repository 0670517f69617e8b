"""Failures of a device: one diagnostic for all of them, and one warning where the CPU goes on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from cepheid.errors import CepheidError, Diagnostic, UnsupportedError

LIBRARIES = frozenset({"numba", "numba_cuda", "cuda", "llvmlite"})
"""Packages that drive a device; what they raise is about it, or about their own versions."""

HELPS = (
    "check that `cepheid[gpu]` is installed as its versions require, and that the driver is new",
    'use device="cpu", or device="auto", which goes on with the CPU',
)

REPLACED = "W501"
_told: set[str] = set()


FULL = "OUT_OF_MEMORY"


class DeviceError(UnsupportedError):
    """A device was there and failed (E554); the query may be run on the CPU."""

    @property
    def is_full(self) -> bool:
        """Whether the memory of the device was full, which it may not be for fewer events."""
        return FULL in message_of(self)


def broken_device(why: str) -> DeviceError:
    """Build the diagnostic of a device that does not work."""
    return DeviceError([Diagnostic("E554", f"the GPU does not work: {why}", helps=HELPS)])


def first_line(error: BaseException) -> str:
    """Return the kind of an exception and the first line of its message."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def reporting_failures() -> Iterator[None]:
    """Raise what the libraries of a device raise as one diagnostic.

    Raises
    ------
    DeviceError
        E554 if the device, its driver or its libraries fail, or its memory is full.
    """
    try:
        yield
    except CepheidError:
        raise
    except Exception as error:
        if not _is_of_device(error):
            raise
        raise broken_device(first_line(error)) from error


def _is_of_device(error: BaseException) -> bool:
    """Check whether an exception comes from a library that drives the device."""
    if isinstance(error, MemoryError) or _package(type(error).__module__) in LIBRARIES:
        return True
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    name = "" if place is None else str(place.tb_frame.f_globals.get("__name__"))
    return _package(name) in LIBRARIES


def _package(module: str) -> str:
    return module.partition(".")[0]


def warn_once(why: str, *, stacklevel: int = 2) -> None:
    """Warn that the CPU does the work of a device that does not work (W501), once a reason."""
    if why in _told:
        return
    _told.add(why)
    warnings.warn(f"{why}; the CPU goes on ({REPLACED})", stacklevel=stacklevel + 1)


def message_of(error: DeviceError) -> str:
    """Return the sentence of a failure."""
    return error.diagnostics[0].message


def refuse_query(why: str, text: str) -> UnsupportedError:
    """Build the diagnostic of a query that a GPU cannot run."""
    helps = ('use device="auto", which runs such queries on the CPU',)
    message = f"this query does not run on a GPU: {why}"
    return UnsupportedError([Diagnostic("E552", message, helps=helps)], text)
