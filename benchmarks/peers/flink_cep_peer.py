"""The cases in Flink CEP: their patterns are in ``FlinkCep.java``."""

from __future__ import annotations

VARIANTS = {
    name: (name,)
    for name in ("plus", "seq", "within", "next", "runs", "trends", "funnel", "absence")
}
DASHES = {
    "trailing": "lists matches; to count those of a sliding window is left to the user",
    "select": "has patterns only; Flink's windows are measured with Flink SQL",
}
