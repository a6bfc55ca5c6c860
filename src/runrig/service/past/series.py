"""Usage and demand over time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

from runrig.domain.gangs import Gang
from runrig.domain.plan import DropNode, Preempt, PutNode, Queue, Release, Unqueue
from runrig.domain.records import Event
from runrig.domain.subjects import workflow_of
from runrig.engine.ledger.queue import asked
from runrig.engine.state.state import State
from runrig.ports.past import Checkpoint, PastStore, Waiting
from runrig.service.past.keeper import held
from runrig.service.past.standing import Stood

EXACT = 2_000
"""Maximum number of decisions that are all evaluated; beyond it only checkpoints are."""

_OF_NODES = (PutNode, DropNode)
Point = tuple[float, int, int, int]
"""Time, GPUs of HIGH and NORMAL, of LOW, requested by pending gangs."""


@dataclass(frozen=True, slots=True)
class Series:
    """*preempted*: (time, gangs)."""

    points: tuple[Point, ...]
    preempted: tuple[tuple[float, int], ...]


def series(store: PastStore, begin: float, end: float, points: int) -> Series:
    """Starts at the last checkpoint before *begin*."""
    known = store.checkpoints()
    before = [each for each in known if each.time <= begin]
    inside = [*before[-1:], *(each for each in known if begin < each.time <= end)] or list(known[:1])
    if not inside:
        return Series((), ())
    last = store.at_time(end)
    grown = None if last is None else store.growth(inside[0].revision, last.revision)
    if grown is None:
        return Series((_point(inside[0]),), ())
    exact = grown.decisions <= EXACT
    whole = inside[:1] if exact else inside
    found = list(_folded(store, whole[-1], grown.revision, points if exact else 1))
    shown = [*map(_point, whole), *(point for point, _ in found)]
    taken = [(each.time, each.preempted) for each in whole[1:]] + [(time, gangs) for (time, *_), gangs in found]
    return Series(tuple(shown) if exact else _thinned(shown, points), tuple(each for each in taken if each[1]))


def _point(each: Checkpoint) -> Point:
    return each.time, each.firm, each.low, each.waiting


def _folded(store: PastStore, first: Checkpoint, upto: int, points: int) -> Iterator[tuple[Point, int]]:
    """Yields up to *points* points after *first*, each with the gangs preempted since the previous one.

    The state has no nodes, and only those pending gangs that a decision concerns; the others were counted before.
    """
    base = store.base(first.revision, waiting=False)
    if base is None:  # It is damaged.
        return
    steps = [event for event in store.steps(after=base.revision, upto=upto) if not isinstance(event.action, _OF_NODES)]
    concerned = sorted({id for event in steps if (id := workflow_of(event.action)) is not None})
    waiting = _queued(store.queues(concerned, base.revision))
    stood = Stood(replace(base, declared=replace(base.declared, nodes=()), waiting=waiting), place=False)
    others = first.waiting - _asked(stood.state)
    revisions = [list(same) for _, same in groupby(steps, attrgetter("revision"))]
    each = -(-len(revisions) // points) or 1
    for at in range(0, len(revisions), each):
        part = [event for revision in revisions[at : at + each] for event in revision]
        stood.move(part, part[-1].revision)
        firm, low = held(stood.state.ledger.placed.values())
        preempted = sum(isinstance(event.action, Preempt) for event in part)
        yield (part[-1].time, firm, low, others + _asked(stood.state)), preempted


def _queued(events: Sequence[Event]) -> Waiting:
    """Returns the gangs that *events* queued and did not release."""
    found: dict[str, Gang] = {}
    for event in events:
        match event.action:
            case Queue(gang):
                found[gang.id] = gang
            case Release(id) | Unqueue(id):
                found.pop(id, None)
    return Waiting({id: (gang,) for id, gang in found.items()}, {})


def _asked(state: State) -> int:
    """Returns the GPUs that pending gangs request."""
    queues = (queue for rank in state.ledger.ranks.values() for queue in rank.by_pool.values())
    return sum(queue.gpus for queue in queues) + sum(asked(each.gang) for each in state.ledger.nominated.values())


def _thinned(found: Sequence[Point], points: int) -> tuple[Point, ...]:
    each = -(-len(found) // points) or 1
    return (*found[:-1][::each], *found[-1:])
