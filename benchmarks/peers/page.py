"""Write the page and its chart: measurements in, Markdown and a PNG file out."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.cases import CASES, Case
from benchmarks.peers.measure import Found
from benchmarks.peers.systems import OURS, RIVALS, SYSTEMS

BUSY = 0.05
"""A machine is busy if other processes take such a share of it."""
TEXT = Path(__file__).with_name("page.md").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Setting:
    """What the page says of the run."""

    day: str
    events: int
    cores: int
    others: float
    rounds: int
    limit_s: float
    versions: Mapping[str, str]
    missing: Mapping[str, str]
    disagreements: Sequence[str]
    note: str = ""

    @property
    def is_busy(self) -> bool:
        """Return whether other work took a part of the cores."""
        return self.others > BUSY * self.cores

    @property
    def clocks(self) -> tuple[str, ...]:
        """Return the times that decide: on a busy machine the clock measures other work."""
        return ("cpu",) if self.is_busy else ("wall", "cpu")


Table = Mapping[tuple[str, str], Found]


def ratios(found: Table, case: str, clock: str) -> dict[str, float]:
    """Return the time of an event in each rival, divided by ours."""
    ours = found[OURS.name, case]
    mine = _seconds(ours, clock) / ours.events
    every = {rival.name: found.get((rival.name, case)) for rival in RIVALS}
    return {
        name: _seconds(one, clock) / one.events / mine
        for name, one in every.items()
        if one is not None and one.is_measured
    }


def worst(found: Table, case: str, clocks: Sequence[str] = ("wall", "cpu")) -> float:
    """Return the ratio to the fastest rival, by the clock or by CPU time, whichever is worse."""
    every = [ratio for clock in clocks for ratio in ratios(found, case, clock).values()]
    return min(every, default=math.inf)


def render(found: Table, setting: Setting, chart: str) -> str:
    """Return the text of the page."""
    cases = [case for case in CASES if (OURS.name, case.name) in found]
    cases.sort(key=lambda case: worst(found, case.name, setting.clocks))
    busy = (
        f"; other work took {setting.others:.2f} of them, so only CPU time "
        "decides which rows are lost: the clock measured the other work, too"
        if setting.is_busy
        else f", of which other work took {setting.others:.2f}"
    )
    differ = "".join(f"\n- **differs**: {line}" for line in setting.disagreements)
    titles = [rival.title for rival in RIVALS]
    return TEXT.format(
        rivals=f"{', '.join(titles[:-1])} and {titles[-1]}",
        day=setting.day,
        events=setting.events,
        cores=setting.cores,
        busy=busy,
        rounds=setting.rounds,
        limit_s=setting.limit_s,
        disagreements=f", but:\n{differ}\n" if differ else "",
        note=f" {setting.note}" if setting.note else "",
        summary="\n".join(_summary(found, case, setting.clocks) for case in cases),
        lost=sum(worst(found, case.name, setting.clocks) < 1 for case in cases),
        asked=len(cases),
        chart=chart,
        cpu=_table(found, cases, "cpu", decides=True),
        wall=_table(found, cases, "wall", decides=not setting.is_busy),
        dashes=_dashes(found, setting, cases),
        questions=_questions(cases),
        versions=", ".join(f"{name} {version}" for name, version in setting.versions.items()) + ".",
    )


def _seconds(one: Found, clock: str) -> float:
    return max(one.wall_s if clock == "wall" else one.cpu_s, 1e-9)


def _summary(found: Table, case: Case, clocks: Sequence[str]) -> str:
    ours = found[OURS.name, case.name]
    cells = [f"{'**lost** ' if worst(found, case.name, clocks) < 1 else ''}{case.title}"]
    cells += [f"{ours.wall_s:.3f}", f"{ours.cpu_s:.3f}"]
    for clock in ("wall", "cpu"):
        rivals = ratios(found, case.name, clock)
        fastest = min(rivals, key=lambda name: rivals[name], default=None)
        cells += (
            ["–", "–"]
            if fastest is None
            else [SYSTEMS[fastest].title, _ratio(rivals[fastest], decides=clock in clocks)]
        )
    return f"| {' | '.join(cells)} |"


def _ratio(value: float, *, decides: bool) -> str:
    text = f"{value:.2f}" if value < 10 else f"{value:,.0f}"
    return f"**{text}**" if value < 1 and decides else text


def _table(found: Table, cases: Sequence[Case], clock: str, *, decides: bool) -> str:
    lines = [
        f"| question | {' | '.join(system.title for system in SYSTEMS.values())} |",
        "|---" * (len(SYSTEMS) + 1) + "|",
    ]
    for case in cases:
        shares = ratios(found, case.name, clock)
        cells = [case.name]
        for name in SYSTEMS:
            one = found.get((name, case.name))
            if one is None or not one.is_measured:
                cells.append("–")
                continue
            rate = one.events / _seconds(one, clock) / 1e6
            text = f"{rate:.3g}" if rate >= 0.0095 else f"{rate:.4f}"
            share = f" ({_ratio(shares[name], decides=decides)})" if name in shares else ""
            largest = found[OURS.name, case.name].events
            fewer = f", {one.events // 1000:,} k" if one.events < largest else ""
            cells.append(f"{text}{share}{fewer}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _dashes(found: Table, setting: Setting, cases: Sequence[Case]) -> str:
    lines = [
        f"- {SYSTEMS[name].title} could not be installed: {reason}"
        for name, reason in setting.missing.items()
    ]
    for case in cases:
        for name, system in SYSTEMS.items():
            one = found.get((name, case.name))
            if one is not None and one.reason:
                file = " for a larger file" if one.is_measured else ""
                lines.append(f"- {case.name}, {system.title}: {one.reason}{file}.")
    return "\n".join(lines) or "There is none."


def _questions(cases: Sequence[Case]) -> str:
    lines = ["| name | question | query |", "|---|---|---|"]
    lines += [
        f"| {case.name} | {case.title} | `{' '.join(case.query.split())}` |" for case in cases
    ]
    return "\n".join(lines)


def draw(found: Table, path: Path) -> None:
    """Write one PNG: for each question a dot a rival, how many times slower than Cepheid it is.

    Raises
    ------
    ModuleNotFoundError
        If the extra `charts` is not installed.
    """
    altair = importlib.import_module("altair")
    importlib.import_module("vl_convert")
    path.parent.mkdir(parents=True, exist_ok=True)
    names = sorted({case for _, case in found}, key=lambda case: worst(found, case, ("cpu",)))
    rows = [
        {"case": case, "system": SYSTEMS[name].title, "ratio": ratio}
        for case in names
        for name, ratio in ratios(found, case, "cpu").items()
    ]
    titles = [rival.title for rival in RIVALS]
    log = altair.Scale(type="log")
    dots = (
        altair.Chart(altair.InlineData(values=rows), width=620, height=300)
        .mark_point(filled=True, size=110, opacity=0.9)
        .encode(
            x=altair.X("ratio:Q", title="CPU time an event, rival : Cepheid", scale=log),
            y=altair.Y("case:N", sort=names, title=None),
            color=altair.Color("system:N", sort=titles, title=None),
            shape=altair.Shape("system:N", sort=titles, legend=None),
        )
    )
    even = altair.InlineData(values=[{"ratio": 1}])
    line = altair.Chart(even).mark_rule(color="#888888").encode(x="ratio:Q")
    (dots + line).configure(background="white").save(path, scale_factor=2)
