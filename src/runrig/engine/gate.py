"""The gate: what can never run is refused at submission, with the number that it breaks (law P3).

Everything else is accepted and may wait.  The check is against the pool's promise and the whole cluster, never against what
is in use now.
"""

from runrig.domain.errors import NotFound, Refused
from runrig.domain.gangs import Gang, Placement, Priority
from runrig.domain.plan import Action, Plan, Queue, Submit
from runrig.domain.pools import Pool, PoolState
from runrig.domain.quantities import format_quantity
from runrig.domain.workflows import Group, GroupSpec, TaskSpec, Workflow, WorkflowSpec
from runrig.engine.balance import potential
from runrig.engine.flavors import choices, wanted
from runrig.engine.ledger import Entry
from runrig.engine.partial import least_counts
from runrig.engine.placement import most_pods, place
from runrig.engine.room import EMPTY
from runrig.engine.state import State, gang_of


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
        known = (
            ", ".join(sorted(each.name for each in state.pools.values() if each.state is PoolState.ACTIVE))
            or "none yet"
        )
        raise NotFound(f"no pool {name!r}: there are {known}")
    if pool.state is not PoolState.ACTIVE:
        raise Refused(f"pool {name} is {pool.state.value} and takes no submissions: choose another pool", law="P3")
    return pool


def _check(state: State, pool: Pool, group: GroupSpec, gang: Gang) -> None:
    for task in group.tasks:
        _check_flavors(state, pool, task)
    entry = Entry(gang)
    within = [
        choice
        for choice in choices(state.ledger, entry, least_counts(gang.pod_sets))
        if not _breaks(state, entry, choice)
    ]
    if not within:
        first = next(choices(state.ledger, entry, least_counts(gang.pod_sets)))
        raise _over_promise(state, entry, first)
    if state.fixed_nodes and state.ledger.place and not any(_may_hold(state, entry, choice) for choice in within):
        raise _over_nodes(state, entry, within[0])


def _check_flavors(state: State, pool: Pool, task: TaskSpec) -> None:
    allowed = pool.flavors or tuple(state.flavors)
    if task.platform is not None and task.platform not in allowed:
        raise Refused(
            f"task {task.name} asks for platform {task.platform!r}, and pool {pool.name} has {', '.join(allowed)}: name one of these",
            law="P3",
        )
    platform = task.platform or pool.default_platform
    chosen = [platform] if platform else list(allowed)
    for asked in task.allow:
        if not all(asked in state.flavors[name].allow for name in chosen):
            raise Refused(
                f"task {task.name} asks for {asked}, which platform {chosen[0]} does not allow: leave it out, or ask your "
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
    kind = "unallocated" if leaf.capping else "as its quota"
    way_out = "ask for less, or submit with priority LOW"
    return Refused(f"{start}; pool {leaf.name} has {limit} {kind}: {way_out}", "P3", details)


def _may_hold(state: State, entry: Entry, choice: Placement) -> bool:
    """An empty cluster would hold it, or it is not proven that none would: that is no ground to refuse."""
    layout = place(state.ledger.room, wanted(entry, choice), (EMPTY,))
    return layout.shares is not None or not layout.proven


def _over_nodes(state: State, entry: Entry, choice: Placement) -> Refused:
    """Names the pod set that has the least of its pods placed, or says that they fit one by one and not together."""
    asks = wanted(entry, choice)
    fitting = [most_pods(state.ledger.room, each, (EMPTY,)) for each in asks]
    worst = min(range(len(asks)), key=lambda at: (fitting[at] - asks[at].pods, at))
    each, most = choice[worst], fitting[worst]
    shape = ", ".join(f"{resource} {format_quantity(resource, amount)}" for resource, amount in asks[worst].requests)
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
