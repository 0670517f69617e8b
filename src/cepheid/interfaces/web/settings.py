"""Settings of a workbench: data sets and queries by name, how events are read, and limits.

A browser names data sets; it never sends a path, so nothing outside of what was given is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from cepheid.interfaces.cli_input import IMPORTED, WrongUseError, name_of
from cepheid.interfaces.data_sets import (
    FOLDER,
    TOPIC,
    Columns,
    DataSet,
    check_place,
    is_store,
    sets_of,
)
from cepheid.interfaces.rules import read_rules
from cepheid.interfaces.stream_options import KAFKA, kafka_place

RULE_ENDINGS = {".cq", ".sql", ".yaml", ".yml"}


class Limits(msgspec.Struct, frozen=True):
    """The limits of a run: rows and bytes that are kept, and seconds that it may take."""

    rows: int = 100_000
    bytes: int = 256 << 20
    seconds: float = 300.0


class TopicOptions(msgspec.Struct, frozen=True):
    """Settings of topics of Kafka: the columns of their records, and options of the client."""

    fields: str = ""
    settings: dict[str, str] = {}


class Settings(msgspec.Struct, frozen=True):
    """Everything that a workbench serves."""

    sets: dict[str, DataSet]
    queries: dict[str, str]
    folder: Path | None = None
    """The folder of rules, which saved queries go to."""
    columns: Columns = Columns()
    limits: Limits = Limits()
    write: bool = False
    functions: tuple[str, ...] = ()
    """Modules of users' functions, which workers import."""


def find_settings(
    places: Iterable[str],
    columns: Columns,
    limits: Limits,
    *,
    write: bool,
    topics: TopicOptions | None = None,
) -> Settings:
    """Find data sets, stores, topics and folders of rules; without any, the bundled events.

    Raises
    ------
    WrongUseError
        If a place is not there, or has neither events nor rules.
    """
    sets: dict[str, DataSet] = {}
    queries: dict[str, str] = {}
    folder: Path | None = None
    given = list(places) or [str(path) for path in _bundled()]
    for place in given:
        path = Path(place)
        if place.startswith(KAFKA):
            _add(sets, _topic(place, topics or TopicOptions()))
        elif path.is_dir() and not is_store(path) and _has_rules(path):
            queries |= {name: rule.query for name, rule in read_rules(path).rules.items()}
            folder = folder or path.resolve()
        else:
            _add_sets(sets, place)
    return Settings(sets, queries, folder, columns, limits, write, tuple(IMPORTED))


def _bundled() -> list[Path]:
    data = Path(__file__).parents[2] / "data"
    return sorted(data.glob("*.parquet"))


def _has_rules(path: Path) -> bool:
    return any(file.suffix in RULE_ENDINGS for file in path.rglob("*") if file.is_file())


def _topic(place: str, options: TopicOptions) -> DataSet:
    """Name topics; nobody asks the broker yet."""
    servers, topics = kafka_place(place)
    if not servers or not topics:
        message = "a source of Kafka is kafka://host:9092/topic"
        raise WrongUseError(message)
    return DataSet(topics, TOPIC, place, options.fields, options.settings)


def _add_sets(sets: dict[str, DataSet], place: str) -> None:
    """Add the data sets of a place."""
    check_place(place)
    found = list(sets_of(place))
    if not found:
        message = f"{name_of(place)} has neither events nor rules"
        raise WrongUseError(message)
    for one in found:
        _add(sets, one)


def _add(sets: dict[str, DataSet], one: DataSet) -> None:
    """Add a data set by a short name, which queries can call it by; equal ones get numbers."""
    last = one.name.rstrip("/").rpartition("/")[2]
    stem = (last.split(".", 1)[0] or last) + "/" * (one.kind == FOLDER)
    chosen, number = stem, 2
    while chosen in sets:
        if sets[chosen].place == one.place:
            return
        chosen, number = f"{stem} {number}", number + 1
    sets[chosen] = msgspec.structs.replace(one, name=chosen)
