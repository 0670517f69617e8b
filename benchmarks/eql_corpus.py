"""Translate the public rules of Elastic's detection rules that are written in EQL.

python -m benchmarks.eql_corpus FOLDER

FOLDER is a checkout of the repository of the rules, which is not a part of Cepheid. Printed is what
becomes of the rules, without a schema and with the columns of the newest version of the Elastic
Common Schema that the checkout has; why rules are not carried over; and what the notes say. Rules
in other languages are counted apart.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from cepheid.translate.columns import TEXTS
from cepheid.translate.dialects import DIALECTS
from cepheid.translate.report import summary
from cepheid.translate.translate import translate_path
from cepheid.translate.translated import Settings, Translated

FOLDERS = ("rules", "rules_building_block")
SCHEMAS = "detection_rules/etc/ecs_schemas"
SHOWN = 12
OTHER = re.compile(r"the rule (?:is written in (\w+)|has no query, but is one of ([\w ]+))")
KINDS = {
    "text": ("keyword", "wildcard", "text", "match_only_text", "constant_keyword", "ip", "version"),
    "integer": ("long", "integer", "short", "byte", "unsigned_long"),
    "double": ("double", "float", "half_float", "scaled_float"),
    "boolean": ("boolean",),
}


def columns_of(folder: Path) -> dict[str, str]:
    """Read the types of the columns of the newest schema."""
    found = [one for one in (folder / SCHEMAS).iterdir() if re.fullmatch(r"[\d.]+", one.name)]
    newest = max(found, key=lambda one: [int(part) for part in one.name.split(".")])
    fields = json.loads(gzip.decompress((newest / "ecs_flat.json.gz").read_bytes()))
    kinds = {name: kind for kind, names in KINDS.items() for name in names}
    types = {name: kinds[field["type"]] for name, field in fields.items() if field["type"] in kinds}
    for name, field in fields.items():
        if types.get(name) == "text" and "array" in field.get("normalize", []):
            types[name] = TEXTS
    return types


def translate(folder: Path, types: dict[str, str]) -> list[Translated]:
    """Translate the rules of all folders."""
    settings = Settings(type="event.category", time="@timestamp", types=types)
    found = [name for name in FOLDERS if (folder / name).is_dir()]
    return [
        one for name in found for one in translate_path(folder / name, DIALECTS["eql"], settings)
    ]


def _told(title: str, lines: Iterable[str]) -> None:
    counts = Counter(re.sub("`[^`]*`", "`…`", line) for line in lines)
    for line, count in counts.most_common(SHOWN):
        print(f"    {count:5,}  {title}: {line}")


def tell(title: str, rules: list[Translated], seconds: float) -> None:
    """Print counts, and the reasons and notes by frequency, of rules and not of fields."""
    other = [OTHER.search(one) for rule in rules for one in rule.reasons[:1]]
    languages = Counter(one[1] or one[2] for one in other if one)
    mine = [rule for rule in rules if not any(map(OTHER.search, rule.reasons))]
    print(f"{title}: {summary(mine)}; {seconds:.1f} s of processor time")
    print(f"    other languages: {dict(languages.most_common())}")
    _told("not carried over", (reason for rule in mine for reason in rule.reasons))
    notes = [{re.sub("`[^`]*`", "`…`", note) for note in rule.notes} for rule in mine]
    _told("note", (note for found in notes for note in found))


def main() -> None:
    """Print what becomes of the rules of a checkout."""
    folder = Path(sys.argv[1])
    for title, types in (("without a schema", {}), ("with a schema", columns_of(folder))):
        start = time.process_time()
        tell(title, translate(folder, types), time.process_time() - start)


if __name__ == "__main__":
    main()
