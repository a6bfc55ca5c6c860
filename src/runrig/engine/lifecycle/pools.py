"""Life of pools and cohorts: created, resized, deleted, drained (subpools.md; laws Q5, Q7, R7, S1-S6).

Functions that plan a change check it against the whole tree and refuse it as a whole; none of them stops running work.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from runrig.domain.cluster import ClusterSpec
from runrig.domain.errors import Conflict, InvalidInput, NotFound, Problem, Refused
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
    name_problem,
    topology_problem,
    weight_problem,
)
from runrig.domain.quantities import LARGEST
from runrig.domain.workflows import Status
from runrig.engine.explain import report
from runrig.engine.lifecycle import subpools
from runrig.engine.lifecycle.subpools import MOST_NAMED
from runrig.engine.lifecycle.workflows import cancel
from runrig.engine.state.state import State

RUNRIG = "runrig"
"""Who acts where nobody is named."""

LONGEST_DESCRIPTION = 1000

# ---------------------------------------------------------------- pools


def put_pool(state: State, pool: Pool, *, create: bool) -> Plan:
    """Creates *pool*, or gives it new settings; its subpools follow.  Of a subpool only name and GPUs are looked at (law S5).

    Raises InvalidInput for what cannot be, Conflict for a name that is taken or a state that forbids it (an ARCHIVED name may
    be created again), NotFound for an update of nothing, Refused where a promise would break (law S1).
    """
    before = state.pools.get(pool.name)
    if before is None and not create:
        raise NotFound(f"no pool {pool.name!r}: `runrig pool list` shows those there are")
    if pool.parent is not None:
        parent = subpools.parent_of(state.pools, pool)
        _check_quotas(state.flavors, pool.quotas)
        pool = subpools.inherited(parent, pool)
    _check_settings(state.flavors, pool, topology=state.topology)
    event = PoolEvent.CREATE if create else PoolEvent.RESIZE
    pool = replace(pool, state=PoolState.ACTIVE if before is None else _next_state(state, before, event))
    if pool.parent is not None:
        subpools.check_has_gpus(pool)
    following = [PutPool(after, child) for child, after in subpools.followers(state.pools, pool)]
    if pool == before and not following:
        return Plan()
    changed = {pool.name: pool, **{each.pool.name: each.pool for each in following}}
    subpools.check_slices({**state.pools, **changed}, pool)
    return Plan((PutPool(pool, before), *following))


def follow_parents(state: State) -> Plan:
    """What subpools of an older release, which did not follow their parents' changes, have from them now (law S5)."""
    parents = sorted({each.parent for each in state.pools.values() if each.parent is not None})
    return Plan(
        tuple(
            PutPool(after, child)
            for parent in parents
            for child, after in subpools.followers(state.pools, state.pools[parent])
        )
    )


def _next_state(state: State, pool: Pool, event: PoolEvent) -> PoolState:
    """Raises Conflict, with what still runs in a DELETING pool."""
    after = TRANSITIONS.get((pool.state, event))
    if after is not None:
        return after
    details: dict[str, object] = {"pool": pool.name, "state": pool.state.value}
    start = f"pool {pool.name} is {pool.state.value}"
    if pool.state is PoolState.ACTIVE:
        command = (
            f"pool subpool update {pool.parent} {pool.subpool_name}" if pool.parent else f"pool update {pool.name}"
        )
        raise Conflict(f"{start}: the name is taken; `runrig {command}` changes it", details)
    if pool.state is PoolState.ARCHIVED:
        again = "create it again to use it" if event is PoolEvent.RESIZE else "it was deleted already"
        raise Conflict(f"{start}: {again}", details)
    left = report.remaining(state, pool.name)
    raise Conflict(
        f"{start}, and {left} still run there: until they have ended it cannot be changed, deleted or created again",
        details | {"gpus": left.gpus, "workflows": left.workflows},
    )


def delete_pool(state: State, name: str, *, user: str = RUNRIG) -> Plan:
    """ARCHIVED at once if nothing of it is alive, else DELETING; its work that never started is cancelled (law S3).

    *user*: who deletes it.  Raises NotFound, and Conflict while it has subpools or is deleted already.
    """
    return _delete(state, name, state.pools, user)


def _delete(state: State, name: str, pools: Mapping[str, Pool], user: str) -> Plan:
    """*pools*: as they will be by then; what is to be archived before it is no subpool any more."""
    pool = pools.get(name)
    if pool is None:
        raise NotFound(f"no pool {name!r}: `runrig pool list` shows those there are")
    children = [each.name for each in subpools.children_of(pools, name)]
    if children:
        rest = f" and {len(children) - MOST_NAMED} more" if len(children) > MOST_NAMED else ""
        names = ", ".join(children[:MOST_NAMED]) + rest
        raise Conflict(f"pool {name} has subpools ({names}): delete them first", {"pool": name, "subpools": children})
    live = sorted(each.id for each in state.workflows.values() if each.pool == name and not each.status.finished)
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


def archive_drained(state: State) -> Iterator[Action]:
    """DELETING pools in which nothing is alive any more, in the very cycle in which the last workflow ended (law S3)."""
    draining = [pool for pool in state.pools.values() if pool.state is PoolState.DELETING]
    if not draining:
        return
    alive = {each.pool for each in state.workflows.values() if not each.status.finished}
    for pool in sorted(draining, key=lambda pool: pool.name):
        if pool.name not in alive:
            yield PutPool(replace(pool, state=_next_state(state, pool, PoolEvent.DRAINED)), pool)


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
    if wrong := weight_problem(cohort.weight):
        raise InvalidInput.one(wrong, "weight")
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
    if wrong := weight_problem(pool.weight):
        problems.append(Problem(wrong, "weight"))
    if wrong := topology_problem(pool.topology_keys):
        problems.append(Problem(wrong, "topology_keys"))
    if pool.topology_keys and not topology:
        problems.append(Problem("this backend has no topology: leave the topology keys out", "topology_keys"))
    if problems:
        raise InvalidInput(tuple(problems))
    _check_quotas(flavors, pool.quotas)


def _name_problems(pool: Pool) -> Iterator[str]:
    """Of a subpool its parent's name is known to be right, and its own was looked at with it."""
    if pool.parent is None:
        yield from filter(None, (name_problem("pool", pool.name),))
    if pool.cohort is not None:
        yield from filter(None, (name_problem("cohort", pool.cohort),))
    if len(pool.description) > LONGEST_DESCRIPTION or not pool.description.isprintable():
        yield f"a description is one line of at most {LONGEST_DESCRIPTION} printable characters"
    if "<" in pool.description or ">" in pool.description:
        yield "a description is plain text: write it without < and >"


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


# ---------------------------------------------------------------- a whole file


def declare(state: State, cluster: ClusterSpec, *, prune: Collection[str] = (), user: str = RUNRIG) -> Plan:
    """What makes the state as *cluster* declares it; nothing else is touched, but for *prune* ("pool/NAME", "cohort/NAME").

    *user*: who does it.  Raises what the single edits raise, before anything is changed.
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
        flavor = flavor_of(node, wanted)
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
    """*after*: the pools as they will be; changed with each that is declared.  Parents come before their subpools."""
    changed: dict[str, None] = {}
    for pool in pools:
        before = state.pools.get(pool.name)
        if pool.parent is not None:
            parent = subpools.parent_of(after, pool)
            _check_quotas(flavors, pool.quotas)
            pool = subpools.inherited(parent, pool)
        _check_settings(flavors, pool, topology=state.topology)
        pool = replace(pool, state=_declared_state(state, before, pool))
        if pool.parent is not None and pool.state is PoolState.ACTIVE:
            subpools.check_has_gpus(pool)
        after[pool.name] = pool
        changed[pool.name] = None
    for parent in [after[name] for name in dict.fromkeys(after[name].parent or name for name in changed)]:
        for child, follower in subpools.followers(after, parent):
            after[child.name] = follower
            changed[child.name] = None
        subpools.check_slices(after, parent)
    for name in changed:
        if after[name] != state.pools.get(name):
            yield PutPool(after[name], state.pools.get(name))


def _declared_state(state: State, before: Pool | None, pool: Pool) -> PoolState:
    """What *pool* is once it is declared.  What only follows from its parent's change is none of its own (law S5)."""
    if before is None:
        return PoolState.ACTIVE
    if before.state is PoolState.ARCHIVED:
        return _next_state(state, before, PoolEvent.CREATE)
    same = (
        gpus_of(pool.quotas) == gpus_of(before.quotas) if pool.parent else replace(pool, state=before.state) == before
    )
    return before.state if same else _next_state(state, before, PoolEvent.RESIZE)


def _prune_pools(state: State, names: Iterable[str], after: dict[str, Pool], user: str) -> Iterator[Action]:
    """Subpools before their parents, and before anything is declared: an idle one makes room for another (law S1)."""
    for name in names:
        kind, _, short = name.partition("/")
        if kind == "pool" and short in after and after[short].state is PoolState.ACTIVE:
            actions = _delete(state, short, after, user).actions
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
