"""What is run under which name, and the tables that come of it."""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench import (
    calibration,
    decisions,
    edits,
    growth,
    kueue,
    latency,
    parts,
    questions,
    racks,
    reference,
    split,
    store,
    submits,
    topology,
)
from bench.replay import REPLAYS, Outcome
from bench.timing import Times, timed
from bench.waiting import ABOUT_WAITING, waiting_rows

Cell = str | float | int
Rows = list[dict[str, Cell]]


@dataclass
class Section:
    """A table: *table* has one dict per row, with the same keys in all of them."""

    name: str
    about: str
    table: Rows = field(default_factory=list)

    def rows(self) -> Rows:
        return self.table

    def text(self) -> str:
        """For a terminal or a log: plain, columns aligned, numbers to the right."""
        lines = ["", f"{self.name}: {self.about}"]
        if self.table:
            heads = list(self.table[0])
            cells = [heads, *([_shown(row[head]) for head in heads] for row in self.table)]
            widths = [max(len(line[at]) for line in cells) for at in range(len(heads))]
            left = [isinstance(self.table[0][head], str) for head in heads]
            cells.insert(1, ["-" * width for width in widths])
            lines += [
                "  ".join(_aligned(*each) for each in zip(line, widths, left, strict=True)).rstrip() for line in cells
            ]
        return "\n".join(lines)


def _shown(cell: Cell) -> str:
    if isinstance(cell, float):
        return f"{cell:,.0f}" if cell >= 1000 else f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def _aligned(cell: str, width: int, left: bool) -> str:
    return cell.ljust(width) if left else cell.rjust(width)


def run(names: Sequence[str], runs: int) -> Iterator[Section]:
    """The sections of *names* in the order of the report, the calibration first."""
    times = timed(calibration.once, max(runs, 10))
    best, middle = calibration.DECISIONS / times.least, calibration.DECISIONS / times.median
    yield Section(
        "calibration",
        f"a bare loop over such a tree, on Python {platform.python_version()}; 'normalised' is the median on a machine with "
        f"{calibration.DECISIONS / calibration.NOMINAL_S:,.0f} decisions a second, by the loop beside each run",
        [{"decisions a second, best": best, "median": middle}],
    )
    scenarios = [name for name in names if name in decisions.SCENARIOS]
    if scenarios:
        yield _compared(scenarios, runs)
    imported = [name for name in names if name in kueue.SCENARIOS]
    if imported:
        yield _imported(imported, runs)
    replays = [name for name in names if name in REPLAYS]
    if replays:
        yield from _replayed(replays)
    for name in names:
        if name in SECTIONS:
            yield SECTIONS[name](runs)


def _compared(names: Sequence[str], runs: int) -> Section:
    section = Section("decisions", f"against {reference.NAME}, all in ms; target: at most 1/{reference.TARGET} of it")
    for name in names:
        times, theirs = timed(decisions.SCENARIOS[name], runs), reference.MILLISECONDS[name]
        best = _ms(times.least)
        section.table.append(
            {
                "scenario": name,
                "reference": theirs,
                "min": best,
                "median": _ms(times.median),
                "times faster": theirs / best,
                "target": "met" if best * reference.TARGET <= theirs else "MISSED",
                "aim 1/10": "met" if best * reference.AIM <= theirs else "not yet",
                "normalised": _ms(times.normalised),
            }
        )
    return section


def _imported(names: Sequence[str], runs: int) -> Section:
    section = Section(
        "imported",
        f"queues as Kueue declares them, against {reference.NAME}, all in ms; "
        f"target: at most 1/{reference.TARGET} of it, fair sharing 1/{reference.TARGET_FAIR}",
    )
    for name in names:
        times, theirs = timed(kueue.SCENARIOS[name], runs), reference.IMPORTED[name]
        best = _ms(times.least)
        part = reference.TARGET_FAIR if name.endswith("_fair") else reference.TARGET
        section.table.append(
            {
                "scenario": name,
                "reference": theirs,
                "min": best,
                "median": _ms(times.median),
                "times faster": theirs / best,
                "target": f"1/{part}",
                "is": _verdict(best * part <= theirs),
                "normalised": _ms(times.normalised),
            }
        )
    return section


def _replayed(names: Sequence[str]) -> Iterator[Section]:
    """Each is run once: its time is a sum over many cycles."""
    times = Section(
        "replays",
        f"in virtual time, against {reference.NAME}; seconds of deciding, target: at most 1/{reference.TARGET}; "
        "around: taking in, ending and putting back",
    )
    outcomes = Section(
        "replay outcomes", "how long work waits, in virtual ms; no more than the reference where that is a target"
    )
    for name in names:
        (run, outcome), theirs = _replay(name), reference.REPLAYS[name]
        times.table.append(
            {
                "replay": name,
                "reference s": theirs.seconds,
                "s": run.least,
                "times faster": theirs.seconds / run.least,
                "is": _verdict(run.least * reference.TARGET <= theirs.seconds),
                "normalised s": run.normalised,
                "slowest cycle ms": _ms(outcome.slowest),
                "around s": outcome.around,
            }
        )
        outcomes.table += _outcome(name, outcome, theirs)
    yield times
    yield outcomes


def _replay(name: str) -> tuple[Times, Outcome]:
    made: list[Outcome] = []

    def measure() -> float:
        made.append(REPLAYS[name]())
        return made[0].seconds

    return timed(measure, 1), made[0]


def _outcome(name: str, here: Outcome, theirs: reference.Replayed) -> Rows:
    waits = [
        (f"mean wait to {which} admission, {kind}", int(mine[kind]), its.get(kind))
        for which, mine, its in (("first", here.waits_first, theirs.first), ("last", here.waits_last, theirs.last))
        for kind in sorted(mine)
    ]
    counts = [
        ("cycles", here.cycles, theirs.cycles),
        ("cycles that changed nothing", here.idle, theirs.idle),
        ("admissions", here.admissions, theirs.admissions),
        ("evictions", here.evictions, theirs.evictions),
    ]
    makespan = ("makespan", here.makespan_ms, theirs.makespan_ms)
    targets = [
        _figure(name, what, mine, its, "" if its is None else _verdict(mine <= its))
        for what, mine, its in [makespan, *waits]
    ]
    return targets + [_figure(name, what, mine, its, "") for what, mine, its in counts]


def _figure(name: str, what: str, mine: int, its: int | None, verdict: str) -> dict[str, Cell]:
    return {"replay": name, "figure": what, "reference": "-" if its is None else its, "here": mine, "is": verdict}


def _verdict(met: bool) -> str:
    return "met" if met else "MISSED"


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
    section = Section("latency", "what a person waits for, ms; a server of its own with four stand-in GPUs")
    for wait in latency.waits(max(30, runs)):
        row: dict[str, Cell] = {"wait": wait.name, "median": _ms(wait.times.median), "min": _ms(wait.times.least)}
        row |= {"normalised": _ms(wait.times.normalised)}
        row |= {"runs": len(wait.times.seconds), "target": wait.target_ms}
        section.table.append(row | {"met": "yes" if _ms(wait.times.median) <= wait.target_ms else "NO"})
    return section


def _store_submit(runs: int) -> Section:
    section = Section("store_submit", "submissions a second over HTTP, each stored before it is answered")
    for rate in store.submissions(min(runs, 3)):
        row: dict[str, Cell] = {
            "store": rate.store,
            "clients": rate.clients,
            "a second, best": rate.each / rate.times.least,
        }
        row |= {"median": rate.each / rate.times.median, "normalised": rate.each / rate.times.normalised}
        section.table.append(row | {"ms each": _ms(rate.times.median) * rate.clients / rate.each})
    return section


def _store_commit(runs: int) -> Section:
    about = "one cycle admits as many; storing: its commits alone"
    section = Section("store_commit", about)
    for cycle in store.commits(min(runs, 3)):
        whole, storing = cycle.whole.median, median(cycle.storing)
        row: dict[str, Cell] = {"store": cycle.store, "admissions": cycle.admissions, "ms": _ms(whole)}
        row |= {"storing": _ms(storing), "decisions a second, stored": cycle.admissions / storing}
        row |= {"best": cycle.admissions / min(cycle.storing), "decided and stored": cycle.admissions / whole}
        section.table.append(row | {"normalised": cycle.admissions / cycle.whole.normalised})
    return section


def _store_pool_list(runs: int) -> Section:
    about = f"over HTTP, ms; {store.PARENTS * store.SUBPOOLS_EACH:,} subpools, {store.FINISHED:,} finished workflows"
    section = Section("store_pool_list", about)
    for listed in store.pool_lists(max(20, runs)):
        middle = _ms(listed.times.median)
        row: dict[str, Cell] = {
            "store": listed.store,
            "list": listed.what,
            "kB": listed.answer // 1000,
            "median": middle,
        }
        row |= {"min": _ms(listed.times.least), "normalised": _ms(listed.times.normalised)}
        row |= {"target": store.POOL_LIST_TARGET_MS}
        section.table.append(row | {"is": _verdict(middle <= store.POOL_LIST_TARGET_MS)})
    return section


def _places(runs: int) -> Section:
    section = Section(
        "T1",
        f"a place for one gang on {racks.FULL.nodes:,} nodes, against {reference.NAME}, all in ms; targets: each at most "
        f"1/{reference.TARGET_PLACED} of it, in the median 1/{reference.TARGET_PLACED_MEDIAN}; cold: the first call; "
        "lies in: hosts/racks/blocks",
    )
    faster = []
    for name, theirs in reference.PLACED.items():
        found = topology.place(topology.PLACES[name], runs)
        assert found.changed is not None
        row = _beside(name, found, theirs.ms, reference.TARGET_PLACED)
        faster.append(theirs.ms / _ms(found.times.least))
        row["after a change"] = _ms(found.changed.least)
        few = all(here <= its for here, its in zip(found.used, theirs[1:], strict=True))
        lies = {"lies in": _slashed(found.used), "reference in": _slashed(theirs[1:])}
        section.table.append(row | lies | {"no more": _verdict(few and any(found.used) == any(theirs[1:]))})
    part = reference.TARGET_PLACED_MEDIAN
    last: dict[str, Cell] = {"scenario": "median", "times faster": median(faster), "target": f"1/{part}"}
    last["is"] = _verdict(median(faster) >= part)
    section.table.append({head: last.get(head, "") for head in section.table[0]})
    return section


def _streams(runs: int) -> Section:
    section = Section(
        "T3",
        f"1,000 gangs of 8 nodes each from 100 pools until all are admitted, against {reference.NAME}, all in ms; target: at most "
        f"1/{reference.TARGET_STREAMED} of it",
    )
    for name, theirs in reference.STREAMED.items():
        found = topology.streamed(topology.STREAMS[name], min(runs, 2))
        row = _beside(name, found, theirs, reference.TARGET_STREAMED)
        section.table.append(row | {"lie in": _slashed(found.used)})
    return section


def _preemptions(runs: int) -> Section:
    section = Section(
        "T4",
        f"who stops for one HIGH gang on a full cluster, against {reference.NAME}, all in ms; lies in: hosts/racks/blocks",
    )
    for name, theirs in reference.PREEMPTED.items():
        found = topology.preempt(topology.BLOCKED[name], runs)
        row = _beside(name, found, theirs.ms, theirs.target)
        section.table.append(row | {"gangs stop": found.many, "lies in": _slashed(found.used)})
    return section


def _fewer_pods(runs: int) -> Section:
    section = Section("T5", f"a cycle that admits fewer pods, in one rack, against {reference.NAME}, all in ms")
    found = topology.fewer(runs)
    row = _beside("512 pods, at least 1", found, reference.FEWER_PODS, reference.TARGET_FEWER_PODS)
    section.table.append(row | {"pods": found.many, "lie in": _slashed(found.used)})
    return section


def _beside(name: str, found: topology.Measured, theirs: float, part: int) -> dict[str, Cell]:
    best = _ms(found.times.least)
    return {
        "scenario": name,
        "reference": theirs,
        "min": best,
        "median": _ms(found.times.median),
        "times faster": theirs / best,
        "target": f"1/{part}",
        "is": _verdict(best * part <= theirs),
        "normalised": _ms(found.times.normalised),
        "cold": _ms(found.cold),
    }


def _slashed(counts: Sequence[float]) -> str:
    return "/".join(map(str, counts))


def _whys(runs: int) -> Section:
    section = Section("why", "why a gang waits that no rack can hold, on 10,000 busy nodes; ms")
    for before in topology.WAITING:
        found = topology.explain(before, runs)
        middle = _ms(found.times.median)
        row: dict[str, Cell] = {"waiting before it": before, "median": middle, "min": _ms(found.times.least)}
        row |= {"normalised": _ms(found.times.normalised), "cold": _ms(found.cold), "target": reference.WHY_TARGET}
        row["is"] = _verdict(middle <= reference.WHY_TARGET)
        section.table.append(row | {f"aim {reference.WHY_AIM:g}": "met" if middle <= reference.WHY_AIM else "not yet"})
    return section


def _ms(seconds: float) -> float:
    return seconds * 1000


SECTIONS: Mapping[str, Callable[[int], Section]] = {
    "split": _split,
    "pools": _growth("pools", "admitting four gangs per pool", growth.pools),
    "depth": _growth("depth", "admitting 4,000 gangs in 1,000 pools below chains of cohorts", growth.depths),
    "queue": _growth("queue", "one cycle over 1,000 full pools with so many gangs waiting", growth.queues),
    "T1": _places,
    "T3": _streams,
    "T4": _preemptions,
    "T5": _fewer_pods,
    "why": _whys,
    "waiting": lambda runs: Section("waiting", ABOUT_WAITING, list(waiting_rows(runs))),
    "topology_growth": _growth(
        "topology_growth",
        "a place for 512 pods, fewer pods in a rack, and why, by the number of nodes",
        topology.growth,
    ),
    "latency": _latency,
    "store_submit": _store_submit,
    "submits": lambda runs: Section("submits", submits.ABOUT, submits.rows(min(runs, 3))),
    "store_commit": _store_commit,
    "store_pool_list": _store_pool_list,
    "edits": lambda runs: Section("edits", edits.ABOUT, edits.rows(runs)),
    "parts": lambda _runs: Section("parts", parts.ABOUT, parts.rows()),
    "questions": lambda runs: Section("questions", questions.ABOUT, questions.table(runs)),
    "start": lambda runs: Section("start", questions.ABOUT_START, questions.starting(runs)),
}
NAMES = (*decisions.SCENARIOS, *kueue.SCENARIOS, *REPLAYS, *SECTIONS)
LONG: tuple[str, ...] = (
    "waiting",
    "store_submit",
    "submits",
    "store_commit",
    "store_pool_list",
    "parts",
    "questions",
    "start",
)
"""Only run by name."""
DEFAULT = tuple(name for name in NAMES if name not in LONG)
