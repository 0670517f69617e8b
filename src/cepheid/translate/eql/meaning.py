"""What differs between the two languages that are called EQL."""

from __future__ import annotations

from typing import NamedTuple


class Meaning(NamedTuple):
    """Where Elasticsearch and the Python package ``eql`` differ.

    ``any_case``: texts are compared without regard to case by every operator and function.
    ``wildcards``: ``==`` and ``!=`` with a text that has ``*`` compare with a wildcard pattern.
    ``floors``: the remainder has the sign of the divisor.
    ``null_keys``: events of a sequence that all lack a key have the same key.
    """

    any_case: bool
    wildcards: bool
    floors: bool
    null_keys: bool


ELASTICSEARCH = Meaning(any_case=False, wildcards=False, floors=False, null_keys=False)
PYTHON = Meaning(any_case=True, wildcards=True, floors=True, null_keys=True)
PYTHON_BY_CASE = PYTHON._replace(any_case=False)
