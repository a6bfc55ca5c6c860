"""The gate: what can never run is refused at submission, with the number that it breaks (law P3).

Everything else is accepted and may wait.  The check is against the pool's promise and the whole cluster, never against what
is in use now.
"""

from collections.abc import Sequence

from runrig.domain.errors import NotFound, Refused
from runrig.domain.gangs import Gang, Placement, Priority
from runrig.domain.plan import Action, Plan, Queue, Submit
from runrig.domain.pools import SUBPOOL_DELIMITER, Pool, PoolState
from runrig.domain.quantities import PODS, format_quantity
from runrig.domain.reasons import Code
from runrig.domain.workflows import Group, GroupSpec, TaskSpec, Workflow, WorkflowSpec
from runrig.engine.explain.why import no_place
from runrig.engine.ledger.options import choices_left_out, flavor_choices, pod_requests
from runrig.engine.ledger.queue import Entry
from runrig.engine.ledger.rows import gang_of
from runrig.engine.lifecycle.subpools import MOST_NAMED
from runrig.engine.nodes.node_capacity import EMPTY
from runrig.engine.placement.constraint_tree import check_requirements
from runrig.engine.placement.partial import least_counts
from runrig.engine.placement.place import place, pods_that_fit
from runrig.engine.quota.quota_node import Kind, QuotaNode, potential
from runrig.engine.state.state import State


def submit(
    state: State,
    spec: WorkflowSpec,
    *,
    spec_hash: str,
    pool: str,
    priority: Priority,
    user: str,
    uuid: str,
    now: float,
    parent: str | None = None,
) -> Plan:
    """The workflow enters *pool*; its groups without anything before them are queued.

    The state must hold *spec* under *spec_hash* when the plan is applied.  *parent*: the workflow that this one restarts.
    Raises NotFound and Refused; nothing is changed then.
    """
    target = open_pool(state, pool)
    check_requirements(target, spec)
    number = state.numbers.get(spec.name, 0) + 1
    workflow = Workflow(
        id=f"{spec.name}-{number}",
        uuid=uuid,
        name=spec.name,
        number=number,
        pool=pool,
        priority=priority,
        submitted_by=user,
        submit_time=now,
        spec_hash=spec_hash,
        labels=spec.labels,
        parent=parent,
    )
    actions: list[Action] = [Submit(workflow, tuple(Group(workflow.id, group.name) for group in spec.groups))]
    for group in spec.groups:
        gang = gang_of(workflow, group)
        _check(state, target, group, gang)
        if not group.upstream:
            actions.append(Queue(gang))
    return Plan(tuple(actions))


def open_pool(state: State, name: str) -> Pool:
    """The pool, if it takes submissions.  Raises NotFound, and Refused while it is DELETING or ARCHIVED."""
    pool = state.pools.get(name)
    if pool is None:
        raise NotFound(_unknown(state, name))
    if pool.state is not PoolState.ACTIVE:
        siblings = [each for each in _active(state) if each.parent == pool.parent and each.parent is not None]
        others = f"one of {_named_pools(siblings)}" if siblings else "another pool"
        raise Refused(
            f"pool {name} is {pool.state.value} and takes no submissions: choose {others}",
            law="P3",
            details={"pool": name, "state": pool.state.value},
        )
    return pool


def _unknown(state: State, name: str) -> str:
    """With the names that there are; of a subpool those beside it."""
    parent, delimiter, short = name.partition(SUBPOOL_DELIMITER)
    if delimiter and (above := state.pools.get(parent)) is not None and above.state is PoolState.ACTIVE:
        siblings = [each for each in _active(state) if each.parent == parent]
        there = f"it has {_named_pools(siblings)}" if siblings else "it has none"
        return f"no pool {name!r}: {parent} has no subpool {short!r}, {there}"
    return f"no pool {name!r}: there are {_named_pools(_active(state)) or 'none yet'}"


def _active(state: State) -> list[Pool]:
    pools = [each for each in state.pools.values() if each.state is PoolState.ACTIVE]
    return sorted(pools, key=lambda each: each.name)


def _named_pools(pools: Sequence[Pool]) -> str:
    rest = len(pools) - MOST_NAMED
    return ", ".join(each.name for each in pools[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _check(state: State, pool: Pool, group: GroupSpec, gang: Gang) -> None:
    for task in group.tasks:
        check_flavors(state, pool, task)
    entry = Entry(gang)
    within = [
        choice
        for choice in flavor_choices(state.ledger, entry, least_counts(gang.pod_sets), mixed=True)
        if not _breaks(state, entry, choice)
    ]
    if not within:
        first = next(flavor_choices(state.ledger, entry, least_counts(gang.pod_sets)))
        raise _over_promise(state, entry, first)
    if not state.fixed_nodes or not state.ledger.place or choices_left_out(state.ledger, entry):
        return
    if not any(_may_hold(state, entry, choice) for choice in within):
        raise _over_nodes(state, entry, within[0])


def check_flavors(state: State, pool: Pool, task: TaskSpec) -> None:
    """Raises Refused for a platform that *pool* does not have, or that does not allow what *task* asks beyond the ordinary.

    Also where there is no flavor at all: nothing could ever run.
    """
    allowed = pool.flavors or tuple(state.flavors)
    if not allowed:
        raise Refused(
            f"task {task.name} has no kind of node to run on: no flavor is declared, so ask your administrator to declare one",
            law="P3",
        )
    if task.platform is not None and task.platform not in allowed:
        raise Refused(
            f"task {task.name} asks for platform {task.platform!r}, and pool {pool.name} has {', '.join(allowed)}: name one of these",
            law="P3",
        )
    platform = task.platform or pool.default_platform
    chosen = [platform] if platform else allowed
    for asked in task.allow:
        forbidding = next((name for name in chosen if asked not in state.flavors[name].allow), None)
        if forbidding is not None:
            raise Refused(
                f"task {task.name} asks for {asked}, which platform {forbidding} does not allow: leave it out, or ask your "
                f"administrator to add it to the flavor's `allow`",
                law="P3",
            )


def _breaks(state: State, entry: Entry, choice: Placement) -> tuple[int, int, int] | None:
    """(index, most that can ever be had, amount asked) of the first resource that can never be had; None if all can."""
    leaf = state.ledger.leaf(entry)
    for index, amount in state.ledger.request_of(entry, choice):
        most = leaf.subtree[index] if entry.bucket.firm else potential(leaf, index)
        if amount > most:
            return index, most, amount
    return None


def _over_promise(state: State, entry: Entry, choice: Placement) -> Refused:
    broken = _breaks(state, entry, choice)
    assert broken is not None, "some choice breaks the promise"
    index, most, amount = broken
    key = state.ledger.tree.keys[index]
    asked, limit = format_quantity(key.resource, amount), format_quantity(key.resource, max(0, most))
    leaf = state.ledger.leaf(entry)
    details = {"pool": entry.gang.pool, "resource": str(key), "asked": amount, "limit": most}
    start = f"{_named(entry)} asks {asked} of {key} in one gang"
    if not entry.bucket.firm:
        return Refused(
            f"{start}; pool {leaf.name} can never have more than {limit}, borrowing included: ask for less",
            "P3",
            details,
        )
    node = state.ledger.tree.pools[leaf.name]
    subpools = {each.name: each.nominal[index] for each in node.children if each.kind is Kind.POOL}
    if not subpools:
        way_out = "ask for less, or submit with priority LOW"
        return Refused(f"{start}; pool {leaf.name} has {limit} as its quota: {way_out}", "P3", details)
    quota, given = (format_quantity(key.resource, each) for each in (node.nominal[index], sum(subpools.values())))
    held = f"{len(subpools)} {'subpool holds' if len(subpools) == 1 else 'subpools hold'} {given} of its {quota}"
    return Refused(
        f"{start}; pool {leaf.name} has {limit} unallocated ({held}): ask for less, {_way_out(state, node, index, amount)}",
        "P3",
        details | {"quota": node.nominal[index], "unallocated": most, "subpools": subpools},
    )


def _way_out(state: State, parent: QuotaNode, index: int, amount: int) -> str:
    """LOW, or the subpool with the most of its quota left that may take as much."""
    firm = [
        state.ledger.tree.firm[each.name]
        for each in parent.children
        if each.kind is Kind.POOL and state.pools[each.name].state is PoolState.ACTIVE
    ]
    enough = [each for each in firm if each.nominal[index] >= amount]
    if not enough:
        return "or submit with priority LOW"
    best = min(enough, key=lambda each: (-each.balance(index), each.name))
    left = format_quantity(state.ledger.tree.keys[index].resource, max(0, best.balance(index)))
    return f"submit with priority LOW, or submit to {best.name}, which has {left} of its quota left"


def _may_hold(state: State, entry: Entry, choice: Placement) -> bool:
    """An empty cluster would hold it, or it is not proven that none would: that is no ground to refuse."""
    constraints = state.ledger.constraints(entry, tuple(each.count for each in choice))
    assert constraints is not None, "the keys have been checked"
    layout = place(state.ledger.nodes, pod_requests(entry, choice), (EMPTY,), constraints)
    return layout.shares is not None or not layout.proven


def _over_nodes(state: State, entry: Entry, choice: Placement) -> Refused:
    """Names the level that has no such domain, or the pod set that has the least of its pods placed, or says that they fit one by one."""
    reason = no_place(state.ledger, entry, choice, EMPTY)
    if reason.code in (Code.NO_DOMAIN_FITS, Code.NOT_ALL_GROUPS_FIT):
        return Refused(
            f"{_named(entry)} cannot be placed even on empty nodes of flavor {choice[0].flavor}: {reason}; ask for less per pod, for fewer "
            "pods, or for a coarser topology key",
            "P3",
            {"pool": entry.gang.pool, "topology_key": reason.where, "asked": reason.need, "limit": reason.have},
        )
    asks = pod_requests(entry, choice)
    fitting = [pods_that_fit(state.ledger.nodes, each, (EMPTY,)) for each in asks]
    worst = min(range(len(asks)), key=lambda at: (fitting[at] - asks[at].pods, at))
    each, most = choice[worst], fitting[worst]
    shape = ", ".join(
        f"{resource} {format_quantity(resource, amount)}"
        for resource, amount in asks[worst].requests
        if resource != PODS
    )
    pods = sum(ask.pods for ask in asks)
    found = (
        f"of {each.count} of {each.pod_set} ({shape}) {most} fit"
        if most < each.count
        else "each fits, but not all of them together"
    )
    return Refused(
        f"{_named(entry)} starts {pods} {'pod' if pods == 1 else 'pods'} at once, and the nodes of flavor {each.flavor}, even empty, "
        f"cannot hold them: {found}: ask for less per pod, or for fewer pods",
        "P3",
        {"pool": entry.gang.pool, "pod_set": each.pod_set, "asked": each.count, "limit": most},
    )


def _named(entry: Entry) -> str:
    """The group without the number that its workflow would have got."""
    workflow, _, group = entry.gang.id.partition("/")
    return f"{workflow.rpartition('-')[0]}/{group}"
