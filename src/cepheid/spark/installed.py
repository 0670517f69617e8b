"""Report a missing or outdated PySpark in one line, before anything imports it."""

from __future__ import annotations

import importlib
import re
from importlib.util import find_spec

from cepheid.errors import DataError, Diagnostic

RELEASE_MIN = (4, 0)
"""The oldest release of Spark that runs queries."""

INSTALL = "install it with Cepheid: `pip install 'cepheid[spark]'`"


def release(version: str) -> tuple[int, int]:
    """Parse the release of a version.

    Examples
    --------
    >>> release("4.1.0.dev2"), release("4.10")
    ((4, 1), (4, 10))
    """
    numbers = re.match(r"(\d+)\.(\d+)", version)
    assert numbers is not None, version
    return int(numbers[1]), int(numbers[2])


def check_installed(*libraries: str) -> None:
    """Check that libraries of the extra ``spark`` are installed, and PySpark is new enough.

    Raises
    ------
    DataError
        E596 if one is missing, E597 if PySpark is too old.
    """
    for library in libraries:
        if not _is_there(library):
            message = f"queries on Spark need the library `{library}`, which is not installed"
            raise DataError([Diagnostic("E596", message, helps=(INSTALL,))])
    version = str(importlib.import_module("pyspark").__version__)
    if release(version) < RELEASE_MIN:
        least = ".".join(map(str, RELEASE_MIN))
        message = f"queries on Spark need PySpark {least} or newer, not {version}"
        helps = ("install a newer one: `pip install --upgrade 'cepheid[spark]'`",)
        raise DataError([Diagnostic("E597", message, helps=helps)])


def _is_there(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except ImportError:
        return False  # The command line hides pandas from commands that do without it.
