"""The committed bundle is what `make web` makes of the sources; comparing digests needs no Node."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from cepheid.interfaces.web.app import STATIC

WEB = Path(__file__).parents[2] / "web"
TOOLS = ("build.mjs", "package-lock.json", "package.json", "tsconfig.json")


def digests(folder: Path, files: list[Path]) -> dict[str, str]:
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
    }


def test_the_bundle_matches_its_sources() -> None:
    told = msgspec.json.decode((WEB / "bundle.json").read_bytes())
    sources = digests(WEB, [*(WEB / "src").iterdir(), *(WEB / name for name in TOOLS)])
    bundle = digests(STATIC, list(STATIC.iterdir()))
    changed = {
        name
        for before, now in ((told["sources"], sources), (told["bundle"], bundle))
        for name in before.keys() | now.keys()
        if before.get(name) != now.get(name)
    }
    assert not changed, f"run `make web`: {', '.join(sorted(changed))} changed since"
