"""Compile kernels to machine code with numba; no other CPU module imports it."""

from __future__ import annotations

import importlib
import logging
import pickle
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit, types
from numba.core import serialize
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.extending import overload

from cepheid.kernels import cache, costs
from cepheid.kernels.linking import Linkable, pack
from cepheid.kernels.signature import of_types, split
from cepheid.kernels.twins import clone

if TYPE_CHECKING:
    from collections.abc import Callable

    from cepheid.kernels.tiers import Kernel, Operation

_SMALLER = {types.int8, types.int16, types.int32}
log = logging.getLogger("cepheid")


def overloaded(operation: Operation) -> Any:
    """Build a function that numba compiles by the kind of its argument."""
    functions = {kind: clone(function, "machine") for kind, function in operation.kinds.items()}

    def choose(*arguments: Any) -> Any:
        kind = arguments[operation.of]
        kind = kind.dtype if isinstance(kind, types.Array) else kind
        if isinstance(kind, types.Complex):
            return functions["wide"]
        return functions["residue" if isinstance(kind, types.Integer) else "double"]

    stub = clone(operation.double, "plain")
    overload(stub, strict=False)(choose)
    return stub


class _KernelCache(_Cache):
    """Compiled code of one kernel in the folder of ``cache.py``."""

    def __init__(self, kernel: Kernel, *, entry: bool) -> None:
        self._kernel, self._entry = kernel, entry
        self._begun_s = 0.0

    @property
    def cache_path(self) -> str:
        return str(cache.folder())

    def _name(self, signature: Any) -> str:
        return cache.name_of(self._kernel.name, of_types(signature), entry=self._entry)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        entry = cache.load(self._name(sig))
        if entry is None:
            self._begun_s = time.process_time()
            return None
        # The folder is the user's own: cache.py has checked it.
        magic, payload = pickle.loads(entry.body)
        if magic != target_context.codegen().magic_tuple():
            return None
        return CompileResult._rebuild(target_context, *payload)

    def save_overload(self, sig: Any, data: Any) -> None:
        payload = data._reduce()
        body = serialize.dumps((data.codegen.magic_tuple(), payload))
        took_s = time.process_time() - self._begun_s
        packed = _linkable(data.library, payload) if self._entry else b""
        entry = cache.Entry(self._kernel.name, of_types(sig), took_s, packed, body)
        cache.save(self._name(sig), entry)

    def enable(self) -> None:
        """Do nothing: the cache is always enabled."""

    def disable(self) -> None:
        """Do nothing, as above."""

    def flush(self) -> None:
        """Do nothing, as above."""


def _linkable(library: Any, payload: tuple[Any, ...]) -> bytes:
    """Describe the object file of a kernel for ``linking.py``; empty if it needs numba."""
    (_, _, (code, _)), described, own, *_, referenced = payload
    environments: dict[str, list[str]] = {}
    # The wrapper takes the last one.
    for environment in (*(other for other in referenced if other is not own), own):
        if not all(isinstance(constant, np.dtype) for constant in environment.consts):
            return b""
        environments[environment.env_name] = [constant.str for constant in environment.consts]
    module = library._final_module
    names = [f.name for f in module.functions if f.is_declaration]
    names += [v.name for v in module.global_variables if v.is_declaration]
    needs = [name for name in names if not name.startswith("llvm.")]
    return pack(Linkable(described.llvm_cpython_wrapper_name, needs, environments), code)


def dispatcher(kernel: Kernel, *, entry: bool) -> Any:
    """Build numba's dispatcher of a kernel, for calls from Python or from other kernels."""
    compiler: Any = njit  # Its type stubs lack the options for wrappers.
    made = compiler(
        nogil=True,
        inline="always" if kernel.inline == "source" else "never",
        forceinline=kernel.inline == "code",
        error_model="numpy",  # Division by zero returns the interpreter's value, without an error.
        no_cpython_wrapper=not entry,
        no_cfunc_wrapper=True,
        _nrt=not kernel.borrows,
    )(clone(kernel.function, "machine"))
    made._cache = _KernelCache(kernel, entry=entry)
    ask = made.get_call_template
    # One version serves callers with constants and with numbers of any size.
    made.get_call_template = lambda args, kws: ask(tuple(map(_usual, args)), kws)
    if entry:
        made._compile_for_args = _first_call(kernel, made)
    return made


def _first_call(kernel: Kernel, made: Any) -> Callable[..., Any]:
    """Build the hook that numba calls for new argument types; it returns the function to run."""

    def choose(*arguments: Any) -> Any:
        if kernel.interprets(arguments):
            return kernel.interpret
        made._compilation_chain_init_hook()
        exact = tuple(made.typeof_pyval(value) for value in arguments)
        common = tuple(map(_writable, exact))
        if common not in made.overloads:
            _compile(kernel.name, made, common)
        entry = made.overloads[common].entry_point
        if exact != common:
            made._insert([kind._code for kind in exact], entry, False)
        return entry

    return choose


def _compile(name: str, made: Any, kinds: tuple[Any, ...]) -> None:
    """Load or compile a kernel, and report it; wait for another process that compiles it."""
    file = cache.name_of(name, of_types(kinds), entry=True)
    if cache.load(file) is None:
        seconds = costs.compile_seconds(name)
        log.warning("compiling %s, once on this machine, about %.0f s", name, seconds)
        with cache.locked(file):
            made.compile(kinds)
    else:
        made.compile(kinds)


def type_of(text: str) -> Any:
    """Convert the description of one argument to numba's type."""
    name, bracket, members = text.partition("(")
    if bracket:
        kinds = tuple(map(type_of, split(members[:-1])))
        if not name:
            return types.BaseTuple.from_types(kinds)
        module, _, attribute = name.rpartition(".")
        return _named(kinds, getattr(importlib.import_module(module), attribute))
    dtype, colon, shape = text.partition(":")
    kind: Any = types.boolean if dtype == "bool" else getattr(types, dtype)
    layout: Any = shape[1:]
    return types.Array(kind, int(shape[0]), layout) if colon else kind


def _usual(kind: Any) -> Any:
    """Choose the integer type for constants and for smaller integers."""
    kind = types.unliteral(kind)
    return types.int64 if kind in _SMALLER else kind


def _writable(kind: Any) -> Any:
    """Convert a read-only array type to a writable one: the code is the same."""
    if isinstance(kind, types.Array):
        return kind.copy(readonly=False)
    if isinstance(kind, types.NamedTuple | types.NamedUniTuple):
        return _named(tuple(map(_writable, kind.types)), kind.instance_class)
    if isinstance(kind, types.BaseTuple):
        members: Any = kind
        return types.BaseTuple.from_types(tuple(map(_writable, members.types)))
    return kind


def _named(kinds: tuple[Any, ...], of: type) -> Any:
    """Build the type of a named tuple, as numba infers it for a value."""
    if len(set(kinds)) == 1:
        return types.NamedUniTuple(kinds[0], len(kinds), of)
    return types.NamedTuple(kinds, of)
