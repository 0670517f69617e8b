"""Read rules from a folder of query files, or from a table with a name and a query in every row."""

from __future__ import annotations

from pathlib import Path

from cepheid.errors import DataError, Diagnostic

NAME, TEXT = "name", "query"
"""The columns of a table of rules."""


def read_rules(path: Path) -> dict[str, str]:
    """Read the texts of rules by their names.

    Parameters
    ----------
    path
        A folder, whose ``.cq`` files are rules with the names of the files (those in folders below
        it with their path), or a Parquet, Arrow, CSV or JSON lines file with the columns ``name``
        and ``query``.

    Raises
    ------
    DataError
        E501 if the file cannot be read, E502 if a rule is not UTF-8 text, E532 if there are no
        rules, or a table lacks a column, has a NULL, or has duplicate names.
    """
    rules = _from_folder(path) if path.is_dir() else _from_table(path)
    if not rules:
        message = f"`{path}` has no rules"
        helps = ("write each rule to a file that ends in .cq",)
        raise DataError([Diagnostic("E532", message, helps=helps)])
    return rules


def _from_folder(path: Path) -> dict[str, str]:
    rules = {}
    for file in sorted(path.rglob("*.cq")):
        place = file.relative_to(path)
        if any(part.startswith(".") for part in place.parts):
            continue  # Editors keep such files while others are open.
        try:
            rules[place.with_suffix("").as_posix()] = file.read_bytes().decode("utf-8-sig")
        except OSError as error:
            message = f"could not read `{file}`: {error.strerror or error}"
            raise DataError([Diagnostic("E501", message)]) from error
        except UnicodeDecodeError:
            message = f"`{file}` is not UTF-8 text"
            helps = ("save the file with the encoding UTF-8",)
            raise DataError([Diagnostic("E502", message, helps=helps)]) from None
    return rules


def _from_table(path: Path) -> dict[str, str]:
    # Arrow takes longer to load than reading a folder of rules.
    from cepheid.events.files import find_files, read_all

    rules: dict[str, str] = {}
    for table in read_all(find_files(str(path))):
        missing = [name for name in (NAME, TEXT) if name not in table.column_names]
        if missing:
            message = f"`{path}` has no column `{missing[0]}`"
            helps = (f"a table of rules has the columns `{NAME}` and `{TEXT}`",)
            raise DataError([Diagnostic("E532", message, helps=helps)])
        for name, text in zip(table[NAME].to_pylist(), table[TEXT].to_pylist(), strict=True):
            if name is None or text is None or str(name) in rules:
                what = f"the rule `{name}` twice" if str(name) in rules else "a rule without text"
                message = f"`{path}` has {what}"
                helps = ("give every rule a name of its own and a query",)
                raise DataError([Diagnostic("E532", message, helps=helps)])
            rules[str(name)] = str(text)
    return rules
