"""Describe the types of a kernel's arguments as text, which names its compiled code in the cache.

Values are described without numba, so that looking into the cache does not load it. Whether an
array may be written is left out: machine code is the same for both.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np


class _Arrays(dict[tuple[Any, int, int], str]):
    """Descriptions of arrays; a kernel of sixty arrays looks them up in every call."""

    def __missing__(self, key: tuple[Any, int, int]) -> str:
        dtype, ndim, flags = key
        layout = "C" if flags & _C_CONTIGUOUS else "F" if flags & _F_CONTIGUOUS else "A"
        usual = dtype.isnative and flags & _ALIGNED
        self[key] = text = f"{dtype.name if usual else f'unusual {dtype.str}'}:{ndim}{layout}"
        return text


class _Scalars(dict[type, str]):
    """Names of the types of scalars; numpy puts them together anew each time."""

    def __missing__(self, key: type[np.generic]) -> str:
        self[key] = text = np.dtype(key).name
        return text


_C_CONTIGUOUS, _F_CONTIGUOUS, _ALIGNED = 0x1, 0x2, 0x100
_LAYOUT = _C_CONTIGUOUS | _F_CONTIGUOUS | _ALIGNED
_arrays, _scalars = _Arrays(), _Scalars()


def of_values(arguments: tuple[Any, ...]) -> str:
    """Describe the arguments of a call."""
    return ",".join(
        [
            _arrays[value.dtype, value.ndim, value.flags.num & _LAYOUT]
            if type(value) is np.ndarray
            else _of_value(value)
            for value in arguments
        ]
    )


def _of_value(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return _arrays[value.dtype, value.ndim, value.flags.num & _LAYOUT]
    if isinstance(value, np.generic):
        return _scalars[type(value)]
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64" if value < 2**63 else "uint64"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, complex):
        return "complex128"
    if isinstance(value, tuple):
        name = "" if type(value) is tuple else _class_name(type(value))
        return f"{name}({of_values(value)})"
    return type(value).__name__


@functools.cache
def _class_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def of_types(arguments: tuple[Any, ...]) -> str:
    """Describe numba's types of the arguments of a call, in the notation of ``of_values``."""
    return ",".join(map(_of_type, arguments))


def _of_type(kind: Any) -> str:
    if hasattr(kind, "layout"):
        return f"{kind.dtype}:{kind.ndim}{kind.layout}"
    if hasattr(kind, "types"):
        name = _class_name(kind.instance_class) if hasattr(kind, "instance_class") else ""
        return f"{name}({of_types(tuple(kind.types))})"
    return str(kind)


def split(text: str) -> list[str]:
    """Cut a description at the commas between its arguments."""
    parts, depth, begun = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(text[begun:place])
            begun = place + 1
    return [*parts, text[begun:]] if text else []
