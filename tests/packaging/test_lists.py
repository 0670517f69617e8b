"""The pinned versions satisfy the project, and their licences are listed."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LOCK = (ROOT / "requirements/run.txt").read_text("utf-8")
PINNED = dict(re.findall(r"^([\w.-]+)==([^ ;\\]+)", LOCK, re.MULTILINE))
EXTRAS = PROJECT["optional-dependencies"]


@pytest.mark.parametrize("line", sorted({*PROJECT["dependencies"], *chain(*EXTRAS.values())}))
def test_the_pinned_version_satisfies_the_project(line: str) -> None:
    wanted = Requirement(line)
    assert wanted.specifier.contains(PINNED[canonicalize_name(wanted.name)])


def test_every_pinned_package_has_hashes() -> None:
    entries = re.split(r"^(?=\S)", LOCK, flags=re.MULTILINE)[1:]
    assert len(entries) >= len(PINNED)
    assert all("--hash=sha256:" in entry for entry in entries)


def test_every_pinned_package_has_its_licence_listed() -> None:
    table = (ROOT / "requirements/licences.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| ([\w.-]+) \| (\S+) \|", table, re.MULTILINE))
    listed.pop("package")
    assert listed == PINNED


def test_every_extra_is_explained() -> None:
    page = (ROOT / "docs/install.md").read_text("utf-8")
    rows = "".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", rows)) == set(EXTRAS)


def test_the_citation_names_this_version() -> None:
    assert f"\nversion: {PROJECT['version']}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
