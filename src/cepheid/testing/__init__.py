"""Tools for tests: the oracle, streams in shorthand, and strategies for Hypothesis.

`cepheid.testing.strategies` needs Hypothesis (``pip install cepheid[testing]``) and is imported by
its own name only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cepheid.testing.harness import stream
    from cepheid.testing.oracle import evaluate

__all__ = ["evaluate", "stream"]


def __getattr__(name: str) -> object:
    # The oracle is loaded when somebody asks for it: most runs of Cepheid never do.
    if name == "stream":
        from cepheid.testing.harness import stream

        return stream
    if name == "evaluate":
        from cepheid.testing.oracle import evaluate

        return evaluate
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
