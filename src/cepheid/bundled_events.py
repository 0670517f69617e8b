"""The events that come with the package, for examples: a name in, the path of a file out."""

from __future__ import annotations

from pathlib import Path

from cepheid.options import refuse

FOLDER = Path(__file__).parent / "data"


def bundled(name: str) -> str:
    """Find the file of the events that come with the package.

    Parameters
    ----------
    name
        `shop`, `trades`, `spy`, `web`, `departures`, `payments`, `driving` or `loans`; the folder
        has a page that tells where each comes from.

    Raises
    ------
    OptionError
        E590 if there are no such events.

    Examples
    --------
    >>> import cepheid
    >>> cepheid.query("RETURN COUNT(*) PATTERN visit v").run(cepheid.bundled("shop")).to_pylist()
    [{'count': 1200}]
    """
    names = sorted(path.stem for path in FOLDER.glob("*.parquet"))
    if name not in names:
        refuse("E590", f"there are no bundled events `{name}`; there are {', '.join(names)}")
    return str(FOLDER / f"{name}.parquet")
