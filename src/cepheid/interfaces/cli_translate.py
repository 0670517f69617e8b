"""``cepheid translate``: rules of other languages become a folder of rules, with a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cepheid.interfaces.cli_input import WrongUseError, name_of, read_columns
from cepheid.interfaces.cli_options import SchemaOption, TimeOption
from cepheid.interfaces.commands import Argument, Option
from cepheid.interfaces.console import complain, say

if TYPE_CHECKING:
    from cepheid.translate.translated import Settings

REPORTS = {".md": "markdown", ".json": "json", ".txt": "text"}
"""The ends of files of a report."""


def translate(
    path: Annotated[Path, Argument(help="A file of rules, or a folder.")],
    dialect: Annotated[
        str, Option("--from", help="The language: eql, eql-python, sigma, flink-sql, esper.")
    ],
    output: Annotated[
        Path | None, Option("--output", "-o", help="Write the rules to this new folder.")
    ] = None,
    report: Annotated[
        Path | None, Option(help="Write the report to this file: .md, .json or .txt.")
    ] = None,
    format_: Annotated[str, Option("--format", help="text, json or markdown.")] = "text",
    fields: Annotated[
        list[str] | None,
        Option("--field", help="The column of a field: process.name=process_name."),
    ] = None,
    flat: Annotated[
        bool, Option("--flat", help="A field a.b is a column of this name, not of a structure.")
    ] = False,
    mapping: Annotated[
        str, Option(help="For sigma: a file that maps fields and log sources, or windows.")
    ] = "",
    schema: SchemaOption = None,
    time: TimeOption = "ts",
    type_: Annotated[
        str, Option("--type", help="The column of the event's category; by default the dialect's.")
    ] = "",
) -> None:
    """Translate rules of another language, and tell of each whether it means the same."""
    # Planning takes longer to load than most commands run.
    from cepheid.translate.dialects import DIALECTS
    from cepheid.translate.report import FORMATS, summary
    from cepheid.translate.translate import translate_path
    from cepheid.translate.write import write_rules

    if dialect not in DIALECTS:
        message = f"--from is one of {', '.join(DIALECTS)}, not {dialect}"
        if dialect.lower().startswith("flink"):
            message += (
                "; patterns of Flink CEP are Java, and docs/coming-from.md has a table for them"
            )
        raise WrongUseError(message)
    if format_ not in FORMATS:
        message = f"--format is one of {', '.join(FORMATS)}, not {format_}"
        raise WrongUseError(message)
    if report is not None and report.suffix.lower() not in REPORTS:
        message = f"--report must end in {', '.join(REPORTS)}"
        raise WrongUseError(message)
    if output is not None and output.exists() and not _is_empty(output):
        message = f"--output {output} exists already: name a new folder"
        raise WrongUseError(message)
    if not path.exists():
        message = f"could not read {name_of(str(path))}: no such file or folder"
        raise WrongUseError(message)
    chosen = DIALECTS[dialect]
    settings = _settings(fields or [], flat, schema, time, type_ or chosen.type)
    if mapping and chosen.name != "sigma":
        message = "--mapping goes with --from sigma"
        raise WrongUseError(message)
    if mapping:
        from cepheid.translate.sigma.mapping import BUILT_IN, with_mapping

        if mapping not in BUILT_IN and not Path(mapping).is_file():
            message = f"--mapping names a file, or {', '.join(BUILT_IN)}, not {mapping}"
            raise WrongUseError(message)
        settings = with_mapping(settings, mapping)
    rules = translate_path(path, chosen, settings)
    try:
        if output is not None:
            write_rules(rules, output)
        if report is not None:
            text = FORMATS[REPORTS[report.suffix.lower()]](rules)
            report.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        message = f"could not write {error.filename}: {error.strerror or error}"
        raise WrongUseError(message) from None
    if report is None or format_ != "text":
        say(FORMATS[format_](rules))
    else:
        say(summary(rules))
    if any(rule.reasons for rule in rules):
        complain("rules that are not carried over have no file; the report says why")
        raise SystemExit(1)


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _settings(
    fields: list[str],
    flat: bool,
    schema: Path | None,
    time: str,
    type_: str,
) -> Settings:
    from cepheid.translate.columns import types_of
    from cepheid.translate.translated import Settings

    columns: dict[str, str] = {}
    for one in fields:
        name, equal, column = one.partition("=")
        if not equal or not name or not column:
            message = f"--field is written name=column, not {one}"
            raise WrongUseError(message)
        columns[name] = column
    types = types_of(read_columns(schema))
    return Settings(type=type_, time=time, flat=flat, fields=columns, types=types)
