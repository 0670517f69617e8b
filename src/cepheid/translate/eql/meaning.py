"""Differences between the two languages that are called EQL."""

from __future__ import annotations

from typing import NamedTuple


class Meaning(NamedTuple):
    """Where Elasticsearch and the Python package ``eql`` differ.

    ``any_case``: texts are compared without regard to case by every operator and function.
    ``wildcards``: ``==`` and ``!=`` with a text that has ``*`` compare with a wildcard pattern,
    and in no pattern does ``?`` stand for a letter.
    ``floors``: the remainder has the sign of the divisor.
    ``ends_first``: an event that meets ``until`` ends a sequence that it would complete.
    ``null_keys``: events of a sequence that all lack a key have the same key.
    ``any_of_list``: a comparison with a list is true if it is of one of its values.
    ``indexed``: an index answers comparisons, which events without the field do not meet.
    """

    any_case: bool
    wildcards: bool
    floors: bool
    null_keys: bool
    ends_first: bool
    any_of_list: bool
    indexed: bool


ELASTICSEARCH = Meaning(
    any_case=False,
    wildcards=False,
    floors=False,
    null_keys=False,
    ends_first=False,
    any_of_list=True,
    indexed=True,
)
PYTHON = Meaning(
    any_case=True,
    wildcards=True,
    floors=True,
    null_keys=True,
    ends_first=True,
    any_of_list=False,
    indexed=False,
)
PYTHON_BY_CASE = PYTHON._replace(any_case=False)
