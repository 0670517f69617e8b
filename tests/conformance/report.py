"""Prints how many conformance cases pass, by file: ``python -m tests.conformance.report``."""

from __future__ import annotations

import sys

from tests.conformance.cases import SUITES, read_cases, run_case


def main() -> int:
    failures = 0
    for suite in SUITES:
        cases = read_cases(suite)
        failed = []
        for case in cases:
            try:
                run_case(case)
            except Exception as error:
                failed.append(f"  {case['id']}: {type(error).__name__}")
        failures += len(failed)
        lines = [f"{suite}: {len(cases) - len(failed)} of {len(cases)} pass", *failed]
        sys.stdout.write("\n".join(lines) + "\n")
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
