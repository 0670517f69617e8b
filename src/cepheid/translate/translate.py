"""A folder of rules and a dialect in, their translations out, each with a name of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from cepheid.api import query
from cepheid.errors import CepheidError, DataError, Diagnostic
from cepheid.translate.translated import Dialect, Settings, SourceFile, Translated

FILE_BYTES_MAX = 16 << 20
"""The longest file of rules that is read."""


def translate_path(path: Path, dialect: Dialect, settings: Settings) -> list[Translated]:
    """Translate the rules of a file, or of all files of a folder that have an end of the dialect.

    Raises
    ------
    DataError
        E501 if a file cannot be read, E502 if it is no text, E532 if there are no rules.
    """
    files = [_read(file, path) for file in _files(path, dialect)]
    found = list(_named(_checked(one, settings) for one in dialect.translate(files, settings)))
    if not found:
        message = f"`{path}` has no rules of {dialect.about}"
        helps = (f"its files end in {', '.join(dialect.suffixes)}",)
        raise DataError([Diagnostic("E532", message, helps=helps)])
    return found


def _files(path: Path, dialect: Dialect) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.suffix.lower() in dialect.suffixes)
    return [file for file in found if file.is_file() and not _is_hidden(file.relative_to(path))]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _read(file: Path, root: Path) -> SourceFile:
    shown = file.relative_to(root).as_posix() if root.is_dir() else file.name
    try:
        size = file.stat().st_size
        if size > FILE_BYTES_MAX:
            message = f"`{file}` is longer than {FILE_BYTES_MAX >> 20} MB"
            raise DataError([Diagnostic("E501", message, helps=("split it",))])
        return SourceFile(shown, file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        message = f"could not read `{file}`: {error.strerror or error}"
        raise DataError([Diagnostic("E501", message)]) from None
    except UnicodeDecodeError:
        helps = ("save the file with the encoding UTF-8",)
        raise DataError([Diagnostic("E502", f"`{file}` is not UTF-8 text", helps=helps)]) from None


def _checked(rule: Translated, settings: Settings) -> Translated:
    """Plan the query of a rule: what Cepheid refuses is not carried over."""
    if rule.reasons:
        return rule
    try:
        query(rule.query, time=settings.time, type=settings.type)
    except CepheidError as error:
        told = error.diagnostics[0]
        return rule.refused(f"Cepheid has no such query: {told.message} ({told.code})")
    return rule


def _named(rules: Iterable[Translated]) -> Iterator[Translated]:
    """Give rules that have the name of another one a number."""
    seen: dict[str, int] = {}
    for rule in rules:
        count = seen[rule.name] = seen.get(rule.name, 0) + 1
        name = rule.name if count == 1 else f"{rule.name} ({count})"
        seen.setdefault(name, 1)
        yield rule if count == 1 else msgspec.structs.replace(rule, name=name)
