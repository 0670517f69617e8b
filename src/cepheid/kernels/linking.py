"""Link compiled kernels from the cache into this process, without loading numba.

numba takes 0.4 s to load, and needs most of it only to compile. A cached kernel holds an object
file with a wrapper for Python values. LLVM links it in a millisecond; the functions that it calls
are those of Python and of numba's runtime, which is three small libraries. The code is the one that
numba compiled, so the results have the same bits.

A kernel that cannot be linked is loaded by numba: its runtime may have moved, or lack a function.
"""

from __future__ import annotations

import builtins
import ctypes
import functools
import importlib.util
import pickle
import sys
import threading
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from cepheid.decoding import from_json
from cepheid.kernels import cache

if TYPE_CHECKING:
    from cepheid.kernels.tiers import Kernel
    from cepheid.kernels.twins import Function

_LIBRARIES = ("numba._helperlib", "numba._dynfunc", "numba.core.runtime._nrt_python")
_lock = threading.Lock()
_alive: list[Any] = []
"""Linked code and what it points to, which live as long as the process."""


_ARRAY_CLASS = pickle.dumps(np.ndarray, 4)
"""The class of the arrays that a kernel returns, as numba writes it."""


@ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
def _constant(place: int, length: int, digest: int) -> Any:
    """Read a constant of a kernel: a class of arrays, or an exception that numba reads."""
    data = ctypes.string_at(place, length)
    if data == _ARRAY_CLASS:
        return np.ndarray
    # Loads numba: a signal stops the kernel.
    from numba.core.serialize import _numba_unpickle

    return _numba_unpickle(place, data, ctypes.string_at(digest, 20))


class Linkable(msgspec.Struct, frozen=True):
    """The linker's description of an object file."""

    wrapper: str
    """The function for calls from Python."""
    needs: list[str]
    """The names that the object file uses and does not define."""
    environments: dict[str, list[str]]
    """The variables that point to constants, and the constants: names of data types."""


def pack(linkable: Linkable, code: bytes) -> bytes:
    """Put an object file behind its description."""
    return msgspec.json.encode(linkable) + b"\n" + code


def link(kernel: Kernel, signature: str) -> Function | None:
    """Link a kernel for some types from the cache; None if that is not possible."""
    entry = cache.load(cache.name_of(kernel.name, signature, entry=True))
    if entry is None or not entry.linkable:
        return None
    with _lock:
        try:
            return _link(kernel, entry.linkable)
        except (ImportError, OSError, AttributeError, KeyError, RuntimeError):
            return None


def _link(kernel: Kernel, packed: bytes) -> Function | None:
    # Loads LLVM.
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    head, _, code = packed.partition(b"\n")
    linkable = from_json(head, Linkable)
    libraries = _libraries()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    _alive.append(engine)
    for name in linkable.needs:
        # LLVM ends the process if it cannot find a name.
        address = libraries.names.get(name)
        if address is not None:
            llvm.add_symbol(name, address)
        elif not llvm.address_of_symbol(name):
            return None
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    environment = None
    for name, constants in linkable.environments.items():
        place = engine.get_global_value_address(name)
        environment = libraries.environment({"__name__": kernel.__module__})
        environment.consts.extend(map(np.dtype, constants))
        _alive.append(environment)
        if place:
            ctypes.c_void_p.from_address(place).value = id(environment)
    address = engine.get_function_address(linkable.wrapper)
    if not address:
        return None
    module, text = sys.modules[kernel.__module__], f"linked {kernel.name}"
    made: Function = libraries.make(module, kernel.__name__, text, address, environment, ())
    return made


class _Libraries:
    """The libraries of numba's runtime, loaded without the package that they lie in."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        spec = importlib.util.find_spec("numba")
        assert spec is not None, "the folder of the cache is named by the version of numba"
        assert spec.origin is not None, "numba is a package of files"
        folder = Path(spec.origin).parent
        helpers, functions, runtime = (_library(folder, name) for name in _LIBRARIES)
        runtime.memsys_use_cpython_allocator()
        self.make, self.environment = functions.make_function, functions.Environment
        self.names: dict[str, int] = dict(helpers.c_helpers)
        for name, address in {**helpers.c_helpers, **functions.c_helpers}.items():
            self.names[f"numba_{name}"] = address
        for name, address in runtime.c_helpers.items():
            self.names[name if name.startswith("_") else f"NRT_{name}"] = address
        # Those of numba load all of it, to read one name.
        self.names["numba_unpickle"] = ctypes.cast(_constant, ctypes.c_void_p).value or 0
        self.names["_Py_NoneStruct"] = id(None)
        for name, value in vars(builtins).items():
            if isinstance(value, type) and issubclass(value, BaseException):
                self.names[f"PyExc_{name}"] = id(value)


_libraries = functools.cache(_Libraries)


def _library(folder: Path, name: str) -> Any:
    """Load a library of numba, or find the one that numba has loaded."""
    if name in sys.modules:
        return sys.modules[name]
    place = folder.joinpath(*name.split(".")[1:])
    for suffix in EXTENSION_SUFFIXES:
        file = place.with_name(place.name + suffix)
        spec = importlib.util.spec_from_file_location(name, file) if file.exists() else None
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            # numba imports its libraries itself, and gets the same ones.
            sys.modules.pop(name, None)
            return module
    raise ImportError(name)
