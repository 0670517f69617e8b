"""Tests the source as text: lengths, names, docstrings and other habits that no linter checks."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import tokenize
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

# Every file is parsed once, by one worker.
pytestmark = pytest.mark.xdist_group("tidy")

ROOT = Path(__file__).parents[1]

# Aim for 400 lines; a file that reaches the limit wants to be two files.
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

VAGUE_MODULES = {"utils", "common", "misc", "helpers"}
VAGUE_WORDS = {"Manager", "Helper", "Handler", "Factory", "Base"}

CAMEL_WORD = re.compile(r"[A-Z][a-z0-9]*")
LOCK_LINE = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|work|tmp)/")
TODO_WITHOUT_NUMBER = re.compile(r"\bTODO\b(?!\(#\d+\))")


@pytest.fixture(autouse=True, scope="module")
def no_garbage() -> Iterator[None]:
    """Let trees be: looking for garbage among them takes twice as long as making them."""
    gc.disable()
    yield
    gc.enable()


@cache
def project_files() -> tuple[Path, ...]:
    """Return every file that Git tracks or would track; without Git, every file of the source."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    except (FileNotFoundError, subprocess.CalledProcessError):
        folders = ("src", "tests", "docs", "benchmarks", "examples")
        nested = (path for folder in folders for path in (ROOT / folder).rglob("*"))
        paths = [path for path in (*ROOT.glob("*"), *nested) if "__pycache__" not in path.parts]
    return tuple(sorted(path for path in set(paths) if path.is_file()))


def python_files(folder: str = ".") -> Iterator[Path]:
    for path in project_files():
        if path.suffix == ".py" and path.is_relative_to(ROOT / folder):
            yield path


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(parsed(path)))


def place(path: Path, line: int = 1) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function's body, without signature and docstring."""
    assert function.end_lineno is not None
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return function.end_lineno - body[0].lineno + 1 if body else 0


def has_code(module: ast.Module) -> bool:
    return len(module.body) > (ast.get_docstring(module) is not None)


def has_postponed_annotations(module: ast.Module) -> bool:
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in module.body
    )


def test_source_is_found() -> None:
    assert ROOT / "src" / "cepheid" / "__init__.py" in set(python_files("src"))


def test_files_are_short() -> None:
    lengths = {path: path.read_text(encoding="utf-8").count("\n") for path in python_files()}
    long = [
        f"{place(path)} {count} lines" for path, count in lengths.items() if count > FILE_LINES_MAX
    ]
    assert not long


def test_functions_are_short() -> None:
    long = [
        f"{place(path, node.lineno)} {node.name} {code_lines(node)} lines"
        for path in python_files()
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and code_lines(node) > FUNCTION_LINES_MAX
    ]
    assert not long


def test_every_module_has_a_docstring() -> None:
    bare = [place(path) for path in python_files("src") if not ast.get_docstring(parsed(path))]
    assert not bare


def test_annotations_are_postponed() -> None:
    eager = [
        place(path)
        for path in python_files()
        if has_code(parsed(path)) and not has_postponed_annotations(parsed(path))
    ]
    assert not eager


def test_modules_have_telling_names() -> None:
    vague = [
        place(path)
        for path in python_files()
        if VAGUE_MODULES
        & {part.strip("_") for part in path.relative_to(ROOT).with_suffix("").parts}
    ]
    assert not vague


def test_classes_have_telling_names() -> None:
    vague = [
        f"{place(path, node.lineno)} {node.name}"
        for path in python_files()
        for node in nodes(path)
        if isinstance(node, ast.ClassDef)
        and (words := CAMEL_WORD.findall(node.name))
        and VAGUE_WORDS & {words[0], words[-1]}
    ]
    assert not vague


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """Return the comments of a file, with their lines."""
    with path.open(encoding="utf-8") as source:
        for token in tokenize.generate_tokens(source.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def test_every_todo_has_a_number() -> None:
    unnumbered = [
        place(path, line)
        for path in python_files()
        if "TODO" in path.read_text(encoding="utf-8")  # Most files need not be cut into tokens.
        for line, comment in comments(path)
        if TODO_WITHOUT_NUMBER.search(comment)
    ]
    assert not unnumbered


def test_the_library_does_not_print() -> None:
    prints = [
        place(path, node.lineno)
        for path in python_files("src")
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert not prints


def test_no_file_names_a_path_of_one_machine() -> None:
    found = []
    for path in project_files():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue  # A binary file.
        found += [
            f"{place(path, number)} {line.strip()}"
            for number, line in enumerate(lines, start=1)
            if MACHINE_PATH.search(line)
        ]
    assert not found


def test_the_lock_holds_names_and_versions_only() -> None:
    lines = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8").splitlines()
    assert lines
    assert [line for line in lines if not LOCK_LINE.fullmatch(line)] == []
