"""Read rules from a folder of query files and YAML, from a YAML file, a table or a database.

A rule that cannot be read is refused alone: its mistakes are returned beside the other rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cepheid.errors import CepheidError, DataError, Diagnostic
from cepheid.interfaces.rule import FIELDS, Rule, rule_of
from cepheid.interfaces.rule_tables import RuleTable

NAME, TEXT = "name", "query"
"""The columns that every table of rules has."""

YAML = (".yaml", ".yml")
OTHER_LANGUAGES = {".eql": "eql", ".toml": "eql", ".epl": "esper", ".sql": "flink-sql"}
"""The ends of files with rules of other languages, which `cepheid translate` reads."""
QUERY = ".cq"
_HEADER = re.compile(r"\s*(?:--|//|#)\s*@(\w+)\s*:\s*(.*?)\s*")
_COMMENT = re.compile(r"\s*(?:(?:--|//|#).*)?")


Place = Path | RuleTable
"""Where rules are: files, or a table of a database."""


class Written(NamedTuple):
    """A rule as a file has it: its fields, the name of one that has none, and the file."""

    fields: dict[str, Any]
    name: str
    place: str


class RulesRead(NamedTuple):
    """The rules of a folder or file by name, and why others are refused."""

    rules: dict[str, Rule]
    refused: tuple[CepheidError, ...] = ()


def read_rules(place: Place) -> RulesRead:
    """Read rules; those that are at fault are refused alone.

    Parameters
    ----------
    place
        A folder, whose ``.cq`` files are rules with the names of the files (those in folders below
        it with their path) and whose YAML files hold rules; a YAML file; or a Parquet, Arrow, CSV
        or JSON lines file, or a table, with the columns ``name``, ``query`` and those of other
        fields.

    Raises
    ------
    DataError
        E501 if a table cannot be read, E532 if there are no rules, or a table lacks a column, E536
        if PyYAML is not installed, E537 if a database cannot be read.
    """
    rules: dict[str, Rule] = {}
    refused: list[CepheidError] = []
    for written in _written(place):
        try:
            if isinstance(written, CepheidError):
                raise written
            rule = rule_of(*written)
            if rule.name in rules:
                message = f"there is another rule `{rule.name}` before that in `{written.place}`"
                helps = ("give every rule a name of its own",)
                raise DataError([Diagnostic("E532", message, helps=helps)], file=rule.name)
        except CepheidError as error:
            refused.append(error)
            continue
        rules[rule.name] = rule
    if not rules and not refused:
        message = f"{shown(place)} has no rules"
        helps = ("write each rule to a file that ends in .cq, or several to one in .yaml",)
        raise DataError([Diagnostic("E532", message, helps=_translated_first(place) or helps)])
    return RulesRead(rules, tuple(refused))


def _translated_first(place: Place) -> tuple[str, ...]:
    """Tell how to translate the rules of another language that are in a place."""
    if isinstance(place, RuleTable):
        return ()
    files = sorted(place.rglob("*")) if place.is_dir() else [place]
    found = {OTHER_LANGUAGES.get(file.suffix.lower(), "") for file in files} - {""}
    return tuple(
        f"translate its rules first: `cepheid translate --from {one} {place} --output rules`"
        for one in sorted(found)
    )


def shown(place: Place) -> str:
    """Name a place in messages."""
    return str(place) if isinstance(place, RuleTable) else f"`{place}`"


def stamp_of(place: Place) -> object:
    """Collect what changes with the rules of a place, so that they are read again only then."""
    if isinstance(place, RuleTable):
        return place.stamp()
    files = sorted(place.rglob("*")) if place.is_dir() else [place]
    found: list[tuple[object, ...]] = []
    for file in files:
        try:
            about = file.stat()
        except OSError:
            found.append((str(file),))
            continue
        found.append((str(file), about.st_ino, about.st_size, about.st_mtime_ns))
    return tuple(found)


def _written(place: Place) -> Iterator[Written | CepheidError]:
    if isinstance(place, RuleTable):
        yield from _in_database(place)
    elif place.is_dir():
        yield from _in_folder(place)
    elif place.suffix == QUERY:
        yield _in_file(place, place.stem, place.name)
    elif place.suffix.lower() in YAML:
        yield from _in_yaml(place, place.stem)
    elif place.suffix.lower() not in OTHER_LANGUAGES:
        yield from _in_table(place)


def _in_folder(path: Path) -> Iterator[Written | CepheidError]:
    for file in sorted(path.rglob("*")):
        place = file.relative_to(path)
        if file.is_dir() or any(part.startswith(".") for part in place.parts):
            continue  # Editors keep such files while others are open.
        name = place.with_suffix("").as_posix()
        if file.suffix == QUERY:
            yield _in_file(file, name, place.as_posix())
        elif file.suffix.lower() in YAML:
            yield from _in_yaml(file, name)


def _in_file(file: Path, name: str, place: str) -> Written | CepheidError:
    """Read a file that is one rule, with its fields in the comments above the query."""
    text = _text_of(file, name)
    return Written({TEXT: text, **_header(text)}, name, place) if isinstance(text, str) else text


def _text_of(file: Path, name: str) -> str | CepheidError:
    """Read a text, or return why it cannot be read."""
    try:
        return file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        message = f"could not read `{file}`: {error.strerror or error}"
        return DataError([Diagnostic("E501", message)], file=name)
    except UnicodeDecodeError:
        message = f"`{file}` is not UTF-8 text"
        helps = ("save the file with the encoding UTF-8",)
        return DataError([Diagnostic("E502", message, helps=helps)], file=name)


def _header(text: str) -> dict[str, str]:
    r"""Read the fields in the comments above a query.

    Examples
    --------
    >>> _header("-- Large orders.\n-- @owner: desk\nRETURN COUNT(*) PATTERN A -- @tags: none")
    {'owner': 'desk'}
    """
    found = {}
    for line in text.splitlines():
        field = _HEADER.fullmatch(line)
        if field is not None:
            found[field[1]] = field[2]
        elif not _COMMENT.fullmatch(line):
            break
    return found


def _in_yaml(file: Path, name: str) -> Iterator[Written | CepheidError]:
    text = _text_of(file, name)
    if not isinstance(text, str):
        yield text
        return
    # A library that few users need.
    from cepheid.interfaces.rule_yaml import read_yaml

    try:
        documents = read_yaml(text, str(file))
    except CepheidError as error:
        yield error
        return
    for fields in documents:
        yield Written(fields, name, str(file))


def _in_table(path: Path) -> Iterator[Written]:
    # Arrow takes longer to load than reading a folder of rules.
    from cepheid.events.files import find_files, read_all

    for table in read_all(find_files(str(path))):
        known = _known_columns(table.column_names, path)
        for fields in table.select(known).to_pylist():
            yield Written(fields, "", str(path))


def _in_database(place: RuleTable) -> Iterator[Written]:
    names, rows = place.read()
    known = set(_known_columns(names, place))
    # Tables have no order, and of two rules with one name the same should be refused each time.
    for row in sorted(rows, key=repr):
        fields = {name: v for name, v in zip(names, row, strict=True) if name in known}
        yield Written(fields, "", str(place).replace("`", ""))


def _known_columns(names: Sequence[str], place: Place) -> list[str]:
    """Choose the columns of a table that are fields of rules.

    Raises
    ------
    DataError
        E532 if a rule would have no name or no query.
    """
    for name in (NAME, TEXT):
        if name not in names:
            message = f"{shown(place)} has no column `{name}`"
            helps = (f"a table of rules has the columns `{NAME}` and `{TEXT}`",)
            raise DataError([Diagnostic("E532", message, helps=helps)])
    return [name for name in names if name in FIELDS]
