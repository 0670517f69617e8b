"""Rules in, the queries that run together out; rules with mistakes are refused alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeVar

from cepheid.api import CompiledQuery
from cepheid.errors import CepheidError, DataError, Diagnostic, QueryError, suggest_names
from cepheid.garbage import without_collections
from cepheid.interfaces.console import complain
from cepheid.interfaces.logs import Logs
from cepheid.interfaces.rule import Rule
from cepheid.interfaces.rule_parameters import Parameters, Variant, holes_in, variants_of
from cepheid.interfaces.rules import Place, read_rules, shown
from cepheid.workloads import Workload, workload

Done = TypeVar("Done")


class EventColumns(NamedTuple):
    """The columns of events that rules read, as all commands name them."""

    time: str = "ts"
    type: str = "type"
    time_unit: str = "us"
    time_format: str | None = None


class RuleQuery(NamedTuple):
    """A query that runs: the rule that it comes from, the variant of it, its plan, and its logs."""

    rule: Rule
    variant: Variant
    compiled: CompiledQuery
    logs: tuple[str, ...] = ()

    @property
    def values(self) -> str | None:
        """Return the values of the parameters; None if the rule has one variant."""
        own, rule = self.variant.name, self.rule.name
        return own[len(rule) + 1 : -1] if own != rule else None


class Ready(NamedTuple):
    """The queries of rules by name, why other rules are refused, and how many rules are off."""

    queries: dict[str, RuleQuery]
    refused: tuple[CepheidError, ...] = ()
    off: tuple[str, ...] = ()

    @property
    def workload(self) -> Workload:
        """Return the queries that run together."""
        assert self.queries, "a workload has a query"
        compiled = tuple(one.compiled for one in self.queries.values())
        return Workload(tuple(self.queries), compiled)

    def without(self, name: str) -> Ready:
        """Leave out the rule that a query comes from, with all its variants."""
        gone = self.queries[name].rule
        kept = {one: query for one, query in self.queries.items() if query.rule is not gone}
        return self._replace(queries=kept)


@without_collections(kept=True)
def ready_rules(
    place: Place,
    events: EventColumns,
    given: Parameters = (),
    *,
    schema: object = None,
    also_off: bool = False,
    logs: Logs | None = None,
) -> Ready:
    """Read rules and compile each of them.

    Parameters
    ----------
    place
        A folder, a file or a table of rules; see :func:`read_rules`.
    events
        The columns of events.
    given
        Values of parameters, which replace those of the rules.
    schema
        The columns of the events, if they are known.
    also_off
        Whether rules that are off are compiled, too.
    logs
        The logs that rules name after FROM, if their events have names.

    Raises
    ------
    DataError
        As :func:`read_rules`; E532 if all rules are off, E534 if no rule has a given parameter.
    """
    read = read_rules(place)
    _check_given(given, read.rules)
    refused, queries = list(read.refused), {}
    off = tuple(rule.name for rule in read.rules.values() if not rule.enabled)
    for rule in read.rules.values():
        if not rule.enabled and not also_off:
            continue
        try:
            queries.update(_queries_of(rule, events, dict(given), schema, logs))
        except (QueryError, DataError) as error:
            error.file = rule.name
            refused.append(error)
    if not queries and not refused:
        message = f"all rules of {shown(place)} are off"
        helps = ("write `enabled: true`, or leave the field out",)
        raise DataError([Diagnostic("E532", message, helps=helps)])
    return Ready(queries, tuple(refused), off)


def _check_given(given: Parameters, rules: Mapping[str, Rule]) -> None:
    known = {name for rule in rules.values() for name, _ in holes_in(rule.query)}
    for name, _ in given:
        if name not in known:
            help_ = suggest_names(name, known, owner="the rules")
            helps = (help_ or f"write `{{{name}}}` in a query",)
            raise DataError([Diagnostic("E534", f"no rule has a parameter `{name}`", helps=helps)])


def _queries_of(
    rule: Rule,
    events: EventColumns,
    given: Mapping[str, tuple[str, ...]],
    schema: object,
    logs: Logs | None,
) -> dict[str, RuleQuery]:
    holes = {name for name, _ in holes_in(rule.query)}
    values = dict(rule.parameters) | {name: given[name] for name in given if name in holes}
    found = {}
    for variant in variants_of(rule.name, rule.query, tuple(values.items())):
        read: tuple[str, ...] = ()
        text = variant.query
        if logs is not None:
            read, text = logs.reading(text)
        compiled = _compiled(variant.name, text, events)
        if schema is not None:
            compiled = compiled.with_schema(schema)
        found[variant.name] = RuleQuery(rule, variant, compiled, read)
    return found


@lru_cache(maxsize=4096)
def _compiled(name: str, text: str, events: EventColumns) -> CompiledQuery:
    """Compile a query; a stream reads its rules again whenever one of them changes."""
    return workload({name: text}, **events._asdict()).queries[0]


class Refusals:
    """Tells of rules that are refused while others run, and counts them.

    Parameters
    ----------
    ready
        The rules that were read; those that are refused already are told.
    """

    def __init__(self, ready: Ready) -> None:
        rules = dict.fromkeys(one.rule.name for one in ready.queries.values())
        self._total = len(rules) + len(ready.refused)
        self._names: list[str] = []
        for error in ready.refused:
            self.add(error)
        if not ready.queries:
            self.finish()

    def add(self, error: CepheidError) -> None:
        """Tell why a rule is refused."""
        complain(str(error))
        self._names.append(error.file)

    def finish(self) -> None:
        """Tell how many rules are refused; the command ends with 1 if there are any.

        Raises
        ------
        SystemExit
            With 1 if a rule is refused.
        """
        if not self._names:
            return
        are = "rule is" if self._total == 1 else "rules are" if len(self._names) > 1 else "rules is"
        complain(f"{len(self._names)} of {self._total} {are} refused: {', '.join(self._names)}")
        raise SystemExit(1)


def run_fitting(ready: Ready, run: Callable[[Workload], Done], refusals: Refusals) -> Done:
    """Run rules over events; those whose columns do not fit the events are refused alone.

    Planning comes before the first event is read, so little is done twice.

    Raises
    ------
    CepheidError
        If the events are at fault.
    SystemExit
        If no rule is left.
    """
    while True:
        try:
            return run(ready.workload)
        except QueryError as error:
            if error.file not in ready.queries:
                raise
            ready = ready.without(error.file)
            refusals.add(error)
            if not ready.queries:
                refusals.finish()
