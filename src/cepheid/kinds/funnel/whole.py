"""A funnel over the whole stream as a step function: its state is the chains of all keys."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import KeyTable
from cepheid.jobs.microbatch import Size
from cepheid.jobs.ordering import STEP_ROWS
from cepheid.jobs.state_format import Format, Meant, meaning_of, read_own, write_state
from cepheid.jobs.tables import pack_table, table_from_bytes, table_to_bytes, unpack_table
from cepheid.kinds.funnel.chains import Chains, end, read_events, take
from cepheid.kinds.funnel.results import reached_levels, result_schema, rows_of
from cepheid.plans.plan import FunnelPlan

FORMAT = Format("funnel", 1, "a funnel")


class WholeState(NamedTuple):
    """The keys so far and their chains."""

    keys: KeyTable
    chains: Chains


class _Snapshot(Meant):
    """The fields of a serialized state."""

    keys: bytes
    chains: bytes


class WholeSteps(NamedTuple):
    """A funnel without windows, over events of a schema."""

    plan: FunnelPlan
    schema: pa.Schema

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return STEP_ROWS

    def start(self) -> WholeState:
        """Create the state before the first event."""
        keys = KeyTable(self.plan.partition.attributes)
        return WholeState(keys, Chains.empty(len(self.plan.funnel.steps), 0))

    def step(self, state: WholeState, events: pa.Table) -> tuple[WholeState, pa.Table]:
        """Process events; all rows wait for the end."""
        keys = state.keys.copy()
        read = read_events(self.plan, keys, events)
        chains = state.chains.grown(len(keys))
        take(self.plan, chains, read, within=self.plan.funnel.within)
        return WholeState(keys, chains), self.nothing()

    def advance(self, state: WholeState, until: int) -> tuple[WholeState, pa.Table]:
        """Wait for the end of the stream."""
        del until
        return state, self.nothing()

    def finish(self, state: WholeState) -> tuple[WholeState, pa.Table]:
        """Count the keys at each step."""
        done, reached = self.reach_at_end(state)
        return done, rows_of(self.plan, self.schema, reached)

    def reach(self, state: WholeState, events: pa.Table) -> tuple[WholeState, pa.Table | None]:
        """Process events; all levels wait for the end."""
        return self.step(state, events)[0], None

    def reach_at_end(self, state: WholeState) -> tuple[WholeState, pa.Table | None]:
        """Collect the levels of all keys."""
        chains = state.chains.grown(len(state.keys))
        end(self.plan, chains, within=self.plan.funnel.within)
        return WholeState(state.keys, chains), reached_levels(self.plan, state.keys, chains)

    def forget(self, state: WholeState, until: int) -> WholeState:
        """Keep every key: it may go on."""
        del until
        return state

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return result_schema(self.plan, self.schema).empty_table()

    def read(self, data: bytes) -> WholeState:
        """Deserialize a state; E524 if it belongs to another query."""
        snapshot = read_own(FORMAT, data, _Snapshot, meaning_of(self.plan))
        keys = KeyTable(self.plan.partition.attributes)
        keys.restore(c.combine_chunks() for c in table_from_bytes(snapshot.keys).columns)
        packed = unpack_table(snapshot.chains)
        fresh = Chains.empty(len(self.plan.funnel.steps), packed.num_rows)
        columns = iter(packed.columns)
        arrays = []
        for like in fresh:
            width = int(np.prod(like.shape[1:]))
            flat = np.stack([np.asarray(next(columns)) for _ in range(width)], axis=1)
            arrays.append(np.ascontiguousarray(flat.reshape(like.shape)))
        return WholeState(keys, Chains(*arrays))

    def write(self, state: WholeState) -> bytes:
        """Serialize a state."""
        keys = pa.table({f"{n}": array for n, array in enumerate(state.keys.arrays())})
        flat = [a.reshape(len(a), int(np.prod(a.shape[1:]))).T for a in state.chains]
        columns = [pa.array(column) for part in flat for column in part]
        packed = pa.Table.from_arrays(columns, [f"{n}" for n in range(len(columns))])
        chains = pack_table(packed)
        return write_state(FORMAT, _Snapshot(meaning_of(self.plan), table_to_bytes(keys), chains))

    def size(self, state: WholeState) -> Size:
        """Count the partitions."""
        return Size(len(state.keys), 0)
