"""Situations on a GPU: conditions, stretches and their aggregates; the host pairs situations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.accelerator import selecting, stretching
from cepheid.accelerator.conditions import LEFT, Form, NamedForming
from cepheid.accelerator.grouping import extent_of
from cepheid.accelerator.launches import device_of
from cepheid.accelerator.placing import Placing
from cepheid.accelerator.reading import Reading
from cepheid.accelerator.room import events_at_once
from cepheid.accelerator.schedule import Scheduler
from cepheid.accelerator.uploading import Uploaded, upload_columns
from cepheid.arrays.columns import NO_VALUE, Columns, KeyTable
from cepheid.jobs.local_jobs import slices_of
from cepheid.jobs.steps import LocalSteps
from cepheid.kinds.situation.job import EVENTS, Accumulator, SituationJob
from cepheid.kinds.situation.relative import MASK
from cepheid.kinds.situation.steps import SituationSteps
from cepheid.kinds.situation.stretches import Stretches, add_measure, cut, values_at
from cepheid.plans.plan import SituationPlan

BATCH_ROWS = 1 << 26
"""Events that are on the device at once."""

SUM_MAX = 2.0**62
Ints = NDArray[np.int64]


class DeviceSituations:
    """A query about situations whose events become stretches on a device."""

    in_order = True
    whole = True

    def __init__(self, plan: SituationPlan) -> None:
        self._job = SituationJob(plan)

    def answer(self, events: pa.Table | pa.RecordBatchReader, *, forced: bool) -> pa.Table | None:
        """Run over events in time order."""
        del forced
        assert isinstance(events, pa.Table), "all events are there"
        steps = LocalSteps(lambda schema: SituationSteps(self._job, schema, cut_on_device))
        return steps.answer(slices_of(events, events_at_once(BATCH_ROWS)), events.schema)

    def answer_streams(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Refuse: situations are about one stream."""
        raise AssertionError(tables)


class PlacedCut:
    """Cuts every batch on the device or on the CPU, wherever it takes less time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.placing = Placing(scheduler)

    def __call__(
        self, job: SituationJob, keys: KeyTable, columns: Columns, times: Ints
    ) -> Stretches:
        """Cut a batch into stretches; add its partitions to ``keys``."""
        return self.placing.run(
            len(times),
            lambda: cut_on_device(job, keys, columns, times),
            lambda: cut(job, keys, columns, times),
        )


def cut_on_device(job: SituationJob, keys: KeyTable, columns: Columns, times: Ints) -> Stretches:
    """Cut a batch into stretches; add its partitions to ``keys``."""
    key = keys.number(columns)
    order = _order(job, key, columns)
    if order is None:
        return _stretches(job, key, columns, times, None)
    conditions = _conditions(job, columns)
    own = conditions.reading.columns
    there = upload_columns([*own, [np.ascontiguousarray(times)]], len(key))
    truths = np.stack(conditions.truths) if conditions.truths else np.zeros((1, 1), np.uint8)
    read = (*there, device_of(truths), *map(device_of, conditions.constants))
    lasting = [
        stretching.Lasting(int(number), int(least[0]), int(least[1]))
        for number, least in zip(job.lasting, job.least, strict=True)
    ]
    cuts = stretching.cut_there(
        read, conditions.forms, there.whole[len(own)], order,
        splits=job.splits, lasting=lasting, needed=job.needed,
    )  # fmt: skip
    found = _stretches(job, key, columns, times, cuts)
    return found._replace(totals=_totals(job, conditions.reading, there, columns, cuts))


def _order(job: SituationJob, key: Ints, columns: Columns) -> stretching.Order | None:
    """Order the events by partition, without those that WHERE leaves out."""
    if job.situations.where is not None:
        key = np.where(columns.mask(job.situations.where), key, -1)
    elif not job.plan.partition.attributes and len(key):
        return stretching.Order.of_one(len(key))
    return stretching.Order.by(key)


class _Conditions(NamedTuple):
    """The columns of conditions and measures, and the form of every condition.

    The host evaluates what has no form, and the device reads ``truths``.
    """

    reading: Reading
    forms: list[Form]
    truths: list[NDArray[np.uint8]]
    constants: tuple[NDArray[Any], NDArray[Any]]


def _conditions(job: SituationJob, columns: Columns) -> _Conditions:
    """Build the forms of all conditions."""
    reading = Reading(columns.batch)
    forming = NamedForming(reading.place)
    forms: list[Form] = []
    truths: list[NDArray[np.uint8]] = []
    for number, definition in enumerate(job.definitions):
        relative = number in job.relative
        form = None if relative else forming.form((definition.condition,))
        if form is None:
            if relative:
                mask = np.asarray(columns.arrow(f"{MASK}{definition.name}"), np.bool_)
            else:
                mask = columns.mask(definition.condition)
            form = ("known", LEFT, len(truths))
            truths.append(mask.view(np.uint8))
        forms.append(form)
    for measure in job.measures:
        if measure.attribute is not None:
            reading.place(measure.attribute)
    return _Conditions(reading, forms, truths, forming.constants)


def _stretches(
    job: SituationJob, key: Ints, columns: Columns, times: Ints, cuts: stretching.Cuts | None
) -> Stretches:
    """Build the stretches of cuts, without totals."""
    none = np.zeros(0, np.int64)
    first, last, bits = (none, none, none) if cuts is None else cuts[:3]
    # If no value is read, any row will do.
    ends = np.where(bits & job.needed != 0, last, first)
    kinds = bits.astype(np.uint8 if len(job.definitions) <= 8 else np.int64)
    totals = tuple(np.zeros(0, np.int64) for _ in job.measures)
    return Stretches(key[first], times[first], kinds, totals, values_at(job, columns, first, ends))


def _totals(
    job: SituationJob, reading: Reading, there: Uploaded, columns: Columns, cuts: stretching.Cuts
) -> tuple[NDArray[Any], ...]:
    """Aggregate the events of every stretch, in one pass; the host takes odd columns."""
    if not job.measures:
        return ()
    places = selecting.FoldPlaces([], [], [], [], [], [])
    where = [_placed(places, measure, reading, there, columns) for measure in job.measures]
    folded = selecting.fold_columns(there, places, cuts.slots, len(cuts.first))
    slots: Ints | None = None
    found: list[NDArray[Any]] = []
    for measure, place in zip(job.measures, where, strict=True):
        if place is None:
            slots = np.asarray(cuts.slots.copy_to_host()) if slots is None else slots
            found.append(add_measure(measure, columns, slots, len(cuts.first)))
            continue
        name, row = place
        if name == "count":
            found.append(folded.counts)
        elif name in ("doubles", "whole"):
            found.append(getattr(folded, name)[row].astype(np.float64))
        else:
            found.append(folded.low[row] if name == "low" else ~folded.high[row])
    return tuple(found)


def _placed(
    places: selecting.FoldPlaces, measure: Accumulator, reading: Reading, there: Uploaded,
    columns: Columns,
) -> tuple[str, int] | None:  # fmt: skip
    """Add the fold of a measure, and tell where its result is; None if the host computes it."""
    if measure == EVENTS:
        return "count", 0
    assert measure.attribute is not None, "only the number of events has none"
    if measure.what == "values":
        return None if columns.arrow(measure.attribute).null_count else ("count", 0)
    found = reading.place(measure.attribute)
    if found is None:
        return None
    kind, row = found
    double = kind == "double"
    if not double:
        least, largest = extent_of(there.whole[row])
        fits = max(abs(least), abs(largest)) * float(len(columns.batch)) < SUM_MAX
        if not fits or NO_VALUE in (least, largest, ~least):
            return None
    if measure.what == "sum":
        target = places.doubles if double else places.whole
        target.append(row)
        return ("doubles" if double else "whole"), len(target) - 1
    side, flags = (
        (places.high, places.doubled_high) if measure.largest else (places.low, places.doubled_low)
    )
    side.append(row)
    flags.append(double)
    return ("high" if measure.largest else "low"), len(side) - 1
