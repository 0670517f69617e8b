"""The launches of kernels that the tests have seen: which kernel, with which types.

The simulator runs Python and knows no types, so ``launches.txt`` lists them, and ``ptx.py``
compiles every line of it. A launch that is not on the list fails: ``make launches`` writes it anew.
A line has a kernel, the types of its arguments, and the arguments of the function that built it.
"""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

LIST = Path(__file__).with_name("launches.txt")
FOLDER = os.environ.get("CEPHEID_LAUNCHES", "")
"""Where a process writes the launches that it has seen, instead of comparing them."""

KERNELS = "cepheid.accelerator.kernels."
THREADS_MOST, BLOCKS_MOST = 1024, 65535
MISSING = "a kernel is launched with types that are not listed: run `make launches`"

_recipes: dict[Any, tuple[str, tuple[Any, ...]]] = {}
"""The name of every kernel, and the arguments of the function that built it."""
_forms: dict[Any, tuple[str, Any]] = {}
"""The function that built a predicate, and its form."""
_seen: set[Launch] = set()
_listed: set[tuple[str, str]] = set()


class Launch(NamedTuple):
    """A kernel, the types of its arguments, and what it was built with."""

    kernel: str
    types: str
    built: str

    def line(self) -> str:
        """Write a line of the list."""
        return f"{self.kernel} {self.types} {self.built}\n"


def read_launches(text: str) -> list[Launch]:
    """Read the lines of a list."""
    return [Launch(*line.split(" ", 2)) for line in text.splitlines()]


def type_of(value: Any) -> str:
    """Write the type with which a device would compile an argument, without blanks."""
    array = getattr(value, "_ary", value)
    if isinstance(array, np.ndarray):
        layout = "C" if array.flags.c_contiguous else "A"
        return f"{array.dtype.name}[{array.ndim}{layout}]"
    if isinstance(value, tuple):
        return "(" + ",".join(map(type_of, value)) + ")"
    if isinstance(value, np.generic):
        return value.dtype.name
    return {bool: "bool", int: "int64", float: "float64"}[type(value)]


def note_launch(kernel: Any, args: tuple[Any, ...]) -> None:
    """Check a launch, and compare it with the list or remember it."""
    blocks, threads = kernel.grid_dim, kernel.block_dim
    assert min(blocks) > 0, "a device refuses to launch no blocks"
    assert np.prod(threads) <= THREADS_MOST
    assert max(blocks[1:]) <= BLOCKS_MOST
    if kernel not in _recipes:
        return
    name, built = _recipes[kernel]
    launch = Launch(name, "(" + ",".join(map(type_of, args)) + ")", repr(built))
    if launch in _seen:
        return
    if FOLDER:
        with (Path(FOLDER) / f"{os.getpid()}.txt").open("a", encoding="utf-8") as file:
            file.write(launch.line())
    else:
        if not _listed:
            lines = read_launches(LIST.read_text(encoding="utf-8"))
            _listed.update((line.kernel, line.types) for line in lines)
        assert launch[:2] in _listed, f"{MISSING}: {launch.line()}"
    _seen.add(launch)


def watch_kernels(cuda: Any) -> None:
    """Remember how kernels are built, from now on."""
    from cepheid.accelerator.kernels import conditions

    jit = cuda.jit

    def watched(function: Any = None, **options: Any) -> Any:
        built = jit(function, **options)
        if function is not None and not options:
            _remember(built, sys._getframe(1))
        return built

    watched.__wrapped__ = jit  # type: ignore[attr-defined]  # its signature tells its options
    cuda.jit = watched
    for name in ("predicate_of", "pair_predicate_of"):
        setattr(conditions, name, _named(name, getattr(conditions, name)))


def _named(name: str, build: Any) -> Any:
    def built(form: Any) -> Any:
        found = build(form)
        _forms[found] = name, form
        return found

    return built


def _remember(kernel: Any, frame: Any) -> None:
    """Remember the arguments of the function in which a kernel is defined."""
    module, code = str(frame.f_globals["__name__"]), frame.f_code
    if not module.startswith(KERNELS):
        return
    path = module.removeprefix(KERNELS)
    if code.co_name == "<module>":
        _recipes[kernel] = f"{path}.{kernel.__name__}", ()
        return
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    values = [frame.f_locals[name] for name in names]
    if all(not callable(value) or value in _forms for value in values):
        built = tuple(_forms[value] if callable(value) else value for value in values)
        _recipes[kernel] = f"{path}.{code.co_name}.{kernel.__name__}", built


def main(folder: Path) -> None:
    """Write the list from what processes have seen: the smallest and the largest of each kernel."""
    seen = {
        launch
        for file in sorted(folder.glob("*.txt"))
        for launch in read_launches(file.read_text(encoding="utf-8"))
    }
    found: dict[tuple[str, str], list[Launch]] = {}
    for launch in sorted(seen):
        found.setdefault(launch[:2], []).append(launch)
    lines = []
    for own in found.values():
        own.sort(key=lambda launch: (size_of(ast.literal_eval(launch.built)), launch.built))
        lines += [launch.line() for launch in dict.fromkeys((own[0], own[-1]))]
    LIST.write_text("".join(sorted(lines)), encoding="utf-8")


def size_of(built: Any) -> int:
    """Measure the arguments of a kernel: how large a matrix is, how long a form."""
    if isinstance(built, tuple):
        return 1 + sum(map(size_of, built))
    return built if isinstance(built, int) else 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
