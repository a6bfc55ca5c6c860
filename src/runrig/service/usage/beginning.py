"""From where usage can be folded: the first event, a checkpoint, or now."""

from collections.abc import Mapping, Sequence

from runrig.domain.plan import Queue
from runrig.domain.records import Event, GangRow, Loaded
from runrig.domain.usage import UNKNOWN, Folded, microseconds, nothing_folded
from runrig.ports.past import ClusterAt, Declared
from runrig.ports.store import Store


def first(store: Store) -> Folded | None:
    """From where usage can be known: the first event, or the first checkpoint, or now. None if nothing ever happened."""
    if store.usage.log_is_whole():
        events = store.usage.steps(0, 1)
        return nothing_folded(microseconds(events[0].time)) if events else None
    checkpoint = store.past.first_checkpoint()
    base = None if checkpoint is None else store.past.base(checkpoint.revision)
    return present(store) if base is None else _of_checkpoint(store, base)


def present(store: Store) -> Folded | None:
    now = store.past.now()
    if now is None:
        return None
    gangs = {each.gang.id for each in now.gangs}
    queued = [gang for gangs_of in now.queued.values() for gang in gangs_of if gang.id not in gangs]
    rows = (*now.gangs, *(GangRow.waiting(gang) for gang in queued))
    return _folded(store, now.revision, now.time, now.declared, rows)


def submitters(store: Store, events: Sequence[Event]) -> Mapping[str, str]:
    """User by workflow, of all gangs that *events* queue."""
    queued = {each.action.gang.workflow for each in events if isinstance(each.action, Queue)}
    return store.usage.submitters(queued) if queued else {}


def _of_checkpoint(store: Store, base: ClusterAt) -> Folded:
    known = {row.gang.id for row in base.gangs}
    waiting = [GangRow.waiting(gang) for gang in base.waiting.gangs() if gang.id not in known]
    return _folded(store, base.revision, base.time, base.declared, (*base.gangs, *waiting))


def _folded(store: Store, revision: int, at: float, declared: Declared, rows: Sequence[GangRow]) -> Folded:
    of = store.usage.submitters({row.gang.workflow for row in rows})
    cluster = Loaded(revision, declared.flavors, declared.nodes, declared.cohorts, declared.pools, gangs=tuple(rows))
    return Folded(cluster, microseconds(at), {row.gang.id: of.get(row.gang.workflow, UNKNOWN) for row in rows}, {}, {})
