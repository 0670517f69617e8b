"""Reading a query is cheap: nothing heavy is loaded, and public names are what they should be."""

from __future__ import annotations

import subprocess
import sys

import cepheid

HEAVY = ("numba", "numpy", "pyspark", "pandas", "pyarrow", "altair", "typer", "rich", "hypothesis")


def run_fresh(code: str) -> str:
    """Run code in a new interpreter and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


def test_explaining_a_query_loads_nothing_heavy() -> None:
    code = (
        "import sys, cepheid\n"
        "cepheid.query('RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x WITHIN 9 s').explain()\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert run_fresh(code) == "[]"


def test_the_command_line_loads_nothing_heavy() -> None:
    code = "import sys, cepheid.interfaces.cli\n"
    heavy = ("numba", "numpy", "pyarrow", "typer", "rich", "pydantic")
    code += f"print([name for name in {heavy} if name in sys.modules])"
    assert run_fresh(code) == "[]"


def test_importing_alone_loads_next_to_nothing() -> None:
    loaded = run_fresh("import sys, cepheid; print('lark' in sys.modules)")
    assert loaded == "False"


def test_every_public_name_can_be_had() -> None:
    assert len(cepheid.__all__) <= 20
    for name in cepheid.__all__:
        assert getattr(cepheid, name).__name__ == name
    assert set(cepheid.__all__) < set(dir(cepheid))


def test_other_names_cannot() -> None:
    assert not hasattr(cepheid, "parse_everything")
