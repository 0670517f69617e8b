"""Write the list of compiled kernels: ``python -m cepheid.kernels.build_signatures FOLDER``.

The folder is a cache that the tests have filled with ``CEPHEID_KERNELS=compile``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cepheid.kernels import cache
from cepheid.kernels.costs import LIST


def main(folder: Path) -> None:
    """Write ``signatures.txt``."""
    found: dict[tuple[str, str], float] = {}
    for place in folder.rglob("*-entry-*"):
        entry = cache.read(place)
        if entry is not None:
            found[entry.kernel, entry.signature] = entry.seconds
    lines = (f"{found[key]:.1f} {key[0]} {key[1]}\n" for key in sorted(found))
    Path(__file__).with_name(LIST).write_text("".join(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
