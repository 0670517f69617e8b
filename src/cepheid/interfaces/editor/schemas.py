"""Find the columns that the queries of a document read: named in it, or in the settings.

Only files inside of the folders that the editor has open are read, links resolved.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from cepheid.errors import CepheidError, Span
from cepheid.interfaces.sampled_values import Sampled, sample_file

_COMMENT = re.compile(r"(?m)^[ \t]*(?:--|//|#)[ \t]*schema:[ \t]*(\S.*?)[ \t]*$")
CACHED_MAX = 16


class Named(NamedTuple):
    """A file of events that a document or the settings name; ``span`` is its place in the text."""

    name: str
    span: Span | None
    folder: Path | None


class Columns(NamedTuple):
    """The columns of a document; ``trouble`` says why they are unknown."""

    sampled: Sampled | None = None
    trouble: str = ""
    span: Span | None = None


def named_file(text: str, document: Path | None, setting: str, root: Path | None) -> Named | None:
    """Find the file that a document names in a comment ``-- schema: path``, else the settings."""
    found = _COMMENT.search(text)
    if found is not None:
        folder = None if document is None else document.parent
        return Named(found.group(1), Span(found.start(1), found.end(1)), folder)
    return Named(setting, None, root) if setting else None


class Schemas:
    """Reads files of events, and remembers them until they change."""

    def __init__(self) -> None:
        self._read: dict[tuple[Path, int, int], Columns] = {}

    def columns(self, named: Named | None, folders: list[Path]) -> Columns:
        """Read the columns of a file, if it lies in one of the folders."""
        if named is None:
            return Columns()
        if named.folder is None:
            return Columns(None, "the document is no file, so its schema has no place", named.span)
        try:
            path = (named.folder / named.name).resolve(strict=True)
            inside = any(path.is_relative_to(folder.resolve()) for folder in folders)
            if not inside:
                told = f"`{named.name}` lies outside of the open folders, so it is not read"
                return Columns(None, told, named.span)
            state = path.stat()
        except (OSError, ValueError, RuntimeError):
            return Columns(None, f"there is no file `{named.name}`", named.span)
        key = (path, state.st_mtime_ns, state.st_size)
        if key not in self._read:
            if len(self._read) >= CACHED_MAX:
                self._read.clear()
            self._read[key] = _columns(path)
        return self._read[key]._replace(span=named.span)


def _columns(path: Path) -> Columns:
    try:
        return Columns(sample_file(path))
    except CepheidError as error:
        return Columns(None, error.diagnostics[0].message)
