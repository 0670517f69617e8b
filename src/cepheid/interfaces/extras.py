"""The libraries of extras that commands need."""

from __future__ import annotations

import importlib.util

from cepheid.errors import DataError, Diagnostic


def need_library(command: str, module: str, extra: str) -> None:
    """Refuse a command whose library is not installed.

    Raises
    ------
    DataError
        E585 if it is missing.
    """
    if importlib.util.find_spec(module) is None:
        message = f"`cepheid {command}` needs the package `{module}`, which is not installed"
        helps = (f"install it: `pip install 'cepheid[{extra}]'`",)
        raise DataError([Diagnostic("E585", message, helps=helps)])
