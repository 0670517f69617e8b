"""The dialects of EQL: that of Elasticsearch, and that of the Python package ``eql``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from cepheid.translate.eql.files import SUFFIXES, rules_of
from cepheid.translate.eql.meaning import ELASTICSEARCH, PYTHON, Meaning
from cepheid.translate.eql.queries import write_query
from cepheid.translate.translated import (
    CannotTranslateError,
    Dialect,
    Settings,
    SourceFile,
    Translated,
)


def translate_eql(
    files: Sequence[SourceFile], settings: Settings, meaning: Meaning
) -> Iterator[Translated]:
    """Translate all rules of all files."""
    for file in files:
        for rule, text in rules_of(file):
            yield rule if rule.reasons else _translated(rule, text, settings, meaning)


def _translated(rule: Translated, text: str, settings: Settings, meaning: Meaning) -> Translated:
    try:
        written = write_query(text, settings, meaning)
    except CannotTranslateError as error:
        return rule.refused(str(error))
    return msgspec.structs.replace(rule, query=written.query, notes=written.notes)


EQL = Dialect(
    "eql",
    "EQL as Elasticsearch has it",
    SUFFIXES,
    "event.category",
    partial(translate_eql, meaning=ELASTICSEARCH),
)
EQL_PYTHON = Dialect(
    "eql-python",
    "EQL as the Python package eql has it",
    SUFFIXES,
    "event_type",
    partial(translate_eql, meaning=PYTHON),
)
