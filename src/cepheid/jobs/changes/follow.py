"""A query that follows a table that changes: changes in, a changelog of rows out (§18.6, §18.7)."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from cepheid.events.temporal import LONG_AGO
from cepheid.jobs.changes.arrivals import Arrivals
from cepheid.jobs.changes.asked import Changes, check_changelog
from cepheid.jobs.changes.engine import Came, Engine, Left
from cepheid.jobs.changes.ledger import Counts, Ledger
from cepheid.jobs.changes.recompute import Recomputes
from cepheid.jobs.changes.rows import changelog, changelog_schema
from cepheid.jobs.kind import kind_of
from cepheid.jobs.state_format import Format, Meant, meaning_of, read_own, write_state
from cepheid.plans.plan import Plan

FORMAT = Format("changes", 2, "a query over a table that changes")


class _Saved(Meant):
    until: int
    latest: int
    ledger: bytes
    engine: bytes


class Follower:
    """A query and the current table; ``schema`` is that of events, without the operation."""

    def __init__(self, plan: Plan, schema: pa.Schema, changes: Changes) -> None:
        kind = kind_of(plan)
        self.plan, self.schema, self.changes = plan, schema, changes
        anew = bool(kind.why_not_repaired(plan))
        self.engine: Engine = Recomputes(plan, schema) if anew else kind.repairs(plan, schema)
        check_changelog(plan, self.engine.nothing().column_names)
        self.key = kind.row_key(plan)
        self.ledger: Ledger | Arrivals = Ledger(changes, plan.time, strict=False)
        if changes.only_adds:
            self.ledger = Arrivals(plan.time)
        self.until = self.latest = LONG_AGO
        self.counts = Counts()
        self._begun = False

    @property
    def result_schema(self) -> pa.Schema:
        """Return the columns of the changelog."""
        return changelog_schema(self.engine.nothing().schema)

    def take(self, changes: pa.Table) -> pa.Table:
        """Apply changes, and return what they change in the rows."""
        settled = self.ledger.settle(changes, self.until)
        self.latest = max(self.latest, settled.latest)
        self.counts = self.counts.plus(settled.counts)
        if self._begun and not len(settled.left) and not len(settled.rows):
            return self.result_schema.empty_table()
        self._begun = True
        events = changes.select(self.schema.names).take(settled.rows)
        left = Left(settled.left, settled.left_times, settled.left_notes)
        came = Came(events, settled.places, settled.times)
        answer = self.engine.change(left, came)
        self.ledger.write(settled.ids, answer.notes)
        return changelog(answer.before, answer.after, self.key)

    def advance(self, until: int) -> None:
        """Let events before a time be final, and forget what no row needs any more."""
        if until > self.until:
            self.until = until
            self.ledger.compact()
            self.engine.forget(until)

    def to_bytes(self) -> bytes:
        """Serialize the table."""
        ledger = self.ledger.to_bytes()
        saved = _Saved(self.meaning, self.until, self.latest, ledger, self.engine.to_bytes())
        return write_state(FORMAT, saved)

    def read(self, data: bytes) -> None:
        """Deserialize what ``to_bytes`` wrote; E524 if it is of another query."""
        saved = read_own(FORMAT, data, _Saved, self.meaning, self.meaning)
        self.until, self.latest, self._begun = saved.until, saved.latest, True
        self.ledger.read(saved.ledger)
        self.engine.read(saved.engine)

    @property
    def size(self) -> int:
        """Count the ids that are known, whether they have an event or not."""
        return self.ledger.known

    @property
    def meaning(self) -> tuple[str, ...]:
        """Describe the query, its changes and their columns, for states."""
        columns = msgspec.json.encode([(f.name, str(f.type)) for f in self.schema]).decode()
        return meaning_of(self.plan), msgspec.json.encode(self.changes).decode(), columns
