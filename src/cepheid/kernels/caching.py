"""Compiled kernels that no longer fit their sources are thrown away.

numba keeps what it compiles beside the source, and compiles again when the file of a function has
changed. It does not look at the files of the functions that it calls, which are compiled into it:
after an upgrade, old and new code would work together, and results would be anything.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

STAMP = "kernels.sha256"


def forget_stale(kernels: Path, package: Path) -> None:
    """Remove compiled kernels of other sources than those of a folder.

    Where that folder cannot be written, nothing is done: then numba has another place for them.
    """
    digest = hashlib.sha256()
    for path in sorted(kernels.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    found, stamp = digest.hexdigest(), kernels / "__pycache__" / STAMP
    try:
        if stamp.read_text() == found:
            return
    except OSError:
        pass
    try:
        for path in package.rglob("*.nb[ic]"):
            path.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        # Other processes may begin at the same time: each puts a whole file in its place.
        handle, name = tempfile.mkstemp(dir=stamp.parent)
        with os.fdopen(handle, "w") as file:
            file.write(found)
        Path(name).replace(stamp)
    except OSError:
        return
