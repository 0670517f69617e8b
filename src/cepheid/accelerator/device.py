"""Find a device: a GPU, numba's simulator of one, or none."""

from __future__ import annotations

import functools
import importlib
import warnings
from enum import StrEnum
from typing import Any

from cepheid.accelerator.failures import broken_device, first_line
from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.options import DEVICES, one_of


class Device(StrEnum):
    """The device that the user requested."""

    AUTO = "auto"
    CPU = "cpu"
    GPU = "gpu"


class Found(StrEnum):
    """The device that this process can use."""

    GPU = "gpu"
    SIMULATOR = "simulator"
    NONE = "none"
    BROKEN = "broken"

    @property
    def usable(self) -> bool:
        """Check whether kernels run there."""
        return self in (Found.GPU, Found.SIMULATOR)


def parse_device(name: str) -> Device:
    """Parse the name of a device.

    Raises
    ------
    OptionError
        E590 if there is no such name.
    """
    one_of("device", name, DEVICES)
    return Device(name)


@functools.cache
def find_device() -> tuple[Found, str]:
    """Find the usable device, with its name or the reason why there is none; cached."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            numba: Any = importlib.import_module("numba")
            cuda: Any = importlib.import_module("numba.cuda")
    except ImportError as error:
        return Found.NONE, f"numba.cuda cannot be loaded ({error})"
    except Exception as error:  # noqa: BLE001, RUF100  # a library that does not fit fails in any way
        return Found.BROKEN, f"numba.cuda cannot be loaded ({first_line(error)})"
    if numba.config.ENABLE_CUDASIM:
        return Found.SIMULATOR, "numba's simulator of a GPU, which is slow and for tests"
    _allow_few_blocks()
    try:
        if not cuda.is_available():
            return Found.NONE, "no GPU with a working CUDA driver was found"
        name = cuda.get_current_device().name
        # Loads numba.cuda, which takes a moment.
        from cepheid.accelerator.kernels import trial

        if not trial.adds_one():
            return Found.BROKEN, "a kernel gave a wrong result"
    except Exception as error:  # noqa: BLE001, RUF100  # drivers fail in many ways, and none may stop a run
        return Found.BROKEN, f"the first kernel failed ({first_line(error)})"
    return Found.GPU, name.decode() if isinstance(name, bytes) else str(name)


def _allow_few_blocks() -> None:
    """Suppress numba's warning about small grids: every tree of products ends with one."""
    for name in ("numba.cuda.core.config", "numba.core.config"):
        try:
            config: Any = importlib.import_module(name)
        except ImportError:
            continue
        config.CUDA_LOW_OCCUPANCY_WARNINGS = 0


def select_device(address: str) -> tuple[Found, str]:
    """Select one of several GPUs by its number or its name (a UUID).

    Returns the usable device, with its name or the reason why there is none.
    """
    found, name = find_device()
    if found is not Found.GPU:
        return found, name
    cuda: Any = importlib.import_module("numba.cuda")
    try:
        number = int(address) if address.isdecimal() else _number_of(cuda, address)
        cuda.select_device(number)
        name = cuda.get_current_device().name
    except Exception as error:  # noqa: BLE001, RUF100  # drivers fail in many ways, and none may stop a run
        return Found.NONE, f"there is no GPU `{address}` ({first_line(error)})"
    return Found.GPU, name.decode() if isinstance(name, bytes) else str(name)


def _number_of(cuda: Any, address: str) -> int:
    return [str(device.uuid) for device in cuda.list_devices()].index(address)


def require_device() -> Found:
    """Find the usable device, or raise if there is none.

    Raises
    ------
    UnsupportedError
        E551 if there is neither a GPU nor its simulator, E554 if the GPU does not work.
    """
    found, name = find_device()
    if found is Found.BROKEN:
        raise broken_device(name)
    if found is Found.NONE:
        helps = (
            "install `cepheid[gpu]` on a machine with an NVIDIA GPU and its driver",
            'use device="auto", which runs on the CPU where there is no GPU',
        )
        raise UnsupportedError([Diagnostic("E551", f"no GPU: {name}", helps=helps)])
    return found
