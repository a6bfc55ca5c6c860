"""From where usage can be folded: the first event, a checkpoint, or now."""

from collections.abc import Mapping, Sequence

from runrig.domain.plan import Queue
from runrig.domain.records import Event, Loaded
from runrig.domain.usage import UNKNOWN, Folded, microseconds, nothing_folded
from runrig.ports.past import ClusterAt, Waiting
from runrig.ports.store import Store


def first(store: Store) -> Folded | None:
    """From where usage can be known: the first event, or the first checkpoint, or now. None if nothing ever happened."""
    if store.usage.log_is_whole():
        events = store.usage.steps(0, 1)
        return nothing_folded(microseconds(events[0].time)) if events else None
    checkpoint = store.past.first_checkpoint()
    base = None if checkpoint is None else store.past.base(checkpoint.revision)
    return present(store) if base is None else _folded(store, base)


def present(store: Store) -> Folded | None:
    now = store.past.now()
    if now is None:
        return None
    return _folded(store, ClusterAt(now.revision, now.time, now.declared, now.gangs, Waiting(now.queued, {})))


def submitters(store: Store, events: Sequence[Event]) -> Mapping[str, str]:
    """User by workflow, of all gangs that *events* queue."""
    queued = {each.action.gang.workflow for each in events if isinstance(each.action, Queue)}
    return store.usage.submitters(queued) if queued else {}


def _folded(store: Store, base: ClusterAt) -> Folded:
    declared, rows = base.declared, tuple(base.rows())
    of = store.usage.submitters({row.gang.workflow for row in rows})
    cluster = Loaded(base.revision, declared.flavors, declared.nodes, declared.cohorts, declared.pools, gangs=rows)
    users = {row.gang.id: of.get(row.gang.workflow, UNKNOWN) for row in rows}
    return Folded(cluster, microseconds(base.time), users, {}, {})
