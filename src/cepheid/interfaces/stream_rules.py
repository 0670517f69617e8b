"""``cepheid stream --rules``: run rules over a live stream; they change while it runs.

Their place is checked every second. What has changed is appended to the rules log of the
checkpoint, which the running query reads as its second source.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from cepheid.api import CompiledQuery, query
from cepheid.errors import CepheidError, suggest_names, visible
from cepheid.interfaces.limited_rules import check_columns, untimed_limit
from cepheid.interfaces.live_alerts import with_absent
from cepheid.interfaces.rule import Rule
from cepheid.interfaces.rule_queries import Ready, RuleQuery
from cepheid.interfaces.stream_command import live_session, numbers_shown, showing, start
from cepheid.interfaces.stream_options import Options
from cepheid.interfaces.stream_restart import begun
from cepheid.interfaces.stream_sources import logs_together, sources_of
from cepheid.jobs.misfits import misfit
from cepheid.kinds.workload.rule_places import Freedom, Keys, freedom_of, keys_for
from cepheid.kinds.workload.rule_records import Put
from cepheid.options import refuse
from cepheid.runtimes.rules_log import Placed, RulesLog
from cepheid.runtimes.spark.live_rules import RuleStream
from cepheid.runtimes.spark.live_rules import stream_rules as alerts_of_rules
from cepheid.runtimes.spark.stream_tasks import SUPPRESSED
from cepheid.spark.failures import FAILURES, clear_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Complain = Callable[[str], None]

SECONDS = 1.0
"""The interval between checks of the rules."""


class Fitted(NamedTuple):
    """A query of a rule, planned for the columns of the stream."""

    put: Put
    freedom: Freedom


Fit = Callable[[RuleQuery], Fitted]
"""Plan a query for a stream; raises a CepheidError if it does not fit."""


class Source(NamedTuple):
    """Where rules come from: how they are read, what changes with them, how often one looks."""

    read: Callable[[], Ready]
    stamp: Callable[[], object]
    look_s: float = 0.0


class Rulebook:
    """Rules that may change: the last version of each that could be read and run.

    Parameters
    ----------
    source
        Reads the rules; those with mistakes are refused alone.
    complain
        Called once for a rule that cannot be read or run; its previous version continues.
    """

    def __init__(self, source: Source, complain: Complain) -> None:
        self._source, self._complain = source, complain
        self._said: set[str] = set()
        self._known: dict[tuple[Rule, str], Fitted | CepheidError] = {}
        self._looked = time.monotonic()
        self._stamp = source.stamp()
        self._ready = source.read()
        self.rules: dict[str, Fitted] = {}
        self.refused: Counter[str] = Counter()
        """The number of refused versions of each rule."""

    @property
    def ready(self) -> Ready:
        """Return the rules as they were read first."""
        return self._ready

    @property
    def reader(self) -> CompiledQuery:
        """Build a query that reads the times of events as all rules do."""
        source = next(iter(self._ready.queries.values())).compiled.source
        return query(
            f"SELECT `{source.time}` FROM events",
            time=source.time,
            type=source.type,
            tiebreak=source.tiebreak,
            time_unit=source.time_unit,
            time_format=source.time_format,
        )

    def go_on(self, log: RulesLog) -> None:
        """Know the rules of a log: of those that are refused now, the versions there go on."""
        if log.keys is None:
            return
        for name, (place, put) in log.rules.items():
            self.rules[name] = Fitted(put, Freedom(frozenset(log.keys[place]), put.keys))

    def fit(self, fit: Fit) -> dict[str, Fitted]:
        """Plan the rules that were read first; those that do not fit the events are refused.

        Raises
        ------
        CepheidError
            If no rule fits, why the first does not.
        """
        errors = self._take(self._ready, fit)
        if not self.rules and errors:
            raise errors[0]
        return self.rules

    def changed(self, fit: Fit) -> bool:
        """Read the rules again, if their place has changed; return whether some did."""
        now = time.monotonic()
        if now - self._looked < self._source.look_s:
            return False
        self._looked, before = now, self.rules
        try:
            stamp = self._source.stamp()
            if stamp == self._stamp:
                return False
            ready = self._source.read()
        except (CepheidError, OSError, ValueError) as error:
            self._say({f"{error}\nthe rules before go on"})
            return False
        self._stamp = stamp
        self._take(ready, fit)
        return self.rules != before

    def _take(self, ready: Ready, fit: Fit) -> list[CepheidError]:
        """Take over rules that can run; of others, the versions before go on."""
        errors = {error.file: error for error in ready.refused}
        found: dict[str, Fitted] = {}
        for name, one in ready.queries.items():
            fitted = self._fitted(name, one, fit)
            if isinstance(fitted, Fitted):
                found[name] = fitted
            else:
                errors.setdefault(one.rule.name, fitted)
        found = {name: one for name, one in found.items() if one.put.rule not in errors}
        texts = set()
        for rule, error in errors.items():
            before = {name: one for name, one in self.rules.items() if one.put.rule == rule}
            goes_on = "its version before goes on" if before else "the other rules go on"
            text = f"{error}\nthe rule `{visible(rule)}` is refused: {goes_on}"
            self.refused[rule] += text not in self._said
            texts.add(text)
            found |= before
        self._say(texts)
        self.rules = found
        return list(errors.values())

    def _fitted(self, name: str, one: RuleQuery, fit: Fit) -> Fitted | CepheidError:
        """Plan a query, or tell why it does not fit; a rule that stays is planned once."""
        if (one.rule, name) not in self._known:
            try:
                self._known[one.rule, name] = fit(one)
            except CepheidError as error:
                error.file = one.rule.name
                self._known[one.rule, name] = error
        return self._known[one.rule, name]

    def _say(self, texts: set[str]) -> None:
        for text in sorted(texts - self._said):
            self._complain(text)
        self._said = texts


def fit_to(stream: RuleStream) -> Fit:
    """Build the function that plans rules for a stream."""

    def fit(one: RuleQuery) -> Fitted:
        rule = one.rule
        planned = stream.plan(one.compiled)
        limits = rule.deduplicate, rule.rate_limit
        if not planned.timing.times and (error := untimed_limit(rule)):
            raise error
        for limit in limits:
            if limit is not None:
                check_columns(rule, limit, planned.columns)
        freedom = freedom_of(planned.plan, limits)
        put = Put(
            one.variant.name,
            rule.name,
            one.values,
            0,
            rule.owner,
            rule.tags,
            rule.severity,
            *limits,
            planned.timing,
            tuple(name for name in freedom.keys if name in planned.columns),
            planned.plan.to_json().decode(),
        )
        return Fitted(put, freedom)

    return fit


class Suppressed:
    """Counts the rows that limits of alerts suppressed, by rule and reason."""

    def __init__(self, tell: Callable[[str, str, int], None]) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._tell = tell

    def write(self, batch: DataFrame, _number: int) -> None:
        """Add the counts of a micro-batch."""
        for rule, why, count in batch.collect():
            self.counts[rule, why] += count
            self._tell(rule, why, count)

    def report(self, complain: Complain) -> None:
        """Tell how many rows are no alerts."""
        for rule in sorted({rule for rule, _ in self.counts}):
            own = {why: n for (name, why), n in sorted(self.counts.items()) if name == rule}
            told = ", ".join(f"{count:,} {why}" for why, count in own.items())
            total = sum(own.values())
            what = "alert" if total == 1 else "alerts"
            verb = "was" if total == 1 else "were"
            complain(f"notice: {total:,} {what} of `{visible(rule)}` {verb} suppressed: {told}")


def stream_rules(source: Source, options: Options, complain: Complain) -> None:
    """Run rules over a live stream until it is stopped or, with ``once``, its source is empty.

    Raises
    ------
    DataError
        The error of a task about the events, or E523 if Spark itself failed.
    """
    with live_session(options) as spark:
        stream_rules_in(spark, Rulebook(source, complain), options, complain)


def stream_rules_in(
    spark: SparkSession, book: Rulebook, options: Options, complain: Complain
) -> None:
    """Run rules over a live stream in a session."""
    live: Any = None
    try:
        with numbers_shown(spark, options) as numbers, showing(Console(stderr=True)) as show:
            suppressed = Suppressed(numbers.suppressed)
            with begun(spark, options, 1000):
                log = RulesLog(options.checkpoint)
                book.go_on(log)
                assert options.times is not None, "rules say how times are read"
                events = logs_together(sources_of(spark, options))
                if options.alerts is not None:
                    events = _with_absent(events, book.ready, complain)
                stream = RuleStream.of(events, options.times, options.live)
                fit, teller = fit_to(stream), Teller(complain)
                book.fit(fit)
                check_keys(options, stream.schema.names)
                keys = _keys(log, options, book.rules)
                log.change(placed_at(keys, book.rules, teller))
                plans = [one.put.planned for one in book.rules.values()]
                asked = options.live
                output = alerts_of_rules(stream, book.reader, log.folder, keys, plans, asked)
            numbers.refused(book.refused)
            live = start(output, options, numbers.counted, more={SUPPRESSED: suppressed.write})
            while not live.awaitTermination(SECONDS):
                show(live)
                if book.changed(fit):
                    log.change(placed_at(keys, book.rules, teller))
                numbers.refused(book.refused)
            output.finish()
            suppressed.report(complain)
    except KeyboardInterrupt:
        if live is not None:
            live.stop()
    except FAILURES as error:
        raise clear_error(error) from error


def _with_absent(events: DataFrame, ready: Ready, complain: Complain) -> DataFrame:
    """Let fields that rules name and events lack be NULL, and name them."""
    whole, absent = with_absent(events, ready)
    if absent:
        names = ", ".join(map(visible, absent))
        complain(f"notice: no event has these fields, which are NULL: {names}")
    return whole


def check_keys(options: Options, known: Sequence[str]) -> None:
    """Check that events have the keys of ``--keys``.

    Raises
    ------
    OptionError
        E590 for the first one that they do not have.
    """
    for name in (part.strip() for one in options.keys for part in one.split(",")):
        if name not in known:
            help_ = suggest_names(name, known, owner="the source")
            refuse("E590", f"--keys names `{name}`, which events do not have", help_)


def _keys(log: RulesLog, options: Options, rules: Mapping[str, Fitted]) -> Keys:
    """Choose the keys of a new stream, or find those of one that goes on.

    Raises
    ------
    DataError
        E524 if the stream has other keys than those that are asked for.
    """
    asked = tuple(sorted({tuple(sorted(map(str.strip, one.split(",")))) for one in options.keys}))
    given = (*asked, ())
    if log.keys is None:
        keys = given if options.keys else keys_for([one.freedom for one in rules.values()])
        log.begin(keys)
        return keys
    if options.keys and given != log.keys:
        named = "; ".join(",".join(one) for one in log.keys if one) or "none"
        way_out = "leave --keys out, or start anew with `cepheid stream --restart-from earliest`"
        why = f"events go to its buckets by other keys: {named}"
        raise misfit(why, way_out=way_out)
    return log.keys


class Teller:
    """Tells once of every rule that runs in one task, though it has keys."""

    def __init__(self, complain: Complain) -> None:
        self._complain, self._told = complain, set[str]()

    def tell(self, rule: str, attributes: frozenset[str] | None) -> None:
        """Tell of a rule that is in the last place."""
        if attributes and rule not in self._told:
            self._told.add(rule)
            named = visible(",".join(sorted(attributes)))
            message = f"notice: the rule `{visible(rule)}` runs in one task, because the stream "
            self._complain(f"{message}began without its keys: --keys {named}")


def placed_at(keys: Keys, rules: Mapping[str, Fitted], teller: Teller) -> dict[str, Placed]:
    """Choose the buckets of all rules."""
    found = {}
    for name, one in rules.items():
        place = one.freedom.place(keys)
        if not keys[place]:
            teller.tell(one.put.rule, one.freedom.attributes)
        found[name] = Placed(place, one.put)
    return found
