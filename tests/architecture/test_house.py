"""The picture of the house in the documentation is the one that the source has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import cepheid

SOURCE = Path(cepheid.__file__).parent
PAGE = SOURCE.parents[1] / "docs" / "how-it-works.md"
SERVES_ALL = {
    "errors",
    "options",
    "memory_limits",
    "decoding",
    "framing",
    "bundled_events",
    "__init__",
    "cepheid",
    "garbage",
}

Edges = set[tuple[str, str]]


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the rooms that a module imports, inside of functions too; not what only types need."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("cepheid"):
            whole = "." in node.module
            yield from [node.module.split(".")[1]] if whole else (a.name for a in node.names)
        yield from imported(node)


def found() -> Edges:
    edges = set()
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).with_suffix("").parts[0]
        for other in imported(ast.parse(path.read_text(encoding="utf-8"))):
            if other != room and not {room, other} & SERVES_ALL:
                edges.add((room, other))
    return edges


def without_detours(edges: Edges) -> Edges:
    """Leave out what follows from other edges."""

    def reached(room: str) -> set[str]:
        direct = {b for a, b in edges if a == room}
        return direct.union(*(reached(other) for other in direct))

    return {
        (a, b)
        for a, b in edges
        if not any(b in reached(other) for x, other in edges if x == a and other != b)
    }


def test_the_picture_shows_the_imports() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## The house")[2]
    block = text.partition("```mermaid")[2].partition("```")[0]
    drawn = set(re.findall(r"(\w+) --> (\w+)", block))
    assert drawn == without_detours(found())


def test_the_walk_names_files_that_are_there() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## A walk")[2].partition("## The house")[0]
    for cell in re.findall(r"^\| \d+ \| ([^|]*) \|", text, re.M):
        folder = Path()
        for name in re.findall(r"`([\w/]+\.py)`", cell):
            path = Path(name)
            folder = path.parent if path.parent != Path() else folder
            assert (SOURCE / folder / path.name).is_file() or (SOURCE / path).is_file(), name
