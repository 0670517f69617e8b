"""Run by an interpreter with pm4py: print the counts of its Declare rules, and the seconds."""

from __future__ import annotations

import json
import sys
import time

import pandas as pd
import pm4py

OURS = {
    "altresponse": "alternate_response",
    "altprecedence": "alternate_precedence",
    "altsuccession": "alternate_succession",
    "chainresponse": "chain_response",
    "chainprecedence": "chain_precedence",
    "chainsuccession": "chain_succession",
    "noncoexistence": "non_coexistence",
    "nonsuccession": "non_succession",
    "nonchainsuccession": "non_chain_succession",
}


def main() -> None:
    """Read a log, and discover."""
    log, key = sys.argv[1:]
    frame = pd.read_parquet(log).sort_values([key, "ts"], kind="stable")
    named = {key: "case:concept:name", "type": "concept:name", "ts": "time:timestamp"}
    frame = frame.rename(columns=named)
    frame["case:concept:name"] = frame["case:concept:name"].astype(str)
    began = time.perf_counter()
    model = pm4py.discover_declare(frame, min_support_ratio=0.0, min_confidence_ratio=0.0)
    seconds = time.perf_counter() - began
    rules = {
        OURS.get(form, form): {
            types if isinstance(types, str) else "|".join(types): [
                counts["support"],
                counts["confidence"],
            ]
            for types, counts in found.items()
        }
        for form, found in model.items()
    }
    print(json.dumps({"seconds": seconds, "rules": rules}))


if __name__ == "__main__":
    main()
