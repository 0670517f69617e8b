"""Sinks of live queries: functions for foreachBatch that write each micro-batch once."""

from __future__ import annotations
