"""The GPU that somebody assigned to a task: its address in, its scheduler out."""

from __future__ import annotations

import warnings

from cepheid.accelerator.device import Found, select_device
from cepheid.accelerator.schedule import Place, Scheduler


def scheduler_of(address: str | None) -> Scheduler | None:
    """Create the scheduler of a task with a GPU; None, with a warning, if that cannot be used."""
    if address is None:
        return None
    found, name = select_device(address)
    if not found.usable:
        warnings.warn(f"a task has GPU {address}, but works on the CPU: {name}", stacklevel=3)
        return None
    # The scheduler would never choose the slow simulator, so it is forced.
    return Scheduler(Place.GPU if found is Found.SIMULATOR else None)
