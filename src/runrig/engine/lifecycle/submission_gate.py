"""The submission gate: rejects workflows that can never run, and names the limit that they exceed (rule P3).

Everything else is accepted and may wait. The gate considers the pool's quota and the whole cluster, never current usage.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from runrig.domain.after import After
from runrig.domain.errors import NotFound, Refused
from runrig.domain.gangs import Gang, Placement, Priority
from runrig.domain.meant import suggested
from runrig.domain.plan import Action, Plan, Queue, Submit
from runrig.domain.pools import SUBPOOL_DELIMITER, Pool, PoolState
from runrig.domain.quantities import (
    PODS,
    amount_in_a_sentence,
    amount_in_words,
    amount_of_flavor,
    counted,
    few,
    has_several_flavors,
    listed,
    own_and_shared,
)
from runrig.domain.reasons import Code
from runrig.domain.spans import format_duration
from runrig.domain.value import at, utc
from runrig.domain.workflow_status import UNNUMBERED
from runrig.domain.workflows import Group, GroupSpec, TaskSpec, Workflow, WorkflowSpec
from runrig.engine.explain.shape_reasons import no_place
from runrig.engine.ledger.options import choices_left_out, flavor_choices
from runrig.engine.ledger.queue import Entry
from runrig.engine.lifecycle.after import check_possible
from runrig.engine.lifecycle.gangs import first_gangs, gang_of
from runrig.engine.lifecycle.limits import NOBODY, check_gpus_at_once, check_limits, check_moved
from runrig.engine.lifecycle.subpools import MOST_NAMED
from runrig.engine.nodes.node_capacity import EMPTY
from runrig.engine.placement.constraint_tree import check_requirements
from runrig.engine.placement.partial import least_counts
from runrig.engine.placement.place import Asked, may_hold, pods_that_fit
from runrig.engine.quota.guarantees import shared_by
from runrig.engine.quota.quota_node import NodeKind, most_ever, potential
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
    before: int = 0,
    ahead: Mapping[str, int] = NOBODY,
    numbered: bool = True,
    after: tuple[After, ...] = (),
) -> Plan:
    """The plan that adds the workflow to *pool* and queues its groups that do not depend on others.

    When the plan is applied, the state must have *spec* under *spec_hash*, including the run time that the pool gives it
    (`Pool.usual_run_time_s`). *now*: in seconds since the epoch. *parent*: id of the workflow that this one restarts. *before*:
    number of workflows of the same name ahead of it in one commit. *ahead*: see `check_limits`. *after*: those of *spec*, as they are now.
    *numbered* False: a dry run, named NAME-?, because a number would reveal how many workflows of that name exist.

    Raises NotFound and Refused (rules P3, P6, S7, W5, W6).
    """
    target = open_pool(state, pool)
    check_requirements(target, spec)
    check_open(state, target)
    _check_run_time(target, spec, spec.name)
    check_possible(after, spec.name)
    number = state.numbers.get(spec.name, 0) + 1 + before if numbered else 0
    workflow = Workflow(
        id=f"{spec.name}-{number or UNNUMBERED}",
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
        after=after,
        most=spec.array.most if spec.array else None,
    )
    actions: list[Action] = [Submit.of(workflow, (Group(workflow.id, group.name) for group in spec.groups), spec)]
    for group in spec.written:
        # No number yet: if it is rejected, no such workflow will exist.
        who = spec.name if len(spec.written) == 1 else f"{spec.name}/{group.name}"
        _check(state, target, group, gang_of(workflow, group), who=who)
    check_limits(state, workflow, spec, who=spec.name, ahead=ahead)
    if not state.budgets.keep_back(state.pools, workflow):
        actions += map(Queue, first_gangs(workflow, spec))
    return Plan(tuple(actions))


def check_again(state: State, workflow: Workflow) -> None:
    """Raises what `submit` would raise if the submitted *workflow* were submitted in its current form."""
    target, spec = open_pool(state, workflow.pool), state.spec_of(workflow.id)
    check_requirements(target, spec)
    if workflow.pool != state.workflows[workflow.id].pool:
        check_open(state, target)
        check_moved(state, state.workflows[workflow.id], workflow.pool)
    _check_run_time(target, spec, workflow.id)
    for group in spec.written:
        if spec.array or not state.groups[workflow.id, group.name].status.finished:
            who = workflow.id if len(spec.written) == 1 else f"{workflow.id}/{group.name}"
            _check(state, target, group, gang_of(workflow, group), who=who)


def check_open(state: State, pool: Pool) -> None:
    """Raises Refused if *pool* or its parent is closed to submissions (rule S7)."""
    for each in (pool, state.pools.get(pool.parent or "")):
        if each is not None and each.closed_by is not None and each.closed_since is not None:
            why = f" ({each.closed_reason})" if each.closed_reason else ""
            raise Refused(
                f"pool {each.name} was closed to submissions by {each.closed_by} at {utc(at(each.closed_since))}{why}. "
                f"Use another pool, or ask an administrator to run `runrig pool open {each.name}`",
                "S7",
                {"pool": each.name, "closed_by": each.closed_by, "closed_since": each.closed_since},
            )


def _check_run_time(pool: Pool, spec: WorkflowSpec, who: str) -> None:
    """Raises Refused if *spec* may run longer than *pool* allows (rule P6). *who*: its name in the message."""
    asked, most = spec.exec_timeout_s, pool.max_run_time_s
    if most is None or (asked is not None and asked <= most):
        return
    wants = "has no time limit" if asked is None else f"has a time limit of {format_duration(asked)}"
    raise Refused(
        f"{who} {wants}, but pool {pool.name} allows at most {format_duration(most)}. Set `--time` (exec_timeout in a "
        f"workflow file) to at most {format_duration(most)}, or use another pool",
        "P6",
        {"pool": pool.name, "asked": asked, "limit": most},
    )


def open_pool(state: State, name: str) -> Pool:
    """The pool *name*. Raises NotFound, or Refused if it is DELETING or ARCHIVED."""
    pool = state.pools.get(name)
    if pool is None:
        raise NotFound(_unknown(state, name))
    if pool.state is not PoolState.ACTIVE:
        siblings = [other for other in _active(state) if other.parent == pool.parent and other.parent is not None]
        others = ("one of " if len(siblings) > 1 else "") + (_named_pools(siblings) or "another pool")
        raise Refused(
            f"pool {name} is {pool.state.value} and does not accept submissions. Use {others}",
            law="P3",
            details={"pool": name, "state": pool.state.value},
        )
    return pool


def _unknown(state: State, name: str) -> str:
    """The message for an unknown pool: lists the known pools or, for a subpool, its siblings."""
    parent, delimiter, short = name.partition(SUBPOOL_DELIMITER)
    if delimiter and (above := state.pools.get(parent)) is not None and above.state is PoolState.ACTIVE:
        siblings = [pool for pool in _active(state) if pool.parent == parent]
        there = f" (subpools: {_named_pools(siblings) or 'none'})"
        return f"pool {parent} has no subpool {short!r}{suggested(name, [pool.name for pool in siblings], there)}"
    there = f" (pools: {_named_pools(_active(state)) or 'none'})"
    return f"unknown pool {name!r}{suggested(name, [pool.name for pool in _active(state)], there)}"


def _active(state: State) -> list[Pool]:
    pools = [pool for pool in state.pools.values() if pool.state is PoolState.ACTIVE]
    return sorted(pools, key=lambda pool: pool.name)


def _named_pools(pools: Sequence[Pool]) -> str:
    return few([pool.name for pool in pools], MOST_NAMED)


def refusal(state: State, entry: Entry, *, nodes: bool = True) -> Refused | None:
    """Why the waiting *entry* can never run under the current declarations; None if it can.

    *nodes* False: do not check whether the empty cluster could hold it, which takes the longest.
    """
    workflow, _, group = entry.gang.id.partition("/")
    pool = state.pools[entry.gang.pool]
    try:
        check_requirements(pool, state.spec_of(workflow))
        _check(state, pool, state.group_spec((workflow, group)), entry.gang, who="it", nodes=nodes)
        check_gpus_at_once(state, entry.gang, state.workflows[workflow].submitted_by, "it")
    except Refused as refused:
        return refused
    return None


def _check(state: State, pool: Pool, group: GroupSpec, gang: Gang, *, who: str, nodes: bool = True) -> None:
    """Raises Refused unless the gang's smallest size could be admitted with some flavors and, if *nodes* are fixed, placed on
    them.

    *who*: its name in messages.
    """
    for task in group.tasks:
        check_flavors(state, pool, task)
    entry = Entry.of(gang)
    allowed = list(affordable(state, entry))
    if not allowed:
        first = next(flavor_choices(state.ledger, entry, least_counts(gang.pod_sets)))
        raise _over_promise(state, entry, first, who).of(gang)
    if not (nodes and state.fixed_nodes and state.ledger.place) or choices_left_out(state.ledger, entry):
        return
    # An unfinished search is no reason to reject it.
    if not any(may_hold(state.ledger.nodes, _asked_of_nodes(state, entry, choice), (EMPTY,)) for choice in allowed):
        raise _over_nodes(state, entry, allowed[0], who).of(gang)


def affordable(state: State, entry: Entry) -> Iterator[Placement]:
    """Yields the choices of flavors that quotas can ever allow for the smallest size of *entry*."""
    choices = flavor_choices(state.ledger, entry, least_counts(entry.gang.pod_sets), mixed=True)
    return (choice for choice in choices if not _breaks(state, entry, choice))


def check_flavors(state: State, pool: Pool, task: TaskSpec) -> None:
    """Raises Refused unless *pool* has the task's platform and that allows the permissions that the task requests.

    Also raises it if no flavor is declared.
    """
    allowed = pool.flavors or tuple(state.flavors)
    if not allowed:
        raise Refused(
            f"task {task.name} has no nodes to run on, because no flavor is declared. Ask an administrator to declare one",
            law="P3",
        )
    if task.platform is not None and task.platform not in allowed:
        raise Refused(
            f"task {task.name}: pool {pool.name} has no platform {task.platform!r}. Available: {', '.join(allowed)}",
            law="P3",
        )
    platform = task.platform or pool.default_platform
    chosen = [platform] if platform else allowed
    for right in task.allow:
        forbidding = next((name for name in chosen if right not in state.flavors[name].allow), None)
        if forbidding is not None:
            raise Refused(
                f"task {task.name} requests {right}, which platform {forbidding} does not allow. Remove it, or ask an administrator "
                f"to add it to the flavor's `allow`",
                law="P3",
            )


def _breaks(state: State, entry: Entry, choice: Placement) -> tuple[int, int, int] | None:
    """(index, limit, amount requested) of the first resource whose limit the request can never meet, or None."""
    leaf = state.ledger.leaf(entry)
    for index, amount in state.ledger.request_of(entry, choice):
        most = most_ever(leaf, index)
        if amount > most:
            return index, most, amount
    return None


def _over_promise(state: State, entry: Entry, choice: Placement, who: str) -> Refused:
    broken = _breaks(state, entry, choice)
    assert broken is not None, "some choice exceeds the guarantee"
    index, most, amount = broken
    key = state.ledger.tree.keys[index]
    named = has_several_flavors(state.ledger.tree.keys, key.resource)
    limit = amount_in_words(key.resource, max(0, most))
    leaf = state.ledger.leaf(entry)
    details = {"pool": entry.gang.pool, "resource": str(key), "asked": amount, "limit": most}
    at_once = " at the same time" if sum(assignment.count for assignment in choice) > 1 else ""
    needs = f"{who} needs {amount_of_flavor(str(key), amount, named=named)}{at_once}, but pool {leaf.name}"
    if not entry.bucket.firm:
        return Refused(f"{needs} can get at most {limit}, even by borrowing. {_in_words([], most)}", "P3", details)
    node = state.ledger.tree.pools[leaf.name]
    shared = dict(shared_by(leaf, index))
    details |= {"shared": shared} if shared else {}
    own = max(0, leaf.nominal[index])
    subpools = {child.name: child.nominal[index] for child in node.children if child.kind is NodeKind.POOL}
    ways = _ways_out(state, entry, index, amount, most)
    if not subpools:
        parts = f" ({own_and_shared(own, shared, str(key))})" if shared else ""
        return Refused(f"{needs} has a quota of {limit}{parts}. {ways}", "P3", details)
    quota, given = amount_in_words(key.resource, node.nominal[index]), sum(subpools.values())
    held = counted(len(subpools), "subpool has", "subpools have")
    held += f" {amount_in_a_sentence(key.resource, given)} of its {quota}"
    parts = own_and_shared(own, shared, str(key), f"unallocated ({held})")
    return Refused(
        f"{needs} has {parts}. {ways}",
        "P3",
        details | {"quota": node.nominal[index], "unallocated": leaf.nominal[index], "subpools": subpools},
    )


def _ways_out(state: State, entry: Entry, index: int, amount: int, most: int) -> str:
    """The alternatives that would be accepted; the pool has a quota of *most*.

    They are: request less; priority LOW, if the pool could ever borrow as much; of the nearby pools with enough quota left, the
    one with the most. Enough means of each resource.
    """
    tree, name = state.ledger.tree, entry.gang.pool
    ways = []
    if potential(tree.low[name], index) >= amount and _affords(state, entry, index, partial(potential, tree.low[name])):
        ways.append("submit with priority LOW to borrow")
    enough = [
        leaf
        for leaf in map(tree.firm.__getitem__, _nearby(state, name))
        if leaf.balance(index) >= amount
        and _affords(state, Entry.of(replace(entry.gang, pool=leaf.name)), index, leaf.balance)
    ]
    if enough:
        best = min(enough, key=lambda leaf: (-leaf.balance(index), leaf.name))
        left = amount_in_words(tree.keys[index].resource, best.balance(index))
        ways.append(f"submit to {best.name}, which has {left} of quota left")
    return _in_words(ways, most)


def _in_words(ways: Sequence[str], most: int) -> str:
    """*ways* as a sentence that begins with less, if the pool has any: *most*."""
    ways = ["request less", *ways] if most > 0 else ways or ["use another pool"]
    comma = "," if len(ways) > 2 else ""
    first, rest = ", ".join(ways[:-1]), ways[-1]
    words = f"{first}{comma} or {rest}" if first else rest
    return words[0].upper() + words[1:]


def _affords(state: State, entry: Entry, index: int, most: Callable[[int], int]) -> bool:
    """Whether some choice of flavors needs resource *index*, and at most *most* of each resource."""
    choices = flavor_choices(state.ledger, entry, least_counts(entry.gang.pod_sets), mixed=True)
    requests = (dict(state.ledger.request_of(entry, choice)) for choice in choices)
    return any(
        index in request and all(most(each) >= amount for each, amount in request.items()) for request in requests
    )


def _nearby(state: State, name: str) -> list[str]:
    """The other open pools below the same top-level pool: a user who may submit to one of them may submit to all."""
    top = state.pools[name].parent or name
    family = [pool.name for pool in _active(state) if top in (pool.name, pool.parent) and pool.closed_by is None]
    return [each for each in family if each != name] if state.pools[top].closed_by is None else []


def _asked_of_nodes(state: State, entry: Entry, choice: Placement) -> Asked:
    asked = state.ledger.asked_of_nodes(entry, choice)
    assert asked is not None, "the keys have been checked"
    return asked


def _over_nodes(state: State, entry: Entry, choice: Placement, who: str) -> Refused:
    """The refusal: names the level without a large enough domain, otherwise the pod set with the most pods that do not fit.

    If each pod set fits alone, it says that they do not fit together.
    """
    reason = no_place(state.ledger, entry, choice, EMPTY)
    nodes = f"nodes of flavor {choice[0].flavor}" if len(state.flavors) > 1 else "nodes"
    if reason.code in (Code.NO_DOMAIN_FITS, Code.NOT_ALL_GROUPS_FIT):
        return Refused(
            f"{who} does not fit even on empty {nodes}: {reason}. Request less per pod, fewer pods, or a coarser topology key",
            "P3",
            {"pool": entry.gang.pool, "topology_key": reason.where, "asked": reason.need, "limit": reason.have},
        )
    requests, _ = _asked_of_nodes(state, entry, choice)
    fitting = [pods_that_fit(state.ledger.nodes, request, (EMPTY,)) for request in requests]
    worst = min(range(len(requests)), key=lambda index: (fitting[index] - requests[index].pods, index))
    assignment, most = choice[worst], fitting[worst]
    shape = listed([amount_in_words(*each) for each in requests[worst].requests if each[0] != PODS])
    pod_set = f"{assignment.pod_set} ({shape} per pod)"
    if most >= assignment.count:
        finding = "each pod fits, but not all of them at the same time. Request less per pod, or fewer pods"
    elif assignment.count == 1:
        finding = f"the pod of {pod_set} fits on none. Request less"
    else:
        fit = "fits" if most == 1 else "fit"
        finding = f"{most or 'none'} of {assignment.count} pods of {pod_set} {fit}. Request less per pod, or fewer pods"
    return Refused(
        f"{who} does not fit even on empty {nodes}: {finding}",
        "P3",
        {"pool": entry.gang.pool, "pod_set": assignment.pod_set, "asked": assignment.count, "limit": most},
    )
