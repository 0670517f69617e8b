"""Twins: functions that kernels call, with one version for each tier under one name.

The code of a kernel is copied with other global names: in the copy for the interpreter they refer
to Python functions, in the copy for the compiler to numba functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

Function = Callable[..., Any]


class Twin(ABC):
    """A function that kernels call, with one version for each tier."""

    @property
    @abstractmethod
    def plain(self) -> Function:
        """Return the version for interpreted kernels."""

    @property
    @abstractmethod
    def machine(self) -> Any:
        """Return the version for compiled kernels, for numba."""

    def __call__(self, *arguments: Any) -> Any:
        """Run the Python version."""
        return self.plain(*arguments)


def clone(function: Function, tier: str) -> FunctionType:
    """Copy a function so that its global names refer to their twins of a tier."""
    assert isinstance(function, FunctionType), f"{function} has no code"
    twins: dict[str, Any] = {"__builtins__": __builtins__, "__name__": function.__module__}
    copy = FunctionType(
        function.__code__, twins, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    copy.__doc__ = function.__doc__
    for name in _names(function.__code__):
        if name in function.__globals__:
            value = function.__globals__[name]
            if isinstance(value, Twin):
                value = getattr(value, tier)
            twins[name] = value
    return copy


def twins_of(function: Function) -> list[Twin]:
    """Collect the twins that a function calls by their global names."""
    assert isinstance(function, FunctionType), f"{function} has no code"
    named = (function.__globals__.get(name) for name in _names(function.__code__))
    return [value for value in named if isinstance(value, Twin)]


def _names(code: CodeType) -> set[str]:
    """Collect the global names that a function uses, also in its inner functions."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names
