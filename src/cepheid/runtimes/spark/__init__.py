"""Spark jobs over DataFrames, files, stores and live streams."""

from __future__ import annotations

import cepheid.spark  # noqa: F401  # reports that PySpark is missing, before a module imports it
