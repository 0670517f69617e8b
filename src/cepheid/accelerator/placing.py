"""Run pieces of work on the device or on the CPU, wherever they take less time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from cepheid.accelerator.failures import DeviceError, message_of, reporting_failures, warn_once
from cepheid.accelerator.schedule import Place, Scheduler

Result = TypeVar("Result")


class Placing:
    """Chooses by measured times; a device that fails is left alone, unless it was asked for."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def run(self, events: int, gpu: Callable[[], Result], cpu: Callable[[], Result]) -> Result:
        """Do work about a number of events.

        Raises
        ------
        DeviceError
            E554 if the device fails, and no other may do the work.
        """
        place, begun = self.scheduler.choose(events), time.perf_counter()
        found = cpu() if place is Place.CPU else self.there(gpu, cpu)
        self.scheduler.measure(place, events, time.perf_counter() - begun)
        return found

    def there(self, gpu: Callable[[], Result], cpu: Callable[[], Result]) -> Result:
        """Do work on the device; on the CPU if it fails, and was not asked for."""
        try:
            with reporting_failures():
                return gpu()
        except DeviceError as error:
            if self.scheduler.forced is Place.GPU:
                raise
            self.scheduler.forced = Place.CPU
            warn_once(message_of(error))
            return cpu()
