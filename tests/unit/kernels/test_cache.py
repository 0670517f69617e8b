"""Compiled kernels stay in a folder that only its owner can write, and fit what runs them."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from cepheid.kernels import cache, columns
from cepheid.kernels.costs import listed
from cepheid.kernels.machine import type_of
from cepheid.kernels.signature import of_types, of_values, split
from cepheid.kernels.tiers import Kernel, Tier, forced
from cepheid.kernels.warm import missing

ENTRY = cache.Entry("columns.look_up", "int64:1C", 1.5, b"linked\n", b"code\nwith lines")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "kernels"))
    return tmp_path / "kernels" / cache.key()


def test_what_was_saved_is_read_again(folder: Path) -> None:
    assert cache.load("name") is None
    cache.save("name", ENTRY)
    assert cache.load("name") == ENTRY
    assert folder.stat().st_mode & 0o777 == 0o700


def test_files_that_are_cut_off_or_changed_are_not_there(folder: Path) -> None:
    cache.save("name", ENTRY)
    whole = (folder / "name").read_bytes()
    for damaged in (whole[:-1], whole[:20], b"", whole[:-1] + b"x"):
        (folder / "name").write_bytes(damaged)
        assert cache.load("name") is None


def test_no_changed_bit_is_code(folder: Path) -> None:
    cache.save("name", ENTRY)
    whole = (folder / "name").read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        (folder / "name").write_bytes(damaged)
        assert cache.load("name") is None


def test_a_file_under_the_name_of_another_is_not_read(folder: Path) -> None:
    cache.save("name", ENTRY)
    (folder / "other").write_bytes((folder / "name").read_bytes())
    assert cache.load("other") is None


def test_a_folder_that_others_can_write_is_not_used(folder: Path) -> None:
    cache.save("name", ENTRY)
    cache._checked.cache_clear()
    folder.chmod(0o777)
    assert "others can write" in cache.why_unsafe(folder)
    assert cache.load("name") is None
    cache.save("other", ENTRY)
    assert not (folder / "other").exists()
    cache._checked.cache_clear()


def test_a_folder_below_one_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "mine").mkdir(parents=True)
    assert cache.why_unsafe(shared / "mine") == ""
    shared.chmod(0o777)
    assert "others can write" in cache.why_unsafe(shared / "mine")
    shared.chmod(0o1777)  # As /tmp: others cannot replace what is ours.
    assert cache.why_unsafe(shared / "mine") == ""


def test_a_file_that_others_can_write_is_not_read(folder: Path) -> None:
    cache.save("name", ENTRY)
    (folder / "name").chmod(0o666)
    assert cache.load("name") is None


def test_a_folder_of_somebody_else_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert "another user" in cache.why_unsafe(tmp_path)


def test_versions_that_nobody_uses_are_removed(folder: Path) -> None:
    for name, days in (("old", 100), ("recent", 3)):
        other = folder.parent / name
        other.mkdir(parents=True)
        age = other.stat().st_mtime - days * 86_400
        os.utime(other, (age, age))
    cache.save("name", ENTRY)
    assert sorted(path.name for path in folder.parent.iterdir()) == sorted([folder.name, "recent"])


def test_the_key_follows_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache.key.__wrapped__()
    assert before == cache.key.__wrapped__()
    read = Path.read_bytes
    monkeypatch.setattr(
        Path, "read_bytes", lambda path: read(path) + b"#" * (path.name == "ring.py")
    )
    assert cache.key.__wrapped__() != before


def test_a_compiled_kernel_is_found_without_numba(folder: Path) -> None:
    values = (np.arange(3), np.arange(5.0), np.zeros(3))
    kernel = Kernel(columns.look_up.function, inline="", work=None)
    Kernel.registry[kernel.name] = columns.look_up
    assert not cache.has(kernel, values)
    with forced(Tier.COMPILE):
        kernel(*values)
    assert cache.has(kernel, values)
    assert not cache.has(kernel, (np.arange(3), np.arange(5), np.zeros(3)))


def test_every_listed_kernel_is_there_with_types_that_can_be_read() -> None:
    assert listed()
    for entry in listed():
        assert of_types(tuple(map(type_of, split(entry.signature)))) == entry.signature
        assert entry.kernel in Kernel.registry or entry.kernel.partition(".")[0]


def test_values_and_types_have_the_same_description() -> None:
    read_only = np.arange(4)
    read_only.flags.writeable = False
    values = (
        read_only, np.zeros((2, 3)), np.zeros((4, 4))[::2], 3, 2.5, True, 1j, np.uint64(7),
        np.int32(1), np.zeros(2, np.bool_), (np.arange(2), (1, 2.0)),
    )  # fmt: skip
    described = of_values(values)
    assert of_types(tuple(map(type_of, split(described)))) == described


def test_all_kernels_are_missing_from_an_empty_folder(folder: Path) -> None:
    assert len(missing()) == len(listed())


def test_a_damaged_archive_gives_no_kernel(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.save("name", ENTRY)
    place = tmp_path / "archive" / "kernels.zip"
    place.parent.mkdir(mode=0o700)
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "name", "name")
    (folder / "name").unlink()
    monkeypatch.setattr(cache, "shipped", lambda: place)
    whole = place.read_bytes()
    found = set()
    for bit in range(0, 8 * len(whole), 3):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        place.write_bytes(damaged)
        cache._open_archive.cache_clear()
        found.add(cache.load("name"))
    cache._open_archive.cache_clear()
    assert found == {None, ENTRY}  # Some bits, such as those of a date, mean nothing.
