"""``cepheid discover``: find rules in a log of events, and write them as queries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cepheid.interfaces.cli_input import WrongUseError, refuse_options, result_kind
from cepheid.interfaces.cli_options import (
    FormatOption,
    InputFormatOption,
    TimeOption,
    TypeOption,
    UnitOption,
)
from cepheid.interfaces.commands import Argument, Option
from cepheid.interfaces.console import complain, working
from cepheid.interfaces.standard_input import standard_input

if TYPE_CHECKING:
    import pyarrow as pa

    from cepheid.discovery.found import Discovery


def discover(
    inputs: Annotated[
        list[str] | None,
        Argument(help="The events: a file, a folder, 'log/*.parquet', or - for standard input."),
    ] = None,
    key: Annotated[str, Option(help="The column of the cases: a session, an order, …")] = "",
    label: Annotated[
        str | None, Option(help="A column that is true for the cases that you look for.")
    ] = None,
    store: Annotated[Path | None, Option(help="An event store that has the events.")] = None,
    support: Annotated[str, Option(help="The share of cases that a rule must speak of.")] = "0.1",
    confidence: Annotated[
        str, Option(help="The share of these in which it must hold, without --label.")
    ] = "0.9",
    max_length: Annotated[str, Option(help="Types of the longest sequence, 2 to 8.")] = "3",
    max_types: Annotated[str, Option(help="How many types are looked at, up to 1000.")] = "100",
    max_candidates: Annotated[str, Option(help="How many rules are counted.")] = "1000000",
    top: Annotated[str, Option(help="How many rules are shown, of each family.")] = "20",
    rules: Annotated[
        Path | None, Option("--rules", help="Write each rule to a file in this new folder.")
    ] = None,
    output: Annotated[Path | None, Option(help="Write the table of rules to this file.")] = None,
    format_: Annotated[str, Option("--format", help="table, csv, json (lines) or parquet.")] = "",
    input_format: InputFormatOption = None,
    time: TimeOption = "ts",
    type_: TypeOption = "type",
    time_unit: UnitOption = "us",
    time_format: FormatOption = None,
) -> None:
    """Find the rules that hold in a log of events, or that tell labelled cases from others."""
    kind = result_kind(format_, output)
    if (store is None) is (not inputs) or len(inputs or ()) > 1:
        message = "name the events once: as files, or with --store"
        raise WrongUseError(message)
    if not key:
        message = "--key is missing: name the column that says which case an event belongs to"
        raise WrongUseError(message)
    if store is not None:
        units = {"time-unit": time_unit != "us", "time-format": time_format}
        refuse_options("a store knows its times", time=time != "ts", **units)
    if rules is not None and rules.exists():
        message = f"--rules {rules} exists already: name a new folder"
        raise WrongUseError(message)
    shares = {
        "support": _number(support, "--support"),
        "confidence": _number(confidence, "--confidence"),
    }
    sizes = {
        "max_length": _whole(max_length, "--max-length"),
        "max_types": _whole(max_types, "--max-types"),
        "max_candidates": _whole(max_candidates, "--max-candidates"),
        "top": _whole(top, "--top"),
    }
    # Arrow takes longer to load than most commands run.
    from cepheid.discovery.discover import discover as search
    from cepheid.interfaces.run_command import write_result
    from cepheid.store.event_store import EventStore

    with (
        standard_input(inputs or [], input_format, is_query=False) as files,
        working("reading") as tell,
    ):
        opened = None if store is None else EventStore(store)
        tell("counting rules")
        found = search(
            files[0] if opened is None else opened,
            key=key, label=label, time=time if opened is None else opened.time, type=type_,
            time_unit=time_unit, time_format=time_format, **shares, **sizes,  # type: ignore[arg-type]
        )  # fmt: skip
    write_result(_summary(found) if kind == "table" else found.table, kind, output)
    if rules is not None:
        _write_rules(found, rules)
    for line in found.search.lines():
        complain(line)


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        message = f"{option} is a number, not {text}"
        raise WrongUseError(message) from None


def _whole(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        message = f"{option} is a whole number, not {text}"
        raise WrongUseError(message) from None


def _summary(found: Discovery) -> pa.Table:
    """Return the columns that people look at first."""
    from pyarrow import compute

    if found.search.names.label is None:
        return found.table.select(["rule", "cases", "holds", "reported"])
    table = found.table.select(["rule", "reported", "labelled", "lift"])
    return table.set_column(3, "lift", compute.round(table["lift"], ndigits=1))


def _write_rules(found: Discovery, folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
        for name, text in found.files():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"could not write {folder}: {error.strerror or error}"
        raise WrongUseError(message) from None
