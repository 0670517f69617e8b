"""Kernels of the cache are linked without numba, give the same bits, and are never mixed up."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from cepheid import kernels
from cepheid.kernels import cache, derive, linking
from cepheid.kernels.costs import listed
from cepheid.kernels.signature import of_values
from cepheid.kernels.tiers import Kernel, Tier, forced

KEYS = np.array([3, 1, 2, 1, 3, 3])
SIGNATURE = of_values((KEYS, 4))


@pytest.fixture(scope="module")
def entry() -> cache.Entry:
    """Return the cached code of a kernel that takes an array and returns two."""
    name = cache.name_of("derive.sort_by_key", SIGNATURE, entry=True)
    if cache.load(name) is None:
        with forced(Tier.COMPILE):
            derive.sort_by_key(KEYS, 4)
    found = cache.load(name)
    assert found is not None
    return found


def changed(entry: cache.Entry, **changes: Any) -> bytes:
    head, _, code = entry.linkable.partition(b"\n")
    linkable = msgspec.json.decode(head, type=linking.Linkable)
    return linking.pack(msgspec.structs.replace(linkable, **changes), code)


def test_a_linked_kernel_gives_the_same_bits_and_loads_no_numba(entry: cache.Entry) -> None:
    code = (
        "import sys, numpy as np\n"
        "from cepheid.kernels import derive\n"
        f"found = derive.sort_by_key(np.array({KEYS.tolist()}), 4)\n"
        "print([array.tolist() for array in found], 'numba' in sys.modules)\n"
        # numba loads its libraries once more, and both go on.
        "import numba\n"
        "made = numba.njit(lambda n: np.arange(n))\n"
        "print(made(2).tolist(), len(derive.sort_by_key(found[0], 6)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True,
        env={**os.environ, "CEPHEID_KERNELS": "compile"},
    )  # fmt: skip
    order, starts = (array.tolist() for array in derive.sort_by_key.function(KEYS, 4))
    assert done.stdout.splitlines() == [f"{[order, starts]} False", "[0, 1] 2"]


def test_a_name_that_is_not_there_leaves_the_kernel_to_numba(entry: cache.Entry) -> None:
    assert linking._link(derive.sort_by_key, changed(entry)) is not None
    assert linking._link(derive.sort_by_key, changed(entry, needs=["no_such_name"])) is None
    assert linking._link(derive.sort_by_key, changed(entry, wrapper="no_such_name")) is None


def test_code_that_only_numba_can_load_is_loaded_by_numba(
    entry: cache.Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    name = cache.name_of("derive.sort_by_key", SIGNATURE, entry=True)
    cache.save(name, entry._replace(linkable=b""))
    kernel = Kernel(derive.sort_by_key.function, inline="", work=None)
    Kernel.registry[kernel.name] = derive.sort_by_key
    assert linking.link(kernel, SIGNATURE) is None
    order, _ = kernel.run_compiled(KEYS, 4)
    assert order.tolist() == derive.sort_by_key.function(KEYS, 4)[0].tolist()
    assert not kernel._linked


def test_arrays_that_machine_code_misreads_have_other_types() -> None:
    swapped = KEYS.astype(">i8")
    shifted = np.frombuffer(b"\0" * 17, np.uint8)[1:].view(np.int64)
    descriptions = {of_values((array,)) for array in (KEYS, swapped, shifted, KEYS[::2])}
    assert len(descriptions) == 4
    assert of_values((KEYS,)) == "int64:1C"


def test_all_listed_kernels_that_are_compiled_can_be_linked() -> None:
    for one in listed():
        found = cache.load(cache.name_of(one.kernel, one.signature, entry=True))
        assert found is None or found.linkable, one.kernel


def test_a_signal_stops_a_linked_kernel(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, threading, numpy as np\n"
        "from cepheid.kernels import temporal_join\n"
        "from cepheid.kernels.tiers import Kernel\n"
        "from cepheid.kernels.signals import let_signals_in\n"
        "def count(rounds):\n"
        "    n = 0\n"
        "    while n < rounds:\n"
        "        n = let_signals_in(n)\n"
        "    return n\n"
        "count.__module__ = 'cepheid.kernels.temporal_join'\n"
        "kernel = Kernel(count, inline='', work=None)\n"
        "print(kernel(1000), 'numba' in sys.modules)\n"
        "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "kernel(10**15)"
    )
    variables = {"CEPHEID_KERNELS": "compile", "CEPHEID_CACHE": str(tmp_path / "kernels")}
    for numba_is_loaded in (True, False):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True, text=True, check=False, timeout=120,
            env={**os.environ, **variables},
        )  # fmt: skip
        assert done.stdout.split() == ["1000", str(numba_is_loaded)]
        assert "KeyboardInterrupt" in done.stderr
        assert done.returncode in (-signal.SIGINT, 130)


def test_kernels_that_borrow_make_no_array() -> None:
    # They would not compile, and interpreted they would run: most tests would not see it.
    for module in pkgutil.iter_modules(kernels.__path__, f"{kernels.__name__}."):
        importlib.import_module(module.name)
    made = re.compile(r"np\.(zeros|empty|full|ones|array|arange)|\.copy\(")
    borrowing = [kernel for kernel in Kernel.registry.values() if kernel.borrows]
    assert borrowing
    assert not [k.name for k in borrowing if made.search(inspect.getsource(k.function))]
