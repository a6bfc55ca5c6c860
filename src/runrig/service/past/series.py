"""How much was held, and how much was asked for, over time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

from runrig.domain.plan import DropNode, Preempt, PutNode
from runrig.domain.records import Event
from runrig.engine.state.changed_rows import gang_row
from runrig.engine.state.state import State
from runrig.ports.past import Checkpoint, PastStore, Standing
from runrig.service.past.keeper import held_and_asked
from runrig.service.past.standing import loaded_of

EXACT = 2_000
"""Decisions up to which each counts; of more only checkpoints are told."""

Point = tuple[float, int, int, int]
"""Time, GPUs of HIGH and NORMAL, of LOW, asked by what waits."""


@dataclass(frozen=True, slots=True)
class Series:
    """*preempted*: (time, gangs)."""

    points: tuple[Point, ...]
    preempted: tuple[tuple[float, int], ...]


def series(store: PastStore, begin: float, end: float, points: int) -> Series:
    """From the last checkpoint before *begin* on."""
    known = store.checkpoints()
    before = [each for each in known if each.time <= begin]
    inside = [*before[-1:], *(each for each in known if begin < each.time <= end)] or list(known[:1])
    if not inside:
        return Series((), ())
    grown = store.growth(inside[0].revision)
    if grown is None or grown.decisions <= EXACT:
        return _exact(store, inside[0], end, points)
    last = grown if grown.time <= end else None
    found = [_point(each) for each in inside]
    if last is not None and (tail := store.base(last.revision)) is not None:
        found += (point for point, _ in _folded(store, tail, last.revision, 1))
    preempted = [(each.time, each.preempted) for each in inside[1:] if each.preempted]
    return Series(_thinned(found, points), tuple(preempted))


def _point(each: Checkpoint) -> Point:
    return each.time, each.firm, each.low, each.waiting


def _exact(store: PastStore, first: Checkpoint, end: float, points: int) -> Series:
    base, last = store.base(first.revision), store.at_time(end)
    assert base is not None, "it was there just now"
    if last is None or last.revision <= base.revision:
        return Series((_point(first),), ())
    found = list(_folded(store, base, last.revision, points))
    preempted = tuple((time, gangs) for (time, *_), gangs in found if gangs)
    return Series((_point(first), *(point for point, _ in found)), preempted)


def _folded(store: PastStore, base: Standing, upto: int, points: int) -> Iterator[tuple[Point, int]]:
    """Yields *points* or fewer of what followed *base*, each with the gangs that were preempted since the one before."""
    loaded = replace(loaded_of(base), nodes=())
    state = State.load(loaded, place=False)
    revisions = [list(same) for _, same in groupby(store.steps(after=base.revision, upto=upto), attrgetter("revision"))]
    each = -(-len(revisions) // points) or 1
    for at in range(0, len(revisions), each):
        part = [event for revision in revisions[at : at + each] for event in revision]
        yield _after(state, part)


def _after(state: State, events: Sequence[Event]) -> tuple[Point, int]:
    for event in events:
        if not isinstance(event.action, PutNode | DropNode):  # it has none
            state.apply(event.action, event.time)
    gangs = map(gang_row, state.ledger.entries.values())
    firm, low, waiting = held_and_asked(gangs)
    return (events[-1].time, firm, low, waiting), sum(isinstance(event.action, Preempt) for event in events)


def _thinned(found: Sequence[Point], points: int) -> tuple[Point, ...]:
    each = -(-len(found) // points) or 1
    return (*found[:-1][::each], *found[-1:])
