"""Code that everything on Spark shares: sessions, schemas, batches and failures.

PySpark is optional, and every module here imports it; so its absence is reported first.
"""

from __future__ import annotations

from cepheid.spark.installed import check_installed

check_installed("pyspark")
