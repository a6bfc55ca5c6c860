"""The dials: what can be changed so that a waiting gang may start, each with its values, those nearest to the current one
first.

And what the changes mean: the edits that `OnTrial` applies. Does not change the ledger.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from runrig.domain.changes import (
    AnyFlavor,
    BestEffort,
    Change,
    Coarser,
    DrainDone,
    Ended,
    FewerGpus,
    FewerPods,
    MoreBorrowing,
    MoreGpusOfUser,
    MoreLending,
    MoreNominal,
    MoreQuota,
    MoveToPool,
    NodeBack,
    NoTopology,
    Prefer,
    Reprioritise,
    TakeFlavor,
    Who,
)
from runrig.domain.gangs import Gang, PodSet, Priority, Requirement
from runrig.domain.nodes import REPELLING_EFFECTS, Node
from runrig.domain.plan import Decision, PutCohort, PutLimits, PutNode, PutPool, Queue, Release
from runrig.domain.pools import HOSTNAME, Cohort, Pool, PoolState, Queueing, Quota, family
from runrig.domain.quantities import GPU, LARGEST, FlavorResource, gpus_in
from runrig.engine.foresight.on_trial import TrialEdit
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import flavors_of, options
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.topology import Ints
from runrig.engine.quota.quota_node import CHARGED, NodeKind, QuotaNode

GangsOf = Callable[[str], Iterable[str]]
"""The ids of the gangs of a workflow; some may have ended."""


class Dial(NamedTuple):
    """*size*: number of values.

    *at*: the value with this number. *gentle*: each value adds at most one unit of quota to the previous one.
    """

    who: Who
    name: str
    size: int
    at: Callable[[int], Change]
    gentle: bool = False


@dataclass(frozen=True, slots=True)
class Reach:
    """The dials that a user may change. *pools*: those that they may submit to.

    *most_s*: workflow → its run time limit in seconds; None: unlimited. *accepts*: True if the gate would accept the gang (rule
    P3). *gangs_of* None: all gangs are searched. *makes*: True if the user may make this administrator's change.
    """

    pools: tuple[str, ...] = ()
    who: frozenset[Who] = frozenset(Who)
    most_s: Callable[[str], float | None] = lambda _: None
    accepts: Callable[[Gang], bool] = lambda _: True
    gangs_of: GangsOf | None = None
    makes: Callable[[Change], bool] = lambda _: True


def dials(ledger: Ledger, entry: Entry, reach: Reach) -> Iterator[Dial]:
    """Yields all dials that *reach* allows, in the order of who can change them."""
    if Who.OWNER in reach.who:
        yield from own_dials(ledger, entry, reach)
    if Who.ADMIN in reach.who:
        administrators = (*_user_dials(ledger, entry), *_quota_dials(ledger, entry), *_node_dials(ledger, entry))
        yield from (dial for dial in administrators if dial.size and reach.makes(dial.at(0)))
    if Who.WAIT in reach.who:
        yield _ended(ledger, entry, reach)
        yield from _drains(ledger, entry)


def _listed(who: Who, name: str, values: Sequence[Change]) -> Iterator[Dial]:
    if values:
        yield Dial(who, name, len(values), values.__getitem__)


# ---------------------------------------------------------------- the owner's


def own_dials(ledger: Ledger, entry: Entry, reach: Reach) -> Iterator[Dial]:
    gang, pool = entry.gang, ledger.pools[entry.gang.pool]
    yield from _pods(gang)
    for pod_set in gang.pod_sets:
        yield from _gpus(pod_set)
        for requirement in pod_set.topology:
            yield from _topology(pool, pod_set, requirement)
        flavors = flavors_of(ledger, pool, replace(pod_set, platform=None)) if pool.default_platform is None else ()
        others: list[Change] = [
            TakeFlavor(pod_set.name, flavor) for flavor in pool.flavors or flavors if flavor != pod_set.platform
        ]
        anything = [AnyFlavor(pod_set.name)] if pod_set.platform is not None and len(flavors) > 1 else []
        yield from _listed(Who.OWNER, f"platform of {pod_set.name}", [*others, *anything])
    same = sorted(reach.pools, key=lambda name: (ledger.pools[name].flavors != pool.flavors, name))
    yield from _listed(Who.OWNER, "pool", [MoveToPool(name) for name in same if name != gang.pool])
    ranks = (Priority.LOW, Priority.NORMAL, Priority.HIGH)
    yield from _listed(Who.OWNER, "priority", [Reprioritise(each) for each in ranks if each is not gang.priority])


def _pods(gang: Gang) -> Iterator[Dial]:
    for pod_set in gang.pod_sets:
        name, count = pod_set.name, pod_set.count
        fewer = [FewerPods((name,), (count,), (after,)) for after in range(count - 1, 0, -1)]
        yield from _listed(Who.OWNER, f"pods of {name}", fewer)
    if len(gang.pod_sets) > 1:
        names = tuple(each.name for each in gang.pod_sets)
        before = tuple(each.count for each in gang.pod_sets)
        total = sum(count - 1 for count in before)
        sizes = dict.fromkeys(
            tuple(count - (count - 1) * step // total for count in before) for step in range(1, total + 1)
        )
        yield from _listed(Who.OWNER, "pods of all", [FewerPods(names, before, after) for after in sizes])


def _gpus(pod_set: PodSet) -> Iterator[Dial]:
    gpus = gpus_in(pod_set.requests)
    values = [FewerGpus(pod_set.name, gpus, after) for after in range(gpus - 1, 0, -1)]
    yield from _listed(Who.OWNER, f"GPUs per pod of {pod_set.name}", values)


def _topology(pool: Pool, pod_set: PodSet, requirement: Requirement) -> Iterator[Dial]:
    keys = [each.key for each in pool.topology_keys]
    name, key = pod_set.name, requirement.key
    taken = {each.key for each in pod_set.topology}
    coarser = reversed(keys[: keys.index(key)]) if key in keys else ()
    values: list[Change] = [Prefer(name, key)] if requirement.required else []
    values += [Coarser(name, key, other) for other in coarser if other not in taken] if requirement.required else []
    yield from _listed(Who.OWNER, f"{key} of {name}", [*values, NoTopology(name, key)])


# ---------------------------------------------------------------- limits of its user


def _user_dials(ledger: Ledger, entry: Entry) -> Iterator[Dial]:
    """Yields the limits that stop its smallest size; a value that is just enough, as no other is needed (rule W6)."""
    need, users = entry.bucket.least_gpus, ledger.users
    for (pool, user), limit in users.exceeded(ledger.pools[entry.gang.pool], entry.user, need):
        of, enough = f"pool {pool}" if pool else user, need + users.held[pool, user]
        yield from _listed(Who.ADMIN, f"limit of {of}", [MoreGpusOfUser(user, pool, limit, enough)])


# ---------------------------------------------------------------- quotas


def _asked(ledger: Ledger, entry: Entry) -> dict[int, int]:
    """Index → the most that the full gang requests, in any choice of flavors."""
    most: dict[int, int] = {}
    for _, request in options(ledger, entry, entry.bucket.counts, mixed=True):
        for index, amount in request:
            most[index] = max(amount, most.get(index, 0))
    return dict(sorted(most.items()))


def _quota_dials(ledger: Ledger, entry: Entry) -> Iterator[Dial]:
    pool, asked = ledger.pools[entry.gang.pool], _asked(ledger, entry)
    nodes = [node for node in ledger.leaf(entry).path if node.kind in (NodeKind.POOL, NodeKind.COHORT)]
    keys = ledger.tree.keys
    for node in nodes:
        for index, amount in asked.items():
            more = max(amount, amount + node.usage[CHARGED][index] - node.subtree[index])
            key, nominal, limit = str(keys[index]), node.nominal[index], node.borrowing[index]
            yield _ladder(MoreNominal, node, key, nominal, min(more, _unallocated(ledger, node, index)), endless=False)
            if limit is not None:
                yield _ladder(MoreBorrowing, node, key, limit, more, endless=True)
    for parent in nodes:
        for sibling in parent.children:
            if sibling not in nodes and sibling.kind in (NodeKind.POOL, NodeKind.COHORT):
                for index, amount in asked.items():
                    lends = sibling.lending[index]
                    if lends is not None:
                        yield _ladder(MoreLending, sibling, str(keys[index]), lends, amount, endless=True)
    if pool.queueing is Queueing.STRICT_FIFO:
        yield from _listed(Who.ADMIN, "queue", [BestEffort(pool.parent or pool.name)])


def _unallocated(ledger: Ledger, node: QuotaNode, index: int) -> int:
    """The most that the quota of *node* can grow: a subpool can get what its parent has not given to others (rule S1)."""
    pool = ledger.pools[node.name] if node.kind is NodeKind.POOL else None
    if pool is None or pool.parent is None:
        return LARGEST
    key = ledger.tree.keys[index]
    given = sum(each.quotas.get(key, Quota()).nominal for each in ledger.pools.values() if each.parent == pool.parent)
    return max(0, ledger.pools[pool.parent].quotas.get(key, Quota()).nominal - given)


def _ladder(kind: type[MoreQuota], node: QuotaNode, key: str, before: int, more: int, *, endless: bool) -> Dial:
    """One unit more, two more, … *more*. *endless*: finally no limit at all."""
    name = f"{node.kind.value} {node.name}"

    def at(number: int) -> Change:
        return kind(name, key, before, None if number == more else before + number + 1)

    return Dial(Who.ADMIN, f"{kind.WHAT} of {name} ({key})", more + endless, at, gentle=True)


# ---------------------------------------------------------------- nodes, and others' work


def _node_dials(ledger: Ledger, entry: Entry) -> Iterator[Dial]:
    """Nodes that accept no pods; one of each kind of equivalent nodes."""
    flavors = {each.flavor for choice, _ in options(ledger, entry, entry.bucket.counts, mixed=True) for each in choice}
    alike: dict[object, NodeBack] = {}
    labels = tuple(key.label for key in ledger.pools[entry.gang.pool].topology_keys)
    for room in sorted(ledger.nodes.closed(labels), key=lambda room: room.node.name):
        node = room.node
        if node.flavor in flavors:
            shown = tuple(sorted((key, value) for key, value in node.labels.items() if key != HOSTNAME))
            free = tuple(tuple(sorted(view.items())) for view in room.free[:2])
            alike.setdefault((node.flavor, shown, free, tuple(sorted(node.resources.items()))), NodeBack(node.name))
    yield from _listed(Who.ADMIN, "nodes", list(alike.values()))


def back(node: Node) -> Node:
    """*node*, ready, not cordoned, and without taints that repel pods."""
    taints = tuple(each for each in node.taints if each.effect not in REPELLING_EFFECTS)
    return replace(node, ready=True, cordoned=False, taints=taints)


def _ended(ledger: Ledger, entry: Entry, reach: Reach) -> Dial:
    """Each workflow that runs or stops, earliest latest end first; those without a limit in the order in which they started."""
    names, order = ledger.holdings.names, holders(ledger, entry, reach)
    return Dial(Who.WAIT, "work that ends", len(order), lambda number: Ended((names[order[number]],)))


def holders(ledger: Ledger, entry: Entry, reach: Reach) -> Ints:
    """The workflows of `work that ends`, as numbers of `Ledger.holdings`, in the order of the dial."""
    ledger.holdings.refresh(reach.most_s)
    return ledger.holdings.workflows(without=entry.gang.workflow)


def _drains(ledger: Ledger, entry: Entry) -> Iterator[Dial]:
    above = {node.name for node in ledger.leaf(entry).path if node.kind is NodeKind.POOL}
    draining = [
        DrainDone(pool.name)
        for pool in sorted(ledger.pools.values(), key=lambda pool: pool.name)
        if pool.state is PoolState.DELETING and pool.parent in above and pool.name not in above
    ]
    yield from _listed(Who.WAIT, "pools that drain", draining)


# ---------------------------------------------------------------- what a change means


def edits_of(
    ledger: Ledger, gang: Gang, changes: Sequence[Change], gangs_of: GangsOf | None = None
) -> list[Decision | TrialEdit]:
    """The actions that make *changes*. The owner's changes queue *gang* again with the same id and time. *gangs_of*: see `Reach`."""
    edits: list[Decision | TrialEdit] = []
    changed = gang
    for change in changes:
        match change:
            case MoreQuota():
                edits.append(_quota_edit(ledger, change))
            case MoreGpusOfUser(user, "", _, after):
                declared = ledger.users.limits_of(user)
                edits.append(PutLimits(replace(declared, gpus=after), declared))
            case MoreGpusOfUser(_, name, _, after):
                edits += [PutPool(replace(pool, user_gpus=after)) for pool in family(ledger.pools, name)]
            case BestEffort(name):
                live = (pool for pool in family(ledger.pools, name) if pool.state is not PoolState.ARCHIVED)
                edits += [PutPool(replace(pool, queueing=Queueing.BEST_EFFORT_FIFO)) for pool in live]
            case NodeBack(name):
                edits.append(PutNode(back(ledger.nodes.by_name[name].node)))
            case Ended(workflows):
                if gangs_of is None:
                    there = [name for name, each in ledger.entries.items() if each.gang.workflow in workflows]
                else:
                    there = [name for workflow in workflows for name in gangs_of(workflow) if name in ledger.entries]
                edits += map(Release, sorted(there))
            case DrainDone(name):
                there = sorted(each.gang.id for each in ledger.entries.values() if each.gang.pool == name)
                edits += [*map(Release, there), PutPool(replace(ledger.pools[name], state=PoolState.ARCHIVED))]
            case _:
                changed = changed_gang(changed, change)
    return edits if changed is gang else [Release(gang.id), Queue(changed), *edits]


def _quota_edit(ledger: Ledger, change: MoreQuota) -> PutPool | PutCohort:
    kind, _, name = change.node.partition(" ")
    declared: Pool | Cohort = ledger.pools[name] if kind == "pool" else ledger.cohorts.get(name, Cohort(name))
    flavor, _, resource = change.key.partition("/")
    key = FlavorResource(flavor, resource)
    part: dict[str, Any] = {change.PART: change.after}
    quotas = {**declared.quotas, key: replace(declared.quotas.get(key, Quota()), **part)}
    if isinstance(declared, Pool):
        return PutPool(replace(declared, quotas=quotas))
    return PutCohort(replace(declared, quotas=quotas))


def changed_gang(gang: Gang, change: Change) -> Gang:
    """*gang* after a change by its owner."""
    match change:
        case MoveToPool(pool):
            return replace(gang, pool=pool)
        case Reprioritise(priority):
            return replace(gang, priority=priority)
        case FewerPods(names, _, after):
            counts = dict(zip(names, after, strict=True))
            return replace(gang, pod_sets=tuple(_with_pods(each, counts.get(each.name)) for each in gang.pod_sets))
        case FewerGpus() | Prefer() | Coarser() | NoTopology() | TakeFlavor() | AnyFlavor():
            return replace(
                gang,
                pod_sets=tuple(
                    _changed(each, change) if each.name == change.pod_set else each for each in gang.pod_sets
                ),
            )
    raise AssertionError(f"{change} is not the owner's")


def _with_pods(pod_set: PodSet, count: int | None) -> PodSet:
    if count is None:
        return pod_set
    least = pod_set.min_count
    return replace(pod_set, count=count, min_count=least if least is not None and least < count else None)


def _changed(pod_set: PodSet, change: FewerGpus | Prefer | Coarser | NoTopology | TakeFlavor | AnyFlavor) -> PodSet:
    match change:
        case FewerGpus():
            requests = tuple((name, change.after if name == GPU else amount) for name, amount in pod_set.requests)
            return replace(pod_set, requests=requests)
        case TakeFlavor():
            return replace(pod_set, platform=change.flavor)
        case AnyFlavor():
            return replace(pod_set, platform=None)
    topology = []
    for each in pod_set.topology:
        if each.key != change.key:
            topology.append(each)
        elif isinstance(change, Prefer):
            topology.append(replace(each, required=False))
        elif isinstance(change, Coarser):
            topology.append(replace(each, key=change.instead))
    return replace(pod_set, topology=tuple(topology))
