"""Compile every kernel without a GPU, and say what the assembler made of it: ``make ptx``.

Each line of ``launches.txt`` becomes PTX for an H200 by libNVVM, and machine code by ptxas. The
sizes of blocks are those of a GPU; the tests have small ones. It runs in ``build/ptx``, an
environment with numba-cuda and the tools of CUDA beside what the project needs.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

if __name__ != "__mp_main__":
    os.environ["NUMBA_ENABLE_CUDASIM"] = "0"

from tests.accelerator.launches import KERNELS, LIST, Launch, read_launches

CAPABILITY = (9, 0)
REGISTERS = 1 << 16
"""Registers of a block."""

WARP = 32
STEP = 8
"""A block gets registers for whole warps, and a thread in steps."""

EVERY: Any = (
    "and",
    ("or", *(("compare", op, "whole", ("whole", "column", 0, 0, -1), ("whole", "constant", 0))
             for op in ("=", "<>", "<", "<=", ">", ">="))),
    ("or", *(("not", ("compare", op, "double", ("double", "column", 1, 0, 0),
                      ("double", "compute", sign, ("double", "column", 0, 0, -1),
                       ("double", "constant", 0))))
             for op, sign in zip(("=", "<>", "<", "<=", ">", ">="), "+-*+-*", strict=True))),
    ("known", 1, 0),
)  # fmt: skip
"""A form with every operation of conditions."""


LARGEST: dict[str, tuple[Any, ...]] = {
    "chunks.chunk_kernel.kernel": (8, 1, 6, 3, 1),
    "chunks.wide_kernel.kernel": (8, 1, 6, 3),
    "folds.fold_kernel.kernel": (9, 9, 9, 9, 8, 32),
    "products.product_kernel.kernel": (8, 6, 3),
    "sorted_trends.sorted_trend_kernel.kernel": (0, 24, 8, 4),
    "sweep_steps.cell_kernel.kernel": (8, 1, 6, 3),
    "sweep_steps.product_of_cells.kernel": (8, 1, 6, 3),
    "sweeps.sweep_kernel.kernel": (8, 1, 6, 3),
    "trailing.trailing_kernel.kernel": (8, 1, 6, 3),
    "trends.trend_kernel.kernel": ((0, 4, 5), 24, 8),
}
"""Kernels for queries with more aggregates and configurations than those of the tests."""


class Made(NamedTuple):
    """What the assembler says of a kernel, or the line of an error."""

    launch: Launch
    registers: int = 0
    local: int = 0
    spilled: int = 0
    shared: int = 0
    divisions: int = 0
    seconds: float = 0.0
    error: str = ""


def device_sizes() -> dict[str, dict[str, int]]:
    """Return the sizes of blocks on a GPU, of the functions that build kernels for one size."""
    from cepheid.accelerator import launches, selecting
    from cepheid.kinds.trend.device import trends

    return {
        "filter_kernels": {"threads": selecting.THREADS, "items": launches.ITEMS},
        "scan_kernel": {"threads": launches.SCAN_THREADS},
        "fold_kernel": {"threads": selecting.THREADS, "items": selecting.RUN},
        "trend_kernel": {"threads": trends.THREADS},
        "least_kernel": {"threads": trends.SORTED_THREADS_MOST},
        "sorted_trend_kernel": {"threads": trends.SORTED_THREADS_MOST, "tile": trends.TILE},
    }


def largest_block(kernel: str) -> int:
    """Return the threads of the largest block with which a kernel is launched."""
    from cepheid.accelerator.grouping import THREADS
    from cepheid.accelerator.linear import GPU_SIZES

    own = device_sizes().get(kernel.split(".")[1], {})
    return own.get("threads", max(THREADS, GPU_SIZES.threads))


def kernel_of(launch: Launch) -> Any:
    """Build the kernel of a launch, with the sizes of a GPU."""
    module, name, *inner = launch.kernel.split(".")
    found = getattr(importlib.import_module(KERNELS + module), name)
    if not inner:
        return found
    from cepheid.kinds.trend.device.trends import threads_for

    conditions = importlib.import_module(KERNELS + "conditions")
    values = [
        getattr(conditions, value[0])(value[1]) if is_predicate(value) else value
        for value in ast.literal_eval(launch.built)
    ]
    bound = inspect.signature(found.__wrapped__).parameters
    arguments = dict(zip(bound, values, strict=True)) | device_sizes().get(name, {})
    if {"parts", "threads"} <= arguments.keys():
        compared = len(arguments.get("operators", "1"))
        threads = threads_for(arguments["threads"], arguments["parts"], compared)
        arguments |= {"threads": threads}
        arguments |= {"tile": min(threads, arguments["tile"])} if "tile" in arguments else {}
    built = found(**arguments)
    several = built if isinstance(built, tuple) else (built,)
    return next(one for one in several if one.py_func.__name__ == inner[0])


def is_predicate(value: Any) -> bool:
    """Check whether an argument is a predicate: the name of a function, and a form."""
    return isinstance(value, tuple) and isinstance(value[0], str)


def types_of(text: str) -> Any:
    """Read the types of arguments."""
    from numba import types as numba_types
    from numba.np.numpy_support import from_dtype

    types: Any = numba_types

    def read(node: ast.expr) -> Any:
        match node:
            case ast.Tuple(elts=parts):
                return types.BaseTuple.from_types([read(part) for part in parts])
            case ast.Name(id=name):
                return from_dtype(np.dtype(name))
            case ast.Call(func=ast.Name(id=name), args=[ast.Constant(size), ast.Name(id=layout)]):
                return types.Array(from_dtype(np.dtype(name)), size, layout)
        raise AssertionError(ast.dump(node))

    body = ast.parse(re.sub(r"\[(\d)(\w)\]", r"(\1,\2)", text), mode="eval").body
    return tuple(read(part) for part in (body.elts if isinstance(body, ast.Tuple) else [body]))


def made_of(launch: Launch) -> Made:
    """Compile and assemble a kernel."""
    from numba import cuda

    # The compiler asks the device for nothing but this.
    dispatcher: Any = importlib.import_module("numba.cuda.dispatcher")
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=CAPABILITY)
    begun = time.process_time()
    try:
        kernel = kernel_of(launch)
        code, _ = cuda.compile_ptx(kernel.py_func, types_of(launch.types), cc=CAPABILITY)
    except Exception as error:  # noqa: BLE001, RUF100  # a compiler fails in many ways
        why = f"{type(error).__name__}: {error}"
        return Made(launch, error=why)
    seconds = time.process_time() - begun
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(code)
        file.flush()
        tool = Path(sys.prefix).glob("lib/python3.*/site-packages/nvidia/*/bin/ptxas")
        arch = f"sm_{CAPABILITY[0]}{CAPABILITY[1]}"
        done = subprocess.run(
            [next(tool), "-arch", arch, "-v", "-o", os.devnull, file.name],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        return Made(launch, error=done.stderr.strip())
    spilled, local, registers, shared = (
        int(found[1]) if (found := re.search(pattern, done.stderr)) else 0
        for pattern in (
            r"(\d+) bytes spill stores", r"(\d+) bytes stack frame", r"Used (\d+) registers",
            r"(\d+) bytes smem",
        )
    )  # fmt: skip
    divisions = len(re.findall(r"\b(?:div|rem)\.[su]64", code))
    room = -(-registers // STEP) * STEP * -(-largest_block(launch.kernel) // WARP) * WARP
    why = f"a block needs {room} registers, of {REGISTERS}" if room > REGISTERS else ""
    return Made(launch, registers, local, spilled, shared, divisions, seconds, why)


def launches() -> list[Launch]:
    """Return what to compile: the list, large kernels, and all operations of conditions."""
    listed = read_launches(LIST.read_text(encoding="utf-8"))
    more: dict[str, tuple[Any, ...]] = {
        "stretches.bit_kernel.kernel": (("predicate_of", EVERY),),
        "compaction.join_kernels.write": (("pair_predicate_of", EVERY),),
        **LARGEST,
    }
    known = {one.kernel: one for one in listed}
    return listed + [known[name]._replace(built=repr(built)) for name, built in more.items()]


def main(begin: str) -> None:
    """Compile the kernels of a name, and print a table; fail if one does not compile."""
    chosen = [one for one in launches() if one.kernel.startswith(begin)]
    say = sys.stdout.write
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(made_of, chosen, chunksize=2))
    say(f"{'kernel':44} registers  local  spilled  shared  64-bit divisions\n")
    for one in found:
        if not one.error:
            say(
                f"{one.launch.kernel:44} {one.registers:9} {one.local:6} {one.spilled:8}"
                f" {one.shared:7} {one.divisions:6}  {one.launch.built[:60]}\n"
            )
    failed = [one for one in found if one.error]
    for one in failed:
        say(f"\n{one.launch.line()}{one.error}\n")
    seconds = sum(one.seconds for one in found)
    say(f"\n{len(found)} kernels, {seconds:.0f} s, {len(failed)} failed\n")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main("".join(sys.argv[1:]))
