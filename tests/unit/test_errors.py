"""Carets stand below what they mean, whatever the width of the characters."""

from __future__ import annotations

import pytest

from cepheid.errors import Diagnostic, Span, place_of, render_diagnostic


def caret_line(text: str, start: int, end: int) -> str:
    """Return what stands below the source line."""
    return render_diagnostic(Diagnostic("E101", "no", Span(start, end)), text).splitlines()[4]


@pytest.mark.parametrize(
    ("text", "marked", "wanted"),
    [
        ("PATTERN A B x", "x", "  |             ^"),
        ("PATTERN 名名 名 x", "x", "  |                 ^"),
        ("PATTERN 名名 名 x", "名名", "  |         ^^^^"),
        ("PATTERN e\u0301 x", "x", "  |           ^"),
        ("PATTERN \tA x", "x", "  |            ^"),
        ("PATTERN \uff21\uff22 x", "x", "  |              ^"),
    ],
)
def test_carets_count_columns_of_a_terminal(text: str, marked: str, wanted: str) -> None:
    start = text.index(marked)
    assert caret_line(text, start, start + len(marked)) == wanted


def test_carets_of_a_cut_line_count_columns_too() -> None:
    text = "名" * 300 + " x"
    lines = render_diagnostic(Diagnostic("E101", "no", Span(301, 302)), text).splitlines()
    shown = lines[3].removeprefix("1 | ")
    assert shown.startswith("…名")
    assert shown.endswith(" x")
    assert len(lines[4]) == len("  | ") + 1 + 2 * shown.count("名") + len(" x")


def test_a_place_is_line_and_column() -> None:
    assert place_of("RETURN COUNT(*)\n  PATTERN A", Span(18, 25)) == "2:3"
