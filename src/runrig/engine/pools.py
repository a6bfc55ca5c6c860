"""Life of pools and cohorts: created, resized, deleted, drained (subpools.md; laws Q5, Q7, R7, S1-S6).

Functions that plan a change check it against the whole tree and refuse it as a whole; none of them stops running work.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from runrig.domain.cluster import ClusterSpec
from runrig.domain.errors import Conflict, InvalidInput, NotFound, Problem, Refused
from runrig.domain.nodes import Flavor
from runrig.domain.plan import Action, DropCohort, Plan, PutCohort, PutNode, PutPool, SetFlavors
from runrig.domain.pools import SUBPOOL_DELIMITER, TRANSITIONS, Cohort, Pool, PoolEvent, PoolState, Quotas, name_problem
from runrig.domain.quantities import LARGEST, FlavorResource
from runrig.domain.workflows import Status
from runrig.engine.state import State
from runrig.engine.workflows import cancel

# ---------------------------------------------------------------- pools


def put_pool(state: State, pool: Pool, *, create: bool) -> Plan:
    """Creates *pool*, or gives it new settings.

    Raises InvalidInput for what cannot be, Conflict for a name that is taken or a state that forbids it (an ARCHIVED name may
    be created again), NotFound for an update of nothing, Refused where a promise would break (law S1).
    """
    before = state.pools.get(pool.name)
    if before is None and not create:
        raise NotFound(f"no pool {pool.name!r}: `runrig pool list` shows those there are")
    _check_settings(state.flavors, pool, topology=state.topology)
    event = PoolEvent.CREATE if create else PoolEvent.RESIZE
    after = PoolState.ACTIVE if before is None else _next_state(before, event)
    _check_slices({**state.pools, pool.name: replace(pool, state=after)}, pool)
    return Plan((PutPool(replace(pool, state=after), before),))


def _next_state(pool: Pool, event: PoolEvent) -> PoolState:
    after = TRANSITIONS.get((pool.state, event))
    if after is None:
        raise Conflict(f"pool {pool.name} is {pool.state.value}: {event.value} is not possible in that state")
    return after


def delete_pool(state: State, name: str) -> Plan:
    """ARCHIVED at once if nothing of it is alive, else DELETING; its work that never started is cancelled (law S3).

    Raises NotFound, and Conflict while it has subpools or is DELETING already.
    """
    return _delete(state, name, state.pools)


def _delete(state: State, name: str, pools: Mapping[str, Pool]) -> Plan:
    """*pools*: as they will be by then; what is to be archived before it is no subpool any more."""
    pool = pools.get(name)
    if pool is None or pool.state is PoolState.ARCHIVED:
        raise NotFound(f"no pool {name!r}: `runrig pool list` shows those there are")
    children = sorted(
        each.name for each in pools.values() if each.parent == name and each.state is not PoolState.ARCHIVED
    )
    if children:
        raise Conflict(f"pool {name} has subpools ({', '.join(children)}): delete them first")
    live = sorted(each.id for each in state.workflows.values() if each.pool == name and not each.status.finished)
    never_started = [workflow for workflow in live if not _has_started(state, workflow)]
    busy = len(never_started) < len(live)
    after = _next_state(pool, PoolEvent.DELETE_BUSY if busy else PoolEvent.DELETE_IDLE)
    actions: list[Action] = []
    for workflow in never_started:
        actions += cancel(state, workflow, user="runrig", message=f"pool {name} was deleted before it started").actions
    return Plan((*actions, PutPool(replace(pool, state=after), pool)))


def _has_started(state: State, workflow: str) -> bool:
    return any(
        group.attempt or group.status not in (Status.WAITING, Status.SCHEDULING) for group in state.groups_of(workflow)
    )


def archive_drained(state: State) -> Iterator[Action]:
    """DELETING pools in which nothing is alive any more, in the very cycle in which the last workflow ended (law S3)."""
    draining = sorted(
        (pool for pool in state.pools.values() if pool.state is PoolState.DELETING), key=lambda pool: pool.name
    )
    for pool in draining:
        if not any(each.pool == pool.name and not each.status.finished for each in state.workflows.values()):
            yield PutPool(replace(pool, state=_next_state(pool, PoolEvent.DRAINED)), pool)


# ---------------------------------------------------------------- cohorts


def put_cohort(state: State, cohort: Cohort, *, create: bool) -> Plan:
    """Creates *cohort* (also one that so far was only named), or changes it.  Its parent need not exist (law Q6).

    Raises InvalidInput, Conflict, NotFound, and Refused if the parents would run in a circle (law Q5).
    """
    before = state.cohorts.get(cohort.name)
    if create and before is not None:
        raise Conflict(f"cohort {cohort.name} exists already: `runrig cohort update` changes it")
    if not create and before is None:
        raise NotFound(f"no cohort {cohort.name!r}: `runrig cohort list` shows those there are")
    problem = name_problem("cohort", cohort.name) or (name_problem("cohort", cohort.parent) if cohort.parent else None)
    if problem:
        raise InvalidInput.one(problem, "name")
    _check_quotas(state.flavors, cohort.quotas)
    _check_circle({**state.cohorts, cohort.name: cohort}, cohort.name)
    return Plan((PutCohort(cohort, before),))


def delete_cohort(state: State, name: str, *, leave_children: bool = False) -> Plan:
    """*leave_children*: what hangs under it goes on under a cohort that is only named (law Q6).

    Raises NotFound, and Conflict while something hangs under it that shall not be left so.
    """
    cohort = state.cohorts.get(name)
    if cohort is None:
        named = any(node.name == name for node in state.ledger.tree.cohorts.values())
        why = "it is only named by others, and goes with the last of them" if named else "there is none of that name"
        raise NotFound(f"no cohort {name!r} to delete: {why}; `runrig cohort list` shows those there are")
    below = _children(name, state.cohorts.values(), state.pools.values())
    if below and not leave_children:
        raise Conflict(
            f"cohort {name} still has {', '.join(below)} under it: move or delete them first, or leave them there "
            f"(--leave-children): {name} is then only a name at the top of the tree, without its quota, limits and parent"
        )
    return Plan((DropCohort(cohort),))


def _children(name: str, cohorts: Iterable[Cohort], pools: Iterable[Pool]) -> list[str]:
    """Names of what hangs right under the cohort *name*, sorted."""
    return sorted(
        [each.name for each in cohorts if each.parent == name]
        + [each.name for each in pools if each.cohort == name and _is_top(each)]
    )


def _is_top(pool: Pool) -> bool:
    return pool.parent is None and pool.state is not PoolState.ARCHIVED


def _check_circle(cohorts: Mapping[str, Cohort], name: str) -> None:
    path = [name]
    while (cohort := cohorts.get(path[-1])) is not None and cohort.parent is not None:
        path.append(cohort.parent)
        if cohort.parent in path[:-1]:
            circle = " -> ".join(path[path.index(cohort.parent) :])
            raise Refused(f"the parents of cohort {name} would run in a circle: {circle}", law="Q5")


# ---------------------------------------------------------------- checks


def _check_settings(flavors: Mapping[str, Flavor], pool: Pool, *, topology: bool) -> None:
    problems = [Problem(text, "name") for text in _name_problems(pool)]
    unknown = [name for name in pool.flavors if name not in flavors]
    if unknown:
        problems.append(Problem(f"unknown flavor {unknown[0]!r}: there are {', '.join(flavors)}", "flavors"))
    if pool.default_platform is not None and pool.default_platform not in (pool.flavors or tuple(flavors)):
        problems.append(
            Problem(f"default_platform {pool.default_platform!r} is no flavor of the pool", "default_platform")
        )
    keys = [each.key for each in pool.topology_keys]
    if len(set(keys)) < len(keys) or len({each.label for each in pool.topology_keys}) < len(keys):
        problems.append(Problem("topology keys and their labels must be unique", "topology_keys"))
    if keys and not topology:
        problems.append(Problem("this backend has no topology: leave the topology keys out", "topology_keys"))
    if problems:
        raise InvalidInput(tuple(problems))
    _check_quotas(flavors, pool.quotas)


def _name_problems(pool: Pool) -> Iterator[str]:
    parts = (pool.name,) if pool.parent is None else (pool.parent, pool.subpool_name or "")
    if pool.cohort is not None:
        parts = (*parts, pool.cohort)
    yield from filter(None, (name_problem("pool" if part != pool.cohort else "cohort", part) for part in parts))
    if pool.parent is not None and pool.name != f"{pool.parent}{SUBPOOL_DELIMITER}{pool.subpool_name}":
        yield f"subpool {pool.subpool_name!r} of {pool.parent!r} must be called {pool.parent}--{pool.subpool_name}"


def _check_quotas(flavors: Mapping[str, Flavor], quotas: Quotas) -> None:
    problems = []
    for key, quota in sorted(quotas.items()):
        if key.flavor not in flavors:
            problems.append(
                Problem(f"quota of unknown flavor {key.flavor!r}: there are {', '.join(flavors)}", f"quota.{key}")
            )
        for name in ("nominal", "borrowing_limit", "lending_limit"):
            amount = getattr(quota, name)
            if amount is not None and not 0 <= amount <= LARGEST:
                text = f"{name} {amount} of {key} is out of range: amounts go from 0 to {LARGEST}"
                problems.append(Problem(text, f"quota.{key}.{name}"))
    if problems:
        raise InvalidInput(tuple(problems))


def _check_slices(pools: Mapping[str, Pool], changed: Pool) -> None:
    """Law S1: the subpools of one parent together have no more than the parent."""
    parent = pools.get(changed.parent or changed.name)
    if parent is None:
        raise NotFound(f"no pool {changed.parent!r} to be the parent of {changed.name}")
    if parent.state is not PoolState.ACTIVE:
        raise Conflict(f"pool {parent.name} is {parent.state.value}: it takes no subpools")
    children = [each for each in pools.values() if each.parent == parent.name and each.state is not PoolState.ARCHIVED]
    for key in sorted({key for each in children for key in each.quotas}):
        total, most = sum(_nominal(each, key) for each in children), _nominal(parent, key)
        if total > most:
            names = ", ".join(
                f"{each.subpool_name} {_nominal(each, key)}" for each in sorted(children, key=lambda each: each.name)
            )
            raise Refused(
                f"subpools of {parent.name} would have {total} of {key} ({names}), and {parent.name} has {most}: "
                "give them less, or the parent more",
                law="S1",
                details={"pool": parent.name, "resource": str(key), "asked": total, "limit": most},
            )


def _nominal(pool: Pool, key: FlavorResource) -> int:
    quota = pool.quotas.get(key)
    return 0 if quota is None else quota.nominal


# ---------------------------------------------------------------- a whole file


def declare(state: State, cluster: ClusterSpec, *, prune: Collection[str] = ()) -> Plan:
    """What makes the state as *cluster* declares it; nothing else is touched, but for *prune* ("pool/NAME", "cohort/NAME").

    Raises what the single edits raise, before anything is changed.
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
    actions += _prune_pools(state, unwanted, after)
    actions += _declare_pools(state, cluster.pools, flavors, after)
    in_file = {pool.name for pool in cluster.pools}
    others = [pool for pool in after.values() if pool.name not in in_file]
    actions += _prune_cohorts(cohorts, {cohort.name for cohort in cluster.cohorts}, others, unwanted)
    return Plan(tuple(actions))


def _declare_flavors(state: State, flavors: Iterable[Flavor]) -> Iterator[Action]:
    wanted = tuple(replace(flavor, position=position) for position, flavor in enumerate(flavors))
    if tuple(state.flavors.values()) == wanted:
        return
    kept = {flavor.name for flavor in wanted}
    for owner, named in sorted(_flavors_named(state).items()):
        lost = sorted(named - kept)
        if lost:
            raise Refused(f"flavor {lost[0]} is still named by {owner}: change that first", law="Q7")
    yield SetFlavors(wanted)
    for _, node in sorted(state.nodes.items()):
        flavor = next((each.name for each in wanted if each.matches(node)), node.flavor)
        if flavor != node.flavor:
            yield PutNode(replace(node, flavor=flavor))


def _flavors_named(state: State) -> dict[str, set[str]]:
    """Per pool that is not ARCHIVED, and per cohort, every flavor that it names."""
    named = {f"cohort {each.name}": {key.flavor for key in each.quotas} for each in state.cohorts.values()}
    for pool in state.pools.values():
        if pool.state is not PoolState.ARCHIVED:
            chosen = {pool.default_platform} if pool.default_platform else set()
            named[f"pool {pool.name}"] = {key.flavor for key in pool.quotas} | set(pool.flavors) | chosen
    return named


def _declare_pools(
    state: State, pools: Iterable[Pool], flavors: Mapping[str, Flavor], after: dict[str, Pool]
) -> Iterator[Action]:
    """*after*: the pools as they will be; changed with each that is declared."""
    changed = []
    for pool in pools:
        before = state.pools.get(pool.name)
        _check_settings(flavors, pool, topology=state.topology)
        same = before is not None and replace(pool, state=before.state) == before
        if before is None or before.state is PoolState.ARCHIVED or not same:
            archived = before is not None and before.state is PoolState.ARCHIVED
            event = PoolEvent.CREATE if archived else PoolEvent.RESIZE
            pool = replace(pool, state=PoolState.ACTIVE if before is None else _next_state(before, event))
            changed.append(PutPool(pool, before))
            after[pool.name] = pool
    for action in changed:
        _check_slices(after, action.pool)
    yield from changed


def _prune_pools(state: State, names: Iterable[str], after: dict[str, Pool]) -> Iterator[Action]:
    """Subpools before their parents, and before anything is declared: an idle one makes room for another (law S1)."""
    for name in names:
        kind, _, short = name.partition("/")
        if kind == "pool" and short in after and after[short].state is PoolState.ACTIVE:
            actions = _delete(state, short, after).actions
            after.update({action.pool.name: action.pool for action in actions if isinstance(action, PutPool)})
            yield from actions


def _prune_cohorts(
    cohorts: Mapping[str, Cohort], in_file: Collection[str], pools: Collection[Pool], names: Iterable[str]
) -> Iterator[Action]:
    """A cohort stays while something hangs under it that is not in the file: of that nobody said that it shall lose its place.

    *cohorts*: as they will be; *pools*: those that are not in the file.  What the file itself hangs under a name that it does
    not declare is under a cohort that is only named (law Q6).
    """
    left = {name: cohort for name, cohort in cohorts.items() if name not in in_file}
    going = [left[name.partition("/")[2]] for name in names if name.startswith("cohort/") and name[7:] in left]
    while free := [each for each in going if not _children(each.name, left.values(), pools)]:
        for each in free:
            going.remove(each)
            del left[each.name]
            yield DropCohort(each)
