"""Pictures of results, for notebooks and files: `chart`, `timeline` and `funnel`.

They take the result of a query as Arrow, pandas, Polars or Spark has it, and return a `Picture`.
"""

from __future__ import annotations

from cepheid.pictures.picture import Picture
from cepheid.pictures.results import chart, funnel, timeline

__all__ = ["Picture", "chart", "funnel", "timeline"]
