"""The list of launches has every kernel, and a launch that it lacks fails."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from tests.accelerator.launches import LIST, read_launches, type_of

import cepheid
from cepheid.accelerator.kernels import columns

SOURCE = Path(str(cepheid.__file__)).parent


def kernels_of(path: Path) -> set[str]:
    """Return the kernels that a module defines, as the list names them."""
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for outer in tree.body:
        for inner in ast.walk(outer):
            if isinstance(inner, ast.FunctionDef) and any(
                ast.unparse(one) == "cuda.jit" for one in inner.decorator_list
            ):
                assert isinstance(outer, ast.FunctionDef)
                names = [outer.name] if inner is outer else [outer.name, inner.name]
                found.add(".".join([path.stem, *names]))
    return found


def test_every_kernel_is_listed() -> None:
    listed = {launch.kernel for launch in read_launches(LIST.read_text(encoding="utf-8"))}
    paths = (SOURCE / "accelerator/kernels").glob("*.py")
    assert {name for path in paths for name in kernels_of(path)} == listed


def test_a_launch_that_is_not_listed_fails() -> None:
    columns.count_off[1, 8](np.zeros(3, np.int64))
    with pytest.raises(
        AssertionError, match=r"make launches`: columns\.count_off \(float64\[1C\]\)"
    ):
        columns.count_off[1, 8](np.zeros(3))
    with pytest.raises(AssertionError, match="no blocks"):
        columns.count_off[0, 8](np.zeros(3, np.int64))


def test_types_are_those_of_a_device() -> None:
    grid = np.zeros((4, 3), np.float64)
    assert type_of((grid, grid[:, 1], 3, True, 0.5, np.int32(1))) == (
        "(float64[2C],float64[1A],int64,bool,float64,int32)"
    )


def test_every_module_is_reached_by_a_query() -> None:
    """A module of the device that no runtime imports serves nobody."""
    paths = {
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): path
        for path in SOURCE.rglob("*.py")
    }
    modules = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    reached, left = set(), ["cepheid.runtimes"]
    while left:
        name = left.pop()
        if name not in modules or name in reached:
            continue
        reached.add(name)
        for node in ast.walk(ast.parse(modules[name].read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                left += [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
    ours = {name for name in modules if ".accelerator" in name or ".device" in name}
    assert ours <= reached
