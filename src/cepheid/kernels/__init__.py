"""Array loops: numbers in, numbers out; they know nothing of queries."""

from __future__ import annotations

from pathlib import Path

from cepheid.kernels.caching import forget_stale

forget_stale(Path(__file__).parent, Path(__file__).parents[1])
