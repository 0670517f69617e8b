"""Körber's thesis, section 4.4: figures 4.8 to 4.14, as they were measured on an H200.

A machine without a GPU cannot measure them, so these figures are kept: those of docs/benchmarks.md
("On a GPU"), and curves that were read off its chart, to about two digits.
``python -m benchmarks.accelerator_figures measure`` measures 4.10 to 4.14 on a machine with a GPU,
``python -m benchmarks.accelerator`` the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.papers.entry import Entry, Found, Panel, Point, State, Verdict, times

DAY = "2026-11-17"
MACHINE = (
    "kept from one NVIDIA H200 with 16 cores, November 2026 ([on a GPU](benchmarks.md#on-a-gpu)); "
    "this command shows them again, `python -m benchmarks.accelerator_figures measure` measures on "
    "a machine with a GPU"
)
ALL, COPIES, RESIDENT = "16 threads", "GPU with copies", "GPU, resident"
CURVES: dict[str, tuple[tuple[float, ...], dict[str, tuple[float, ...]]]] = {
    "4.10a": (
        (0.00001, 0.0001, 0.001, 0.01, 0.1, 1.0),
        {
            ALL: (6.6, 5.0, 6.0, 6.2, 6.3, 7.0),
            COPIES: (2.2, 2.2, 2.3, 2.3, 2.6, 1.3),
            RESIDENT: (80, 58, 63, 68, 88, 77),
        },
    ),
    "4.10b": (
        (64, 256, 1024, 4096, 16_384, 262_144, 4_194_304, 16_777_216),
        {
            ALL: (0.33, 0.31, 0.34, 0.5, 0.6, 3.3, 6.8, 6.6),
            COPIES: (0.2, 0.22, 0.13, 0.21, 0.33, 1.0, 2.4, 2.7),
            RESIDENT: (0.47, 0.42, 0.2, 0.4, 0.6, 4.3, 80, 240),
        },
    ),
    "4.11": (
        (4096, 16_384, 65_536, 262_144, 1_048_576),
        {
            ALL: (4.6, 6.0, 7.7, 8.6, 8.8),
            COPIES: (5.4, 24, 57, 150, 260),
            RESIDENT: (68, 190, 300, 410, 450),
        },
    ),
    "4.12a": (
        (0.00001, 0.0001, 0.001, 0.01),
        {ALL: (11.5, 10, 9.6, 9.4), COPIES: (210, 145, 95, 57), RESIDENT: (215, 150, 97, 102)},
    ),
    "4.12b": (
        (4096, 16_384, 65_536, 262_144, 1_048_576),
        {
            ALL: (9.0, 8.8, 9.0, 10.5, 9.7),
            COPIES: (26, 71, 178, 122, 95),
            RESIDENT: (34, 105, 213, 130, 105),
        },
    ),
    "4.13a": (
        (1024, 4096, 16_384, 32_768, 65_536),
        {ALL: (2.0, 7.3, 6.6, 8.6, 6.2), COPIES: (0.6, 7.8, 88, 185, 450)},
    ),
    "4.13b": (
        (2, 3, 4, 5, 6, 7, 8),
        {
            ALL: (8.0, 6.7, 6.4, 7.9, 6.4, 6.5, 6.2),
            COPIES: (212, 157, 132, 93, 73, 78, 65),
        },
    ),
    "4.14a": (
        (2, 3, 4, 5, 6, 7, 8),
        {ALL: (9.0, 4.9, 6.5, 6.5, 5.9, 6.6, 3.9), COPIES: (137, 53, 40, 35, 32, 27, 24)},
    ),
    "4.14b": (
        (1024, 4096, 16_384, 32_768),
        {ALL: (0.75, 3.2, 5.0, 5.8), COPIES: (0.3, 2.1, 13, 29)},
    ),
}
"""Times the speed of one thread."""

BY_TEXT = {"one thread": (125, 114), "16 threads": (147, 110), "GPU": (560, 422)}
"""A filter by `SELECT`, in million events a second on two machines of one kind."""


def curves(*panels: str) -> Found:
    """Return the curves of panels of the chart."""
    points = tuple(
        Point(name, x, height, panel)
        for panel in panels
        for name, heights in CURVES[panel][1].items()
        for x, height in zip(CURVES[panel][0], heights, strict=True)
    )
    return Found(points, "made: uniform values", "Curves were read off the chart, to two digits.")


def filters() -> Found:
    """Return the rates of filters (figure 4.8)."""
    points = (
        Point("rate", "operator, resident on the GPU", 65_000),
        Point("rate", "operator, from and to pinned memory", 6_400),
        *(
            Point(series, f"query by its text, {where}", rate)
            for where, rates in BY_TEXT.items()
            for series, rate in zip(("rate", "rate, second machine"), rates, strict=True)
        ),
    )
    note = (
        "Queries were measured on two machines on 18 November 2026 "
        "([queries by their text](benchmarks.md#queries-by-their-text)). Flink was not run there: "
        "nothing can be installed on them."
    )
    return Found(
        points, "made: 2^27 doubles of which half pass, 2^26 events of which a tenth", note
    )


def launches() -> Found:
    """Return round trips of a batch (figure 4.9)."""
    points = (
        Point("median", "a kernel that stays", 28),
        Point("median", "a launch a batch, fastest of four runs", 75),
        Point("median", "a launch a batch, slowest of four runs", 181),
    )
    return Found(points, "made: batches of 4,096 events, from the host and back")


# Comparisons ------------------------------------------------------------------------------------


def _filters(found: Found) -> Sequence[Verdict]:
    rates = found.curve("rate"), found.curve("rate, second machine")
    one, every, gpu = ([rate[f"query by its text, {where}"] for rate in rates] for where in BY_TEXT)
    return (
        Verdict(State.OPEN, "all are faster than Flink, by up to 100 times: Flink was not run"),
        Verdict(
            State.SHOWN,
            f"for a query by its text the GPU has {times(gpu[0] / one[0])} and "
            f"{times(gpu[1] / one[1])} the speed of one thread, copies included, and "
            f"{times(gpu[0] / every[0])} and {times(gpu[1] / every[1])} that of 16; *auto* gives "
            "such a filter to the GPU. The paper's card of its own loses to one thread (4.10)",
        ),
    )


def _launches(found: Found) -> Sequence[Verdict]:
    medians = found.curve("median")
    ratio = medians["a launch a batch, fastest of four runs"] / medians["a kernel that stays"]
    return (
        Verdict(
            ratio > 1,
            f"a kernel that stays answers {times(ratio)} as fast as the fastest launches (the "
            "paper has no-op kernels: signals beat every dispatch)",
        ),
    )


def _figure_10(found: Found) -> Sequence[Verdict]:
    large = 4_194_304
    copies, every = found.at(COPIES, large, "4.10b"), found.at(ALL, large, "4.10b")
    return (
        Verdict(
            copies < every,
            f"with copies the GPU ({copies:g} times one thread at {large:,} events) stays behind "
            f"16 threads ({every:g} times), as the paper's cards do; without copies it is "
            f"{found.at(RESIDENT, large, '4.10b'):g} times as fast",
        ),
        Verdict(
            found.at(ALL, 256, "4.10b") > 1,
            "threads pay off from 262,144 events on here, from 256 on in the paper",
        ),
    )


def _figure_11(found: Found) -> Sequence[Verdict]:
    curve = found.curve(COPIES, "4.11")
    return (
        Verdict(
            curve[1_048_576] > curve[4096],
            f"the GPU scales with the window, from {curve[4096]:g} to {curve[1_048_576]:g} times "
            "one thread with copies; the paper's card of its own reached half of a thread, its "
            "integrated one was the fastest",
        ),
    )


def _figure_12(found: Found) -> Sequence[Verdict]:
    least = min(found.curve(COPIES, "4.12a").values())
    return (
        Verdict(
            least > max(found.curve(ALL, "4.12a").values()),
            f"the GPU beats all threads at every selectivity (at least {least:g} times one); "
            "the paper's needs less than 0.01 for it, and its card of its own suffers from copies",
        ),
        Verdict(
            found.at(COPIES, 262_144, "4.12b") > found.at(COPIES, 4096, "4.12b"),
            "larger windows gain more, up to 65,536 events; beyond that it falls from 178 to 95 "
            "times",
        ),
    )


def _figure_13(found: Found) -> Sequence[Verdict]:
    curve, steps = found.curve(COPIES, "4.13a"), found.curve(COPIES, "4.13b")
    return (
        Verdict(
            curve[65_536] > 5,
            f"it scales with the partial matches, from {curve[1024]:g} to {curve[65_536]:g} times "
            "one thread (the paper: more than 5 times on an integrated GPU, less than 1 on a card)",
        ),
        Verdict(
            steps[2] / steps[8] < 1.5,
            f"the paper's gain does not depend on the number of symbols; here it falls from "
            f"{steps[2]:g} times with 2 to {steps[8]:g} with 8",
        ),
    )


def _figure_14(found: Found) -> Sequence[Verdict]:
    any_match = CURVES["4.13b"][1][COPIES]
    steps, kleene = found.curve(COPIES, "4.14a"), found.curve(COPIES, "4.14b")
    return (
        Verdict(
            steps[8] < any_match[-1],
            f"next-match gains less than any-match, {steps[8]:g} against {any_match[-1]:g} times "
            "with 8 symbols",
        ),
        Verdict(
            kleene[32_768] > kleene[1024],
            f"with a Kleene symbol it scales with the partial matches, from {kleene[1024]:g} to "
            f"{kleene[32_768]:g} times; threads gain {found.at(ALL, 32_768, '4.14b'):g} times",
        ),
    )


def _entry(
    number: int,
    title: str,
    paper: str,
    panels: tuple[Panel, ...],
    compare: Callable[[Found], Sequence[Verdict]],
) -> Entry:
    return Entry(
        f"thesis-4.{number}",
        f"Figure 4.{number}: {title}",
        paper,
        "The operators take batches, the thesis' take events one by one.",
        panels,
        partial(curves, *(panel.key for panel in panels)),
        compare,
        machine=MACHINE,
        day=DAY,
    )


ENTRIES = (
    Entry(
        "thesis-4.8",
        "Figure 4.8: filters beside Flink",
        "A filter that passes one event in 1,000, on one thread, several threads, an integrated "
        "GPU and a card. All are faster than Flink on one node, by up to 100 times.",
        "The rate of filters in million events a second, by the operator and by `SELECT`.",
        (Panel("", "rate", "filter", "M/s"),),
        filters,
        _filters,
        machine=MACHINE,
        day=DAY,
    ),
    Entry(
        "thesis-4.9",
        "Figure 4.9: persistent kernels",
        "The time from dispatch to completion of an empty kernel: signals to a kernel that stays "
        "beat dispatches by either runtime on every GPU.",
        "The round trip of a batch with its work and copies.",
        (Panel("", "round trip", "kernel", "us"),),
        launches,
        _launches,
        machine=MACHINE,
        day=DAY,
    ),
    _entry(
        10,
        "filter",
        "(a) Only threads and the integrated GPU beat one thread, threads more. (b) Threads pay "
        "off from 256 events on, GPUs gain from larger batches; cards lose by copies.",
        (
            Panel("4.10a", "a", "part that passes", "times"),
            Panel("4.10b", "b", "events of a batch", "times"),
        ),
        _figure_10,
    ),
    _entry(
        11,
        "aggregation",
        "The sum of windows of 4 K to 1 M events for every event. The integrated GPU is the "
        "fastest but for the smallest, and scales; cards reach half of a thread.",
        (Panel("4.11", "sum", "events of a window", "times"),),
        _figure_11,
    ),
    _entry(
        12,
        "join",
        "(a) The integrated GPU always beats one thread, and all threads below a selectivity of "
        "0.01. (b) It wins clearly with large windows; cards suffer from copies.",
        (
            Panel("4.12a", "a", "part of pairs", "times"),
            Panel("4.12b", "b", "events of a window", "times"),
        ),
        _figure_12,
    ),
    _entry(
        13,
        "patterns, skip-till-any-match",
        "(a) The integrated GPU scales with the partial matches to more than 5 times; cards and "
        "threads are below one thread. (b) 5 times with any number of symbols.",
        (
            Panel("4.13a", "a", "partial matches", "times"),
            Panel("4.13b", "b", "symbols", "times", is_log=False),
        ),
        _figure_13,
    ),
    _entry(
        14,
        "patterns, skip-till-next-match",
        "(a) Slightly less gain than under any-match; threads scale with the symbols. (b) With a "
        "Kleene symbol the integrated GPU scales, threads gain little, cards lose.",
        (
            Panel("4.14a", "a", "symbols", "times", is_log=False),
            Panel("4.14b", "b", "partial matches", "times"),
        ),
        _figure_14,
    ),
)
