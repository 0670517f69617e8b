"""Cepheid finds, counts and aggregates patterns in streams of events.

>>> import cepheid
>>> q = cepheid.query("RETURN COUNT(*) PATTERN SEQ(Login, Transfer T+) WITHIN 10 minutes")
>>> q.plan.choice.evaluator.value
'linear'

Every public name is loaded when it is first used, so that ``import cepheid`` costs next to nothing
and reading a query loads neither numba nor Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cepheid import kafka as kafka
    from cepheid import metrics as metrics
    from cepheid import pictures as pictures
    from cepheid.api import CompiledQuery, query
    from cepheid.bundled_events import bundled as bundled
    from cepheid.discovery.discover import discover
    from cepheid.errors import (
        BindError,
        CepheidError,
        DataError,
        Diagnostic,
        QueryError,
        QuerySyntaxError,
        UnsupportedError,
    )
    from cepheid.functions import function
    from cepheid.memory_limits import limits
    from cepheid.pipelines import pipeline
    from cepheid.plans.plan import Plan
    from cepheid.runtimes.spark.functions import register
    from cepheid.runtimes.stored_events import EventStore
    from cepheid.runtimes.sweep_curve import sweep_curve
    from cepheid.statements import sql
    from cepheid.workloads import Workload, workload

__version__ = "0.2.0"

_HOME = {
    "query": "cepheid.api",
    "bundled": "cepheid.bundled_events",
    "pipeline": "cepheid.pipelines",
    "discover": "cepheid.discovery.discover",
    "sql": "cepheid.statements",
    "CompiledQuery": "cepheid.api",
    "function": "cepheid.functions",
    "limits": "cepheid.memory_limits",
    "Plan": "cepheid.plans.plan",
    "Diagnostic": "cepheid.errors",
    "CepheidError": "cepheid.errors",
    "QueryError": "cepheid.errors",
    "QuerySyntaxError": "cepheid.errors",
    "BindError": "cepheid.errors",
    "UnsupportedError": "cepheid.errors",
    "DataError": "cepheid.errors",
    "EventStore": "cepheid.runtimes.stored_events",
    "sweep_curve": "cepheid.runtimes.sweep_curve",
    "register": "cepheid.runtimes.spark.functions",
    "Workload": "cepheid.workloads",
    "workload": "cepheid.workloads",
}

_MODULES = ("kafka", "metrics", "pictures")
"""Modules that are loaded when they are first used."""

__all__ = [
    "BindError",
    "CepheidError",
    "CompiledQuery",
    "DataError",
    "Diagnostic",
    "EventStore",
    "Plan",
    "QueryError",
    "QuerySyntaxError",
    "UnsupportedError",
    "Workload",
    "discover",
    "function",
    "limits",
    "pipeline",
    "query",
    "register",
    "sql",
    "sweep_curve",
    "workload",
]


def __getattr__(name: str) -> object:
    """Load a public name on first use (PEP 562)."""
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"cepheid.{name}")
    if name not in _HOME:
        message = f"module 'cepheid' has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "bundled", "__version__"])
