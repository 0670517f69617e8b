"""A file that says where the events of log sources are in, settings out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from cepheid.decoding import from_values
from cepheid.errors import DataError, Diagnostic
from cepheid.translate.sigma.names import PARTS
from cepheid.translate.sigma.windows import WINDOWS
from cepheid.translate.translated import Log, Settings

BUILT_IN: Mapping[str, tuple[Log, ...]] = {"windows": WINDOWS}
"""Mappings that go by a name."""

FILE_BYTES_MAX = 1 << 20


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    logsource: dict[str, str] = {}
    from_: str = msgspec.field(default="", name="from")
    where: str = ""
    type: str = ""
    fields: dict[str, str] = {}
    keywords: list[str] = []


class _File(msgspec.Struct, forbid_unknown_fields=True):
    fields: dict[str, str] = {}
    logsources: list[_Entry] = []
    keywords: list[str] = []
    placeholders: dict[str, list[str]] = {}


def with_mapping(settings: Settings, name: str) -> Settings:
    """Return settings with what a mapping says; its fields give way to those that are there.

    Raises
    ------
    DataError
        E501 if the file cannot be read, E533 if it is no mapping, E536 without PyYAML.
    """
    if name in BUILT_IN:
        return settings._replace(logs=BUILT_IN[name])
    read = _read(Path(name))
    logs = tuple(
        Log(one.logsource, one.from_, one.where, one.type, one.fields, tuple(one.keywords))
        for one in read.logsources
    )
    unknown = {part for one in read.logsources for part in one.logsource} - {*PARTS}
    if unknown:
        message = f"`{name}` has a log source with `{min(unknown)}`"
        helps = (f"the parts of a log source are {', '.join(PARTS)}",)
        raise DataError([Diagnostic("E533", message, helps=helps)])
    return settings._replace(
        logs=logs,
        fields={**read.fields, **settings.fields},
        keywords=tuple(read.keywords),
        placeholders=read.placeholders,
    )


def _read(file: Path) -> _File:
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            message = f"`{file}` is longer than {FILE_BYTES_MAX >> 20} MB"
            raise DataError([Diagnostic("E501", message)])
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        helps = (f"name a file, or one of {', '.join(BUILT_IN)}",)
        message = f"could not read `{file}`: {error}"
        raise DataError([Diagnostic("E501", message, helps=helps)]) from None
    try:
        return from_values(_parsed(text, file) or {}, _File)
    except msgspec.ValidationError as error:
        helps = ("its parts are fields, logsources, keywords and placeholders",)
        message = f"`{file}` is no mapping: {error}"
        raise DataError([Diagnostic("E533", message, helps=helps)]) from None


def _parsed(text: str, file: Path) -> Any:
    try:
        import yaml
    except ImportError:
        message = f"`{file}` is YAML, and PyYAML is not installed"
        helps = ("install it: `pip install 'cepheid[sigma]'`",)
        raise DataError([Diagnostic("E536", message, helps=helps)]) from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        message = f"`{file}` is no YAML: {' '.join(str(error).split())}"
        raise DataError([Diagnostic("E533", message)]) from None
