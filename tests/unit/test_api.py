"""Arguments of another type are a mistake of the program, and said so at once."""

from __future__ import annotations

from typing import Any

import pytest

import cepheid


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (b"PATTERN A", {}, "text is a str, not bytes"),
        (["PATTERN A"], {}, "text is a str, not list"),
        (None, {}, "text is a str, not NoneType"),
        ("PATTERN A", {"time": None}, "time is a str, not NoneType"),
        ("PATTERN A", {"type": 5}, "type is a str, not int"),
        ("PATTERN A", {"tiebreak": "seq"}, "list of column names"),
        ("PATTERN A", {"tiebreak": [1]}, "names are str"),
    ],
)
def test_arguments_of_another_type_are_rejected(
    text: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        cepheid.query(text, **options)
