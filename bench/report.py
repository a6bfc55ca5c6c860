"""The measurements behind each name, and their tables."""

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from bench import (
    busy,
    calibration,
    decisions,
    dumps,
    edits,
    faults,
    first_line,
    followers,
    foresight,
    full,
    growth,
    holds,
    kueue,
    latency,
    page,
    parts,
    past,
    peer_tables,
    place_tables,
    program,
    questions,
    recording,
    split,
    store_tables,
    submits,
    topology,
    usage,
    usage_space,
    verify,
)
from bench.replay import REPLAYS
from bench.section import Cell, Section, ms
from bench.timing import timed
from bench.waiting import ABOUT_POSITION, ABOUT_WAITING, position_rows, waiting_rows


class Job(NamedTuple):
    """What is measured together."""

    name: str
    run: Callable[[], Iterable[Section]]


def jobs(names: Sequence[str], runs: int) -> Iterator[Job]:
    """The measurements of *names* in the order of the report, the calibration first."""
    yield Job("calibration", lambda: [_calibration(runs)])
    scenarios = [name for name in names if name in {**decisions.SCENARIOS, **kueue.SCENARIOS}]
    if scenarios:
        yield Job("decisions", lambda: [peer_tables.compared(scenarios, runs)])
    replays = [name for name in names if name in REPLAYS]
    if replays:
        yield Job("replays", lambda: peer_tables.replayed(replays))
    for name in names:
        if name in SECTIONS:
            yield Job(name, lambda name=name: [SECTIONS[name](runs)])  # type: ignore[misc]


def _calibration(runs: int) -> Section:
    times = timed(calibration.once, max(runs, 10))
    best, middle = calibration.DECISIONS / times.least, calibration.DECISIONS / times.median
    return Section(
        "calibration",
        f"a bare loop over such a tree, on Python {platform.python_version()}; 'normalised' is the median on a machine with "
        f"{calibration.DECISIONS / calibration.NOMINAL_S:,.0f} decisions a second, by the loop beside each run",
        [{"decisions a second, best": best, "median": middle}],
    )


def _split(runs: int) -> Section:
    section = Section("split", "where the time of Q1_admit10k goes, each part run alone; µs per gang")
    whole = timed(decisions.SCENARIOS["Q1_admit10k"], runs)
    parts = [(part.name, part.times.least) for part in split.parts(runs)]
    parts.append(("the rest: loops, calls, the gang's record", whole.least - sum(seconds for _, seconds in parts)))
    for name, seconds in [*parts, ("whole", whole.least)]:
        section.table.append(
            {"part": name, "µs per gang": seconds * 1e6 / split.GANGS, "percent": 100 * seconds / whole.least}
        )
    bare = min(whole.bare) * 1e6 / calibration.DECISIONS
    section.table.append(
        {"part": "(the bare loop)", "µs per gang": bare, "percent": bare * split.GANGS / whole.least / 1e4}
    )
    return section


def _growth(name: str, about: str, points: Callable[[int], Iterator[growth.Point]]) -> Callable[[int], Section]:
    def section(runs: int) -> Section:
        made = Section(name, about)
        for point in points(runs):
            best = point.times.least * 1e6 / point.each
            normal = point.times.normalised * 1e6 / point.each
            made.table.append(
                {"series": point.series, "at": point.at, "min µs": best, "per": point.unit, "normalised µs": normal}
            )
        return made

    return section


def _latency(runs: int) -> Section:
    section = Section("latency", "what a user waits for, ms; on a server with four simulated GPUs")
    for wait in latency.waits(max(30, runs)):
        row: dict[str, Cell] = {"wait": wait.name, "median": ms(wait.times.median), "min": ms(wait.times.least)}
        row |= {"normalised": ms(wait.times.normalised)}
        row |= {"runs": len(wait.times.seconds), "target": wait.target_ms}
        section.table.append(row | {"met": "yes" if ms(wait.times.median) <= wait.target_ms else "NO"})
    return section


SECTIONS: Mapping[str, Callable[[int], Section]] = {
    "split": _split,
    "pools": _growth("pools", "admitting four gangs per pool", growth.pools),
    "depth": _growth("depth", "admitting 4,000 gangs in 1,000 pools below chains of cohorts", growth.depths),
    "queue": _growth("queue", "one cycle over 1,000 full pools with so many gangs waiting", growth.queues),
    "T1": place_tables.places,
    "T3": place_tables.streams,
    "T4": place_tables.preemptions,
    "T5": place_tables.fewer_pods,
    "why": place_tables.whys,
    "waiting": lambda runs: Section("waiting", ABOUT_WAITING, list(waiting_rows(runs))),
    "position": lambda runs: Section("position", ABOUT_POSITION, list(position_rows(runs))),
    "full": lambda _runs: Section("full", full.ABOUT, full.rows()),
    "topology_growth": _growth(
        "topology_growth",
        "a place for 512 pods, fewer pods in a rack, and why, by the number of nodes",
        topology.growth,
    ),
    "latency": _latency,
    "program": lambda runs: Section("program", program.ABOUT, list(program.rows(runs))),
    "first_line": lambda runs: Section("first_line", first_line.ABOUT, list(first_line.rows(runs))),
    "store_submit": store_tables.submissions,
    "submits": lambda runs: Section("submits", submits.ABOUT, submits.rows(min(runs, 3))),
    "followers": lambda runs: Section("followers", followers.ABOUT, followers.rows(min(runs, 3))),
    "store_commit": store_tables.commits,
    "store_group": store_tables.groups,
    "store_pool_list": store_tables.pool_lists,
    "dumps": lambda _runs: Section("dumps", dumps.ABOUT, dumps.rows()),
    "edits": lambda runs: Section("edits", edits.ABOUT, edits.rows(runs)),
    "parts": lambda _runs: Section("parts", parts.ABOUT, parts.rows()),
    "foresight": lambda runs: Section("foresight", foresight.ABOUT, foresight.rows(runs)),
    "past": lambda runs: Section("past", past.ABOUT, past.table(runs)),
    "questions": lambda runs: Section("questions", questions.ABOUT, questions.table(runs)),
    "busy": lambda runs: Section("busy", busy.ABOUT, busy.rows(runs)),
    "holds": lambda runs: Section("holds", holds.ABOUT, holds.rows(runs)),
    "usage": lambda runs: Section("usage", usage.ABOUT, usage.rows(runs)),
    "usage_space": lambda _runs: Section("usage_space", usage_space.ABOUT, usage_space.rows()),
    "recording": lambda runs: Section("recording", recording.ABOUT, recording.rows(min(runs, 3))),
    "verify": lambda runs: Section("verify", verify.ABOUT, verify.rows(min(runs, 2))),
    "page": lambda runs: Section("page", page.ABOUT, page.rows(runs)),
    "faults": lambda _runs: Section("faults", faults.ABOUT, faults.rows()),
    "start": lambda runs: Section("start", questions.ABOUT_START, questions.starting(runs)),
}
NAMES = (*decisions.SCENARIOS, *kueue.SCENARIOS, *REPLAYS, *SECTIONS)
