"""The grid for pipes looks as Rich draws it."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cepheid.interfaces.plain_grid import WIDTH, plain_grid
from cepheid.interfaces.rich_tables import rich_grid

TEXTS = st.text("ab1 .\n\té漢", max_size=9)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[bool], list[list[str]]]:
    count, rows = draw(st.integers(1, 7)), draw(st.integers(0, 4))
    heads = draw(st.lists(TEXTS, min_size=count, max_size=count))
    numbers = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    columns = [draw(st.lists(TEXTS, min_size=rows, max_size=rows)) for _ in range(count)]
    return heads, numbers, columns


@given(tables())
def test_random_tables(drawn: tuple[list[str], list[bool], list[list[str]]]) -> None:
    heads, numbers, columns = drawn
    found = plain_grid(heads, numbers, columns)
    if found is None:
        return
    written = io.StringIO()
    Console(file=written, width=WIDTH).print(rich_grid(heads, numbers, columns))
    assert f"{found}\n" == written.getvalue()


def test_what_needs_rich() -> None:
    assert plain_grid(["a"], [False], [["x" * (WIDTH - 4)]]) is not None
    assert plain_grid(["a"], [False], [["x" * (WIDTH - 3)]]) is None
    assert plain_grid(["a"], [False], [["é"]]) is None
    assert plain_grid(["a"], [False], [["\x1b[1m"]]) is None
    assert plain_grid([], [], []) is None
