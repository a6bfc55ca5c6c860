"""Tables compared with the peer: decisions, imported queues, replays."""

from collections.abc import Callable, Iterator, Sequence

from bench import decisions, kueue, reference
from bench.replay import REPLAYS, Outcome
from bench.section import Cell, Rows, Section, ms, verdict
from bench.timing import Times, timed


def compared(names: Sequence[str], runs: int) -> Section:
    """runrig's own decisions, and queues as Kueue declares them."""
    section = Section(
        "decisions", f"against {reference.NAME}, all in ms; target: the part of its time that is taken at most"
    )
    for name in names:
        measure, theirs, part = _beside(name)
        times = timed(measure, runs)
        best = ms(times.least)
        row: dict[str, Cell] = {"scenario": name, "reference": theirs, "min": best, "median": ms(times.median)}
        row |= {"times faster": theirs / best, "target": f"1/{part}", "is": verdict(best * part <= theirs)}
        section.table.append(row | {"normalised": ms(times.normalised)})
    return section


def _beside(name: str) -> tuple[Callable[[], float], float, int]:
    """(what is measured, ms of the reference, the allowed part of them)."""
    if name in decisions.SCENARIOS:
        return decisions.SCENARIOS[name], reference.MILLISECONDS[name], reference.TARGET
    part = reference.TARGET_FAIR if name.endswith("_fair") else reference.TARGET_IMPORTED
    return kueue.SCENARIOS[name], reference.IMPORTED[name], part


def replayed(names: Sequence[str]) -> Iterator[Section]:
    """Each runs once, because its time is a sum over many cycles."""
    times = Section(
        "replays",
        f"in virtual time, against {reference.NAME}; seconds of deciding, target: at most 1/{reference.TARGET}; "
        "around: arrivals, ends and requeues",
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
                "is": verdict(run.least * reference.TARGET <= theirs.seconds),
                "normalised s": run.normalised,
                "slowest cycle ms": ms(outcome.slowest),
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
        _figure(name, what, mine, its, "" if its is None else verdict(mine <= its))
        for what, mine, its in [makespan, *waits]
    ]
    return targets + [_figure(name, what, mine, its, "") for what, mine, its in counts]


def _figure(name: str, what: str, mine: int, its: int | None, verdict: str) -> dict[str, Cell]:
    return {"replay": name, "figure": what, "reference": "-" if its is None else its, "here": mine, "is": verdict}
