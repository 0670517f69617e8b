"""Compiled kernels go when any of their sources changes, and stay otherwise."""

from __future__ import annotations

from pathlib import Path

from cepheid.kernels.caching import STAMP, forget_stale


def compiled(package: Path) -> list[str]:
    return sorted(path.name for path in package.rglob("*.nb[ic]"))


def test_a_changed_source_makes_all_compiled_kernels_stale(tmp_path: Path) -> None:
    kernels, engine = tmp_path / "kernels", tmp_path / "engine"
    for folder in (kernels, engine):
        (folder / "__pycache__").mkdir(parents=True)
    (kernels / "ring.py").write_text("add = 1")
    (kernels / "linear.py").write_text("from ring import add")
    forget_stale(kernels, tmp_path)
    for folder in (kernels, engine):
        (folder / "__pycache__" / "linear.nbi").write_text("index")
        (folder / "__pycache__" / "linear.1.nbc").write_text("code")
    forget_stale(kernels, tmp_path)
    assert len(compiled(tmp_path)) == 4
    (kernels / "ring.py").write_text("add = 2")
    forget_stale(kernels, tmp_path)
    assert compiled(tmp_path) == []
    names = sorted(path.name for path in (kernels / "__pycache__").iterdir())
    assert names == [STAMP]


def test_a_folder_that_cannot_be_written_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "ring.py").write_text("add = 1")
    (tmp_path / "__pycache__").write_text("no folder")
    forget_stale(tmp_path, tmp_path)
    assert (tmp_path / "__pycache__").read_text() == "no folder"
