"""The experiments on predicates between neighbours, as in the figures of GRETA and COGRA.

Side by side: Cepheid, Cepheid's own pairwise evaluator, and GRETA's graph, whose loop compares
every event with all events before it, once as it stands and once vectorised.
"""

from __future__ import annotations

from benchmarks.linear import Experiment

METHODS = ("ours", "pairwise", "loop", "vectorised")

EXPERIMENTS = (
    Experiment(
        "falling",
        "A+, falling prices, skip-till-any-match, one window (GRETA figure 14)",
        "events per window",
        METHODS,
        (1_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    ),
    Experiment(
        "falling-sliding",
        "A+, falling prices, skip-till-any-match, every event in 60 windows (GRETA Q1)",
        "events per window",
        ("ours", "loop", "vectorised"),
        (1_000, 10_000, 100_000),
    ),
    Experiment(
        "selectivity",
        "A+, price * x < NEXT(price), 100,000 events (GRETA figure 16, COGRA figure 13)",
        "selectivity (%)",
        ("ours", "loop", "vectorised"),
        (10, 30, 50, 70, 90),
        is_in_events=False,
    ),
)
