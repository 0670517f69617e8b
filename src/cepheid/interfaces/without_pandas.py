"""Hide pandas: Arrow imports it for its first array, which takes longer than a small query."""

from __future__ import annotations

import sys


class _NoPandas:
    """A finder of modules that finds no pandas."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Refuse to import pandas, and nothing else."""
        if fullname == "pandas":
            message = "the command line does without pandas, unless it starts Spark"
            raise ModuleNotFoundError(message, name=fullname)


def hide_pandas() -> None:
    """Let this process do without pandas from now on."""
    sys.meta_path.insert(0, _NoPandas())
