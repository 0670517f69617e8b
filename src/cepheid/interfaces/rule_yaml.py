"""YAML in, the fields of rules out; a text that is no YAML is refused with its place."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from cepheid.errors import DataError, Diagnostic, Span


def read_yaml(text: str, file: str) -> list[dict[str, Any]]:
    """Read the rules of a YAML text: one rule, a list of them, or a list under ``rules``.

    Only plain values are made, whatever tags the text has.

    Raises
    ------
    DataError
        E533 if the text is no YAML, or is something else than rules; E536 without PyYAML.
    """
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError:
        message = f"`{file}` is YAML, and PyYAML is not installed"
        helps = ("install it: `pip install 'cepheid[yaml]'`",)
        raise DataError([Diagnostic("E536", message, helps=helps)], file=file) from None
    try:
        _refuse_twins(yaml.compose_all(text, yaml.SafeLoader), text, file, yaml)
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise _no_yaml(error, text, file) from None
    except (ValueError, RecursionError) as error:
        # A date that does not exist, a number of too many digits, lists in lists in lists.
        message = f"`{file}` has a value that cannot be read: {error}"
        helps = ("write it in quotes",)
        raise DataError([Diagnostic("E533", message, helps=helps)], file=file) from None
    return [fields for document in documents for fields in _rules_in(document, file)]


def _rules_in(document: Any, file: str) -> Iterator[dict[str, Any]]:
    if isinstance(document, dict) and set(document) == {"rules"}:
        document = document["rules"]
    for fields in document if isinstance(document, list) else [document]:
        if fields is None:
            continue
        if not isinstance(fields, dict):
            message = f"`{file}` has `{str(fields)[:40]}` in the place of a rule"
            helps = ("write a rule as `- name: big-trades`, and below it `query: RETURN ...`",)
            raise DataError([Diagnostic("E533", message, helps=helps)], file=file)
        yield {str(name): value for name, value in fields.items()}


def _refuse_twins(documents: Any, text: str, file: str, yaml: Any) -> None:
    """Refuse a field that is written twice: PyYAML would take the last one without a word."""
    waiting, seen = [node for node in documents if node is not None], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue  # An alias may lead back.
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            names: set[str] = set()
            for key, value in node.value:
                name = str(key.value)
                if name in names:
                    span = Span(key.start_mark.index, key.end_mark.index)
                    message = f"`{name}` is written twice"
                    helps = ("remove one of them",)
                    raise DataError(
                        [Diagnostic("E533", message, span, helps=helps)], text, file=file
                    )
                names.add(name)
                waiting.append(value)


def _no_yaml(error: Any, text: str, file: str) -> DataError:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or str(error).partition("\n")[0]
    message = f"this is no YAML: {what}"
    span = None
    if mark is not None:
        index = min(mark.index, max(len(text) - 1, 0))
        span = Span(index, index + 1)
    helps = ("put texts with `:` or `#` in quotes, and queries of several lines below `query: |`",)
    return DataError([Diagnostic("E533", message, span, helps=helps)], text, file=file)
