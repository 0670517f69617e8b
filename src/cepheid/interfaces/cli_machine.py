"""``cepheid warm`` and ``cepheid doctor``: prepare and check this machine."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

from cepheid.interfaces.commands import Option
from cepheid.interfaces.console import say

JAVA_MIN = 17
PACKAGES = ("numpy", "numba", "pyarrow", "pyspark", "pandas", "msgspec")


def warm(
    processes: Annotated[
        int | None,
        Option(help="How many processes compile; as many as cores by default.", min=1),
    ] = None,
) -> None:
    """Compile all kernels now, so that no query ever waits for them on this machine."""
    # rich.progress takes longer to load than most commands run.
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from cepheid.interfaces.colours import console_of
    from cepheid.kernels import cache
    from cepheid.kernels.warm import warm as compile_all

    folder = cache.root() / cache.key()
    reason = cache.why_unsafe(folder)
    if reason:
        say(f"kernels are not kept: {reason}; see `cepheid doctor`")
        raise SystemExit(1)
    console, begun = console_of(stderr=True), time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("compiling kernels", total=None)
        ready = before = -1
        for done in compile_all(processes):
            ready, before = done.ready, done.ready if before < 0 else before
            text = f"{done.ready} of {done.total} kernels, about {done.left_s:.0f} CPU s to go"
            bar.update(task, completed=done.ready, total=done.total, description=text)
            if not console.is_terminal:
                console.print(text, highlight=False)
    took = time.perf_counter() - begun
    say(f"{ready} kernels are ready, {ready - before} compiled in {took:.0f} s, in {folder}")


class Finding(NamedTuple):
    """One line of the doctor: the check, its result, and the fix if it failed."""

    subject: str
    found: str
    cure: str = ""


def doctor() -> None:
    """Show versions, Java, compiled kernels and GPU, and say what is wrong."""
    findings = [*_versions(), _java(), *_kernels(), _gpu()]
    for finding in findings:
        say(f"{'!' if finding.cure else ' '} {finding.subject:<10} {finding.found}")
    wrong = [finding for finding in findings if finding.cure]
    for finding in wrong:
        say(f"\n{finding.subject}: {finding.cure}")
    if not wrong:
        say("\nnothing is wrong")
    raise SystemExit(1 if wrong else 0)


def _versions() -> Iterator[Finding]:
    # Every command would load it with this module.
    from importlib import metadata

    yield Finding("cepheid", metadata.version("cepheid"))
    yield Finding("Python", f"{platform.python_version()} at {sys.executable}")
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            yield Finding(name, "not installed", f"install it: `pip install {name}`")
    yield Finding("packages", ", ".join(found))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding("machine", f"{platform.system()} {platform.machine()}, {cores} cores")


def _java() -> Finding:
    # Every command would load it with this module.
    import subprocess

    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin/java") if home else shutil.which("java")
    cure = f"Spark needs Java {JAVA_MIN} or newer: install it, or set JAVA_HOME"
    if command is None:
        return Finding("Java", "not found", cure)
    try:
        run = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("Java", f"{command} does not run: {error}", cure)
    version = re.search(r'version "(\d+)[^"]*"', run.stderr + run.stdout)
    if version is None:
        return Finding("Java", f"{command} does not say its version", cure)
    old = int(version[1]) < JAVA_MIN
    return Finding(
        "Java", f"{version[0].removeprefix('version ')} at {command}", cure if old else ""
    )


def _kernels() -> Iterator[Finding]:
    from cepheid.kernels import cache
    from cepheid.kernels.costs import listed
    from cepheid.kernels.tiers import current_tier
    from cepheid.kernels.warm import missing

    folder = cache.root() / cache.key()
    reason = cache.why_unsafe(folder)
    if reason:
        cure = f"let only yourself write there (`chmod go-w`), or name a folder in {cache.VARIABLE}"
        yield Finding("kernels", f"compiled kernels are not kept: {reason}", cure)
        return
    if not os.access(_existing(folder), os.W_OK):
        cure = f"name a folder that you can write in {cache.VARIABLE}"
        yield Finding("kernels", f"compiled kernels are not kept: {folder} is read-only", cure)
        return
    size = sum(path.stat().st_size for path in folder.glob("*")) if folder.is_dir() else 0
    ready = len(listed()) - len(missing())
    text = f"{ready} of {len(listed())} are compiled, {size / 1e6:.1f} MB in {folder}"
    yield Finding("kernels", f"{text}; small work is interpreted; `cepheid warm` compiles all")
    yield Finding("tier", current_tier().value)


def _existing(folder: Path) -> Path:
    """Find the nearest parent folder that exists."""
    return next(place for place in (folder, *folder.parents) if place.exists())


def _gpu() -> Finding:
    from cepheid.accelerator.device import Found, find_device

    found, name = find_device()
    if found is Found.BROKEN:
        return Finding("GPU", f"does not work: {name}")
    return Finding("GPU", name if found.usable else f"none: {name}")


def calibrate(
    local: Annotated[
        bool, Option("--local", help="Leave Spark out, whose figures stay as they are.")
    ] = False,
) -> None:
    """Measure the costs of reading, sending and running events here, so that plans fit."""
    import msgspec

    from cepheid.api import query as compile_query
    from cepheid.runtimes.calibrate import measure_rates
    from cepheid.runtimes.calibrate_tasks import measure_work
    from cepheid.runtimes.task_rates import read_task_rates, write_task_rates
    from cepheid.store.rates import write_rates

    stored = write_rates(measure_rates(compile_query))
    found = measure_work(compile_query)
    if not local:
        from cepheid.runtimes.spark.calibrate import measure_spark
        from cepheid.spark.session import session

        with session() as spark:
            found |= measure_spark(spark)
    # A clock that stands still must not make anything free.
    sound = {name: max(figure, 1e-3) for name, figure in found.items()}
    rates = msgspec.structs.replace(read_task_rates(), **sound)
    path = write_task_rates(rates)
    for name, figure in msgspec.structs.asdict(rates).items():
        what, _, unit = name.rpartition("_")
        say(f"{what:<9} {figure:8.1f} {unit}{'' if name in sound else ', not measured'}")
    say(f"{path}, and figures of event stores: {stored}")
