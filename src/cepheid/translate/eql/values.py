"""Values of expressions: the text in the language, and what is known of the type."""

from __future__ import annotations

from typing import NamedTuple

from cepheid.translate.translated import CannotTranslateError


class WrongTypesError(CannotTranslateError):
    """An expression computes with values of other types than it takes."""


class Value(NamedTuple):
    """The text of a value and its type, which is empty if it is not known."""

    text: str
    kind: str = ""
