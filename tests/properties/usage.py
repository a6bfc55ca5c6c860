"""A second opinion on usage: integrates the numbers of a state moment by moment, each taken anew from rows and nodes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from runrig.domain.gangs import GangState
from runrig.domain.plan import Action, Decision, Declaration, Preempt, Queue, Refuse, Release, Stop
from runrig.domain.pools import Pool, PoolState
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.records import Event
from runrig.domain.usage import HOUR_S, MICROSECONDS, Hour, Key, microseconds, nothing_folded
from runrig.domain.workflows import Status, WorkflowSpec
from runrig.engine.quota import numbers
from runrig.engine.state.state import State
from runrig.engine.usage.fold import Fold

Logged = tuple[Action, float]
Table = dict[tuple[int, Key], int]
"""(hour, key) → GPU × microseconds."""

HOUR = HOUR_S * MICROSECONDS


def user_of(workflow: str) -> str:
    return f"user{len(workflow) % 2}{workflow[-3:]}"


def events_of(log: Iterable[Logged]) -> list[Event]:
    """What a fold reads: one revision for each time."""
    found = []
    for revision, (time, logged) in enumerate(groupby(log, key=lambda each: each[1]), 1):
        steps = [action for action, _ in logged if isinstance(action, Decision | Declaration)]
        found += [Event(revision, seq, time, "runrig", action) for seq, action in enumerate(steps)]
    return found


def folded(events: Sequence[Event], end: float, cuts: Iterable[int] = ()) -> Table:
    """Folds *events*, and goes on from the stored form at each of *cuts*."""
    fold = Fold(nothing_folded(microseconds(events[0].time)))
    begin, hours = 0, list[Hour]()
    for cut in (*sorted(cuts), len(events)):
        part = events[begin:cut]
        gangs = [each.action.gang.workflow for each in part if isinstance(each.action, Queue)]
        hours += fold.apply(part, {workflow: user_of(workflow) for workflow in gangs})
        fold, begin = Fold(fold.folded()), cut
    hours += fold.until(microseconds(end))
    assert len({hour.begin for hour in hours}) == len(hours), "an hour was closed twice"
    return {(hour.begin, key): amount for hour in hours for key, amount in hour.sums.items()}


def integrated(log: Sequence[Logged], specs: dict[str, WorkflowSpec], end: float) -> Table:
    """The same from the state at each moment."""
    state, table = State(), defaultdict[tuple[int, Key], int](int)
    state.specs = dict(specs)
    losses = Losses(state, table)
    moments = [(time, [action for action, _ in logged]) for time, logged in groupby(log, key=lambda each: each[1])]
    for (time, actions), until in zip(moments, [*(time for time, _ in moments[1:]), end], strict=True):
        for action in actions:
            losses.note(action, time)
            state.apply(action, time)
        state.take_changes()
        if until > time:
            _add(table, values(state), microseconds(time), microseconds(until))
    return {key: amount for key, amount in table.items() if amount}


def _add(table: Table, now: dict[Key, int], since: int, until: int) -> None:
    while since < until:
        end = min(until, since - since % HOUR + HOUR)
        for key, value in now.items():
            table[since // HOUR * HOUR_S, key] += value * (end - since)
        since = end


class Losses:
    """What attempts held that ended by the cluster, not by their user: the first cause counts."""

    def __init__(self, state: State, table: Table) -> None:
        self._state, self._table = state, table
        self._why: dict[str, str] = {}

    def note(self, action: Action, time: float) -> None:
        match action:
            case Preempt(gang) | Refuse(gang, _, Status.FAILED_PREEMPTED):
                self._why.setdefault(gang, "lost_preempted")
            case Refuse(gang) | Stop(gang, Status.FAILED_EVICTED | Status.FAILED_BACKEND_ERROR):
                self._why.setdefault(gang, "lost_other")
            case Stop(gang):
                self._why.setdefault(gang, "")
            case Release(gang):
                entry, why = self._state.ledger.entries[gang], self._why.pop(gang, "")
                for flavor, gpus in _held(self._state, gang) if why else ():
                    key = (
                        "work",
                        entry.gang.pool,
                        flavor,
                        entry.gang.priority.value,
                        user_of(entry.gang.workflow),
                        why,
                    )
                    lasted = microseconds(time) - microseconds(entry.admitted_at or 0)
                    self._table[int(time) // HOUR_S * HOUR_S, key] += gpus * lasted


def values(state: State) -> dict[Key, int]:
    """Every number at this moment."""
    found: Counter[Key] = Counter()
    asked: Counter[str] = Counter()
    for id, entry in state.ledger.entries.items():
        gang = entry.gang
        for flavor, gpus in _held(state, id):
            found["work", gang.pool, flavor, gang.priority.value, user_of(gang.workflow), "held"] += gpus
        if entry.state in (GangState.PENDING, GangState.NOMINATED):
            for pod_set in gang.pod_sets:
                gpus = pod_set.count * dict(pod_set.requests).get(GPU, 0)
                pool = state.pools[gang.pool]
                can = [pod_set.platform] if pod_set.platform else list(pool.flavors or state.flavors)
                flavor = can[0] if len(can) == 1 else "any"
                found["work", gang.pool, flavor, gang.priority.value, user_of(gang.workflow), "waited"] += gpus
                asked.update(dict.fromkeys(can, gpus))
    found.update(_of_pools(state))
    found.update(_of_flavors(state, asked))
    return dict(found)


def _held(state: State, gang: str) -> Iterator[tuple[str, int]]:
    entry = state.ledger.entries[gang]
    if entry.state in (GangState.ADMITTED, GangState.STOPPING):
        for pod_set, each in zip(entry.gang.pod_sets, entry.placement, strict=True):
            yield each.flavor, each.count * dict(pod_set.requests).get(GPU, 0)


def _of_pools(state: State) -> dict[Key, int]:
    """From a ledger that is loaded anew, each number by itself."""
    tree = State.load(state.rows()).ledger.tree
    found: dict[Key, int] = {}
    for name, firm in tree.firm.items():
        own = firm.parent
        assert own is not None
        for index in tree.gpus:
            flavor = tree.keys[index].flavor
            below = sum(_quota(each, flavor) for each in state.pools.values() if each.parent == name)
            found["quota", name, flavor, "quota"] = max(0, _quota(state.pools[name], flavor) - below)
            found["quota", name, flavor, "drawn"] = own.drawn(index)
            found["quota", name, flavor, "borrowed"] = numbers.borrowed(own, index)
            found["quota", name, flavor, "lent"] = numbers.lent(own, index)
    for name, pool in tree.pools.items():
        inside = [name, *(each.name for each in pool.children if each.pool is not None)]
        for index in tree.gpus if len(inside) > 1 else ():
            flavor = tree.keys[index].flavor
            found["tree", name, flavor, "quota"] = sum(found["quota", each, flavor, "quota"] for each in inside)
            found["tree", name, flavor, "drawn"] = pool.drawn(index)
            found["tree", name, flavor, "borrowed"] = numbers.borrowed(pool, index)
            found["tree", name, flavor, "lent"] = numbers.lent(pool, index)
    return found


def _quota(pool: Pool, flavor: str) -> int:
    quota = pool.quotas.get(FlavorResource(flavor, GPU))
    return 0 if quota is None or pool.state is PoolState.ARCHIVED else quota.nominal


def _of_flavors(state: State, asked: Counter[str]) -> dict[Key, int]:
    used: Counter[str] = Counter()
    for id, entry in state.ledger.entries.items():
        if [*_held(state, id)]:
            for pod_set, each in zip(entry.gang.pod_sets, entry.placement, strict=True):
                for share in each.shares:
                    used[share.node] += share.count * dict(pod_set.requests).get(GPU, 0)
    found: Counter[Key] = Counter()
    free: Counter[str] = Counter()
    for name, node in state.nodes.items():
        gpus = node.resources.get(GPU, 0)
        found["flavor", node.flavor, "capacity"] += gpus
        if node.open:
            free[node.flavor] += max(0, gpus - used[name])
        else:
            found["flavor", node.flavor, "down"] += max(0, gpus - used[name])
    for flavor, gpus in free.items():
        found["flavor", flavor, "free"] = gpus
        found["flavor", flavor, "idle_asked"] = min(gpus, asked[flavor])
    return found
