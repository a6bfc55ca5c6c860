"""The life of pools and cohorts: create, resize, delete, drain (docs/subpools.md; rules Q5, Q7, R7, S1–S6).

Each function checks a change against the whole tree, and accepts or rejects all of it. None stops running work.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import replace

from runrig.domain.budgets import Owner, Scope
from runrig.domain.cluster import ClusterSpec
from runrig.domain.errors import Conflict, InvalidInput, NotFound, Problem, Refused
from runrig.domain.meant import suggested
from runrig.domain.nodes import Flavor, flavor_of
from runrig.domain.plan import Action, DropCohort, Plan, PutCohort, PutNode, PutPool, SetFlavors
from runrig.domain.pools import (
    TRANSITIONS,
    Cohort,
    Pool,
    PoolEvent,
    PoolState,
    Quotas,
    gpus_of,
    marked_as,
    name_problem,
    run_time_problem,
    topology_problem,
)
from runrig.domain.quantities import LARGEST, few
from runrig.domain.settings import WEIGHT
from runrig.domain.settings import problems as setting_problems
from runrig.domain.workflows import Status
from runrig.engine.explain import report
from runrig.engine.lifecycle import subpools
from runrig.engine.lifecycle.subpools import MOST_NAMED
from runrig.engine.lifecycle.workflows import cancel
from runrig.engine.state.state import State

RUNRIG = "runrig"
"""The actor in the log if no user is given."""

# ---------------------------------------------------------------- pools


def put_pool(state: State, pool: Pool, *, create: bool) -> Plan:
    """Creates *pool* or changes its settings; its subpools follow. For a subpool, only its name and GPUs are used (rule
    S5).

    Raises InvalidInput if a setting is invalid, NotFound if the pool to update does not exist, and Refused if the
    quotas of subpools no longer fit (rule S1). Raises Conflict if the name is taken or the state forbids the change; an
    ARCHIVED pool can be created again.
    """
    before = state.pools.get(pool.name) if create else subpools.existing(state.pools, pool.name)
    pool = _checked(state, pool, before, state.pools, state.flavors)
    event = PoolEvent.CREATE if create else PoolEvent.RESIZE
    pool = replace(pool, state=PoolState.ACTIVE if before is None else _next_state(state, before, event))
    following = [PutPool(after, child) for child, after in subpools.followers(state.pools, pool)]
    if pool == before and not following:
        return Plan()
    changed = {pool.name: pool, **{action.pool.name: action.pool for action in following}}
    subpools.check_slices({**state.pools, **changed}, pool)
    return Plan((PutPool(pool, before), *following))


def _checked(
    state: State, pool: Pool, before: Pool | None, pools: Mapping[str, Pool], flavors: Mapping[str, Flavor]
) -> Pool:
    """*pool* with the settings of its parent, closed and paused as *before*. Raises what `put_pool` raises for its settings.

    *pools*, *flavors*: as they will be.
    """
    if pool.parent is not None:
        parent = subpools.parent_of(pools, pool)
        _check_quotas(flavors, pool.quotas)
        pool = subpools.inherited(parent, pool)
    _check_settings(flavors, pool, topology=state.topology)
    return marked_as(pool, None if before is None or before.state is PoolState.ARCHIVED else before)


def follow_parents(state: State) -> Plan:
    """Gives subpools the settings of their parents (rule S5); an older release did not pass on changes of a parent."""
    parents = sorted({pool.parent for pool in state.pools.values() if pool.parent is not None})
    return Plan(
        tuple(
            PutPool(after, child)
            for parent in parents
            for child, after in subpools.followers(state.pools, state.pools[parent])
        )
    )


def _next_state(state: State, pool: Pool, event: PoolEvent) -> PoolState:
    """The state of *pool* after *event*. Raises Conflict if its state forbids the event."""
    after = TRANSITIONS.get((pool.state, event))
    if after is not None:
        return after
    details: dict[str, object] = {"pool": pool.name, "state": pool.state.value}
    start = f"pool {pool.name} is {pool.state.value}"
    if pool.state is PoolState.ACTIVE:
        what = f"subpool update {pool.parent} {pool.subpool_name}" if pool.parent else f"update {pool.name}"
        raise Conflict(f"pool {pool.name} already exists. To change it, use `runrig pool {what}`", details)
    if pool.state is PoolState.ARCHIVED:
        again = "create it again to use it" if event is PoolEvent.RESIZE else "it has already been deleted"
        raise Conflict(f"{start}: {again}", details)
    left = report.remaining(state, pool.name)
    are = "is" if left.workflows == 1 else "are"
    raise Conflict(
        f"{start}: it cannot be changed, deleted or created again while {left} {are} running in it",
        details | {"gpus": left.gpus, "workflows": left.workflows},
    )


def delete_pool(state: State, name: str, *, user: str = RUNRIG) -> Plan:
    """Archives the pool if it has no live work, otherwise sets it to DELETING. Cancels work that has not started (rule
    S3).

    *user*: who deletes it. Raises NotFound, and Conflict if it has subpools or is already deleted.
    """
    return _delete(state, name, state.pools, user)


def _delete(state: State, name: str, pools: Mapping[str, Pool], user: str) -> Plan:
    """`delete_pool` with the future *pools*, so that subpools archived in the same plan no longer count."""
    pool = subpools.existing(pools, name)
    children = [child.name for child in subpools.children_of(pools, name)]
    if children:
        names = few(children, MOST_NAMED)
        raise Conflict(f"pool {name} has subpools ({names}): delete them first", {"pool": name, "subpools": children})
    live = sorted(
        workflow.id for workflow in state.workflows.values() if workflow.pool == name and not workflow.status.finished
    )
    never_started = [workflow for workflow in live if not _has_started(state, workflow)]
    busy = len(never_started) < len(live)
    after = _next_state(state, pool, PoolEvent.DELETE_BUSY if busy else PoolEvent.DELETE_IDLE)
    actions: list[Action] = []
    for workflow in never_started:
        actions += cancel(state, workflow, user=user, message=f"pool {name} was deleted before it started").actions
    return Plan((*actions, PutPool(replace(pool, state=after), pool)))


def _has_started(state: State, workflow: str) -> bool:
    return any(
        group.attempt or group.status not in (Status.WAITING, Status.SCHEDULING) for group in state.groups_of(workflow)
    )


def archive_drained(state: State, aside: Set[Scope] = frozenset()) -> Iterator[Action | None]:
    """Archives DELETING pools without live workflows, but those *aside*, in the cycle in which the last one ended (rule S3). Yields
    None after each.
    """
    draining = [pool for pool in state.pools.values() if pool.state is PoolState.DELETING]
    for pool in sorted(draining, key=lambda pool: pool.name):
        if not state.alive[pool.name] and (Owner.POOL, pool.name) not in aside:
            yield PutPool(replace(pool, state=_next_state(state, pool, PoolEvent.DRAINED)), pool)
            yield None


# ---------------------------------------------------------------- cohorts


def put_cohort(state: State, cohort: Cohort, *, create: bool) -> Plan:
    """Creates or changes *cohort*. It may have existed by name only, and its parent need not exist (rule Q6).

    Raises InvalidInput, Conflict, NotFound, and Refused if the cohorts would form a cycle (rule Q5).
    """
    before = state.cohorts.get(cohort.name)
    if create and before is not None:
        raise Conflict(f"cohort {cohort.name} already exists. Change it with `runrig cohort update`")
    if not create and before is None:
        raise NotFound(f"cohort {cohort.name!r} not found. List cohorts with `runrig cohort list`")
    InvalidInput.check(name_problem("cohort", cohort.name), "name")
    if cohort.parent:
        InvalidInput.check(name_problem("cohort", cohort.parent), "name")
    if wrong := WEIGHT.kind.problem(cohort.weight):
        raise InvalidInput.one(f"weight {wrong}", "weight")
    _check_quotas(state.flavors, cohort.quotas)
    _check_circle({**state.cohorts, cohort.name: cohort}, cohort.name)
    return Plan((PutCohort(cohort, before),))


def delete_cohort(state: State, name: str, *, leave_children: bool = False) -> Plan:
    """Deletes the cohort. *leave_children*: its children stay below it, as a cohort that is only named (rule Q6).

    Raises NotFound, and Conflict if it has children and *leave_children* is False.
    """
    cohort = state.cohorts.get(name)
    if cohort is None:
        if any(node.name == name for node in state.ledger.tree.cohorts.values()):
            raise NotFound(f"cohort {name!r} is not declared: it exists only as long as others refer to it")
        raise NotFound(f"cohort {name!r} not found. List cohorts with `runrig cohort list`")
    below = _children(name, state.cohorts.values(), state.pools.values())
    if below and not leave_children:
        raise Conflict(
            f"cohort {name} has children: {', '.join(below)}. Move or delete them first, or use --leave-children to keep "
            f"them below {name}, which then loses its quota, limits and parent"
        )
    return Plan((DropCohort(cohort),))


def _children(name: str, cohorts: Iterable[Cohort], pools: Iterable[Pool]) -> list[str]:
    """The names of the direct children of the cohort *name*: cohorts and top-level pools, sorted."""
    tops = (pool for pool in pools if pool.parent is None and pool.state is not PoolState.ARCHIVED)
    return sorted(
        [cohort.name for cohort in cohorts if cohort.parent == name] + [top.name for top in tops if top.cohort == name]
    )


def _check_circle(cohorts: Mapping[str, Cohort], name: str) -> None:
    path = [name]
    while (cohort := cohorts.get(path[-1])) is not None and cohort.parent is not None:
        path.append(cohort.parent)
        if cohort.parent in path[:-1]:
            circle = " -> ".join(path[path.index(cohort.parent) :])
            raise Refused(
                f"the parents of cohort {name} would form a cycle ({circle}). Choose another parent", law="Q5"
            )


# ---------------------------------------------------------------- checks


def _check_settings(flavors: Mapping[str, Flavor], pool: Pool, *, topology: bool) -> None:
    # `subpools.parent_of` checks the name of a subpool.
    names = [("pool", pool.name if pool.parent is None else None), ("cohort", pool.cohort)]
    wrong_names = [name_problem(kind, name) for kind, name in names if name is not None]
    problems = [Problem(text, "name") for text in wrong_names if text]
    problems += [Problem(text, name) for name, text in setting_problems(pool)]
    unknown = [name for name in pool.flavors if name not in flavors]
    if unknown:
        problems.append(Problem(_unknown_flavor(unknown[0], flavors), "flavors"))
    if pool.default_platform is not None and pool.default_platform not in (pool.flavors or tuple(flavors)):
        problems.append(
            Problem(f"default_platform {pool.default_platform!r} is not a flavor of the pool", "default_platform")
        )
    if wrong := topology_problem(pool.topology_keys):
        problems.append(Problem(wrong, "topology_keys"))
    if wrong := run_time_problem(pool.default_run_time_s, pool.max_run_time_s):
        problems.append(Problem(wrong, "default_run_time"))
    if pool.topology_keys and not topology:
        problems.append(Problem("this backend does not support topology. Remove the topology keys", "topology_keys"))
    if problems:
        raise InvalidInput(tuple(problems))
    _check_quotas(flavors, pool.quotas)


def _unknown_flavor(name: str, flavors: Mapping[str, Flavor]) -> str:
    there = f" (flavors: {', '.join(flavors)})"
    return f"unknown flavor {name!r}{suggested(name, flavors, there)}"


def _check_quotas(flavors: Mapping[str, Flavor], quotas: Quotas) -> None:
    problems = []
    for key, quota in sorted(quotas.items()):
        if key.flavor not in flavors:
            problems.append(Problem(_unknown_flavor(key.flavor, flavors), f"quota.{key}"))
        for name in ("nominal", "borrowing_limit", "lending_limit"):
            amount = getattr(quota, name)
            if amount is not None and not 0 <= amount <= LARGEST:
                text = f"{name} {amount} of {key} is out of range. Use an amount from 0 to {LARGEST}"
                problems.append(Problem(text, f"quota.{key}.{name}"))
    if problems:
        raise InvalidInput(tuple(problems))


# ---------------------------------------------------------------- a whole file


def declare(state: State, cluster: ClusterSpec, *, prune: Collection[str] = (), user: str = RUNRIG) -> Plan:
    """The plan that makes the state match *cluster*.

    Pools and cohorts that are not in the file stay, except those in *prune* ("pool/NAME", "cohort/NAME"). *user*: who applies
    the file. Raises the same errors as the individual edits.
    """
    actions: list[Action] = [*_declare_flavors(state, cluster.flavors)]
    flavors = {flavor.name: flavor for flavor in cluster.flavors}
    cohorts = {**state.cohorts, **{cohort.name: cohort for cohort in cluster.cohorts}}
    for cohort in cluster.cohorts:
        _check_quotas(flavors, cohort.quotas)
        _check_circle(cohorts, cohort.name)
        before = state.cohorts.get(cohort.name)
        if before != cohort:
            actions.append(PutCohort(cohort, before))
    declared = {f"pool/{pool.name}" for pool in cluster.pools} | {f"cohort/{cohort.name}" for cohort in cluster.cohorts}
    unwanted = sorted(set(prune) - declared, reverse=True)
    after = dict(state.pools)
    actions += _prune_pools(state, unwanted, after, user)
    actions += _declare_pools(state, cluster.pools, flavors, after)
    in_file = {pool.name for pool in cluster.pools}
    others = [pool for pool in after.values() if pool.name not in in_file]
    actions += _prune_cohorts(cohorts, {cohort.name for cohort in cluster.cohorts}, others, unwanted)
    return Plan(tuple(actions))


def _declare_flavors(state: State, flavors: Iterable[Flavor]) -> Iterator[Action]:
    declared = tuple(replace(flavor, position=position) for position, flavor in enumerate(flavors))
    if tuple(state.flavors.values()) == declared:
        return
    kept = {flavor.name for flavor in declared}
    for owner, named in sorted(_flavors_named(state).items()):
        lost = sorted(named - kept)
        if lost:
            raise Refused(
                f"flavor {lost[0]} cannot be removed, because {owner} uses it. Change {owner} first", law="Q7"
            )
    yield SetFlavors(declared)
    for _, node in sorted(state.nodes.items()):
        flavor = flavor_of(node, declared)
        if flavor != node.flavor:
            yield PutNode(replace(node, flavor=flavor))


def _flavors_named(state: State) -> dict[str, set[str]]:
    """ "pool NAME" or "cohort NAME" → the flavors that it names. ARCHIVED pools are left out."""
    named = {f"cohort {cohort.name}": {key.flavor for key in cohort.quotas} for cohort in state.cohorts.values()}
    for pool in state.pools.values():
        if pool.state is not PoolState.ARCHIVED:
            chosen = {pool.default_platform} if pool.default_platform else set()
            named[f"pool {pool.name}"] = {key.flavor for key in pool.quotas} | set(pool.flavors) | chosen
    return named


def _declare_pools(
    state: State, pools: Iterable[Pool], flavors: Mapping[str, Flavor], after: dict[str, Pool]
) -> Iterator[Action]:
    """Yields the changes of the declared *pools*, parents before their subpools. *after*: the future pools; updated."""
    pruned, changed = dict(after), dict[str, None]()
    for pool in pools:
        before = state.pools.get(pool.name)
        pool = _checked(state, pool, before, after, flavors)
        pool = replace(pool, state=_declared_state(state, before, pool))
        after[pool.name] = pool
        changed[pool.name] = None
    for parent in [after[name] for name in dict.fromkeys(after[name].parent or name for name in changed)]:
        for child, follower in subpools.followers(after, parent):
            after[child.name] = follower
            changed[child.name] = None
        subpools.check_slices(after, parent)
    for name in changed:
        if after[name] != pruned.get(name):
            yield PutPool(after[name], pruned.get(name))


def _declared_state(state: State, before: Pool | None, pool: Pool) -> PoolState:
    """The pool's next state. A change inherited from its parent does not count as a resize (rule S5)."""
    if before is None:
        return PoolState.ACTIVE
    if before.state is PoolState.ARCHIVED:
        return _next_state(state, before, PoolEvent.CREATE)
    same = (
        gpus_of(pool.quotas) == gpus_of(before.quotas) if pool.parent else replace(pool, state=before.state) == before
    )
    return before.state if same else _next_state(state, before, PoolEvent.RESIZE)


def _prune_pools(state: State, names: Iterable[str], after: dict[str, Pool], user: str) -> Iterator[Action]:
    """Deletes pools before any is declared, because that can free quota for others (rule S1); subpools before parents."""
    for name in names:
        kind, _, short = name.partition("/")
        if kind == "pool" and short in after and after[short].state is PoolState.ACTIVE:
            actions = _delete(state, short, after, user).actions
            after.update({action.pool.name: action.pool for action in actions if isinstance(action, PutPool)})
            yield from actions


def _prune_cohorts(
    cohorts: Mapping[str, Cohort], in_file: Collection[str], pools: Collection[Pool], names: Iterable[str]
) -> Iterator[Action]:
    """Deletes the cohorts in *names*. A cohort is kept while anything outside the file is below it.

    *cohorts*: as they will be. *pools*: those outside the file. If the file puts something below a cohort that it does not
    declare, the cohort stays by name only (rule Q6).
    """
    left = {name: cohort for name, cohort in cohorts.items() if name not in in_file}
    going = [left[name.partition("/")[2]] for name in names if name.startswith("cohort/") and name[7:] in left]
    while free := [cohort for cohort in going if not _children(cohort.name, left.values(), pools)]:
        for cohort in free:
            going.remove(cohort)
            del left[cohort.name]
            yield DropCohort(cohort)
