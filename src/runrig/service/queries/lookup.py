"""Finds a pool, a subpool or a workflow by name. Errors list those that the user may see."""

from collections.abc import Sequence
from dataclasses import replace

from runrig.domain.errors import NotFound
from runrig.domain.meant import suggested
from runrig.domain.pools import SUBPOOL_DELIMITER, Pool, PoolState
from runrig.domain.quantities import few
from runrig.engine.lifecycle import subpools
from runrig.engine.state.state import State
from runrig.ports.store import WorkflowQuery, WorkflowReads
from runrig.service.queries.visibility import ALL, Visibility

MOST_LOOKED_AT = 500
"""Number of newest workflows that are compared with an unknown id."""
LONGEST_ID = 200


def live_pool(state: State, name: str, visibility: Visibility = ALL) -> Pool:
    """Returns the pool *name* unless it is ARCHIVED. Raises NotFound with the existing names."""
    pool = state.pools.get(name)
    if pool is None or pool.state is PoolState.ARCHIVED or not visibility.sees(name):
        raise _no_pool(state, name, visibility)
    return pool


def _no_pool(state: State, name: str, visibility: Visibility) -> NotFound:
    archived = state.pools.get(name)
    if archived is not None and archived.state is PoolState.ARCHIVED and visibility.sees(name):
        again = f"subpool create {archived.parent} {archived.subpool_name}" if archived.parent else f"create {name}"
        return NotFound(f"{name} is ARCHIVED. Create it again with `runrig pool {again} --quota GPUS`")
    live = visibility.of(each.name for each in state.pools.values() if each.state is not PoolState.ARCHIVED)
    parent, _, short = name.partition(SUBPOOL_DELIMITER)
    if short and parent in live:
        names = [child.subpool_name or "" for child in subpools.children_of(state.pools, parent)]
        there = f" (subpools: {few(names) or 'none'})"
        return NotFound(f"pool {parent} has no subpool {short!r}{suggested(short, names, there)}")
    there = f" (pools: {few(sorted(live)) or visibility.none_there})"
    return NotFound(f"unknown pool {name!r}{suggested(name, live, there)}")


def known_pool(state: State, name: str, visibility: Visibility = ALL) -> Pool:
    """Returns the pool *name* in any state. Raises NotFound."""
    pool = state.pools.get(name)
    return pool if pool is not None and visibility.sees(name) else live_pool(state, name, visibility)


def any_subpool(state: State, parent: str, short: str, visibility: Visibility = ALL) -> Pool:
    """Returns the subpool *short* of *parent* in any state. Raises NotFound with the existing names."""
    name = f"{parent}{SUBPOOL_DELIMITER}{short}"
    subpool = state.pools.get(name)
    if subpool is not None and subpool.parent == parent and visibility.sees(parent):
        return subpool
    live_pool(state, parent, visibility)
    raise _no_pool(state, name, visibility)


def no_workflow(id: str, seen: Sequence[str] = ()) -> NotFound:
    """Returns the same error for hidden and for missing workflows. *seen*: ids that the user can see."""
    way_out = suggested(id, seen, ". List workflows with `runrig workflow list`")
    return NotFound(f"workflow {id!r:.200} not found{way_out}")


def unknown_workflow(store: WorkflowReads, id: str, visibility: Visibility) -> NotFound:
    """Suggests visible workflows whose ids are similar to *id* or begin with it."""

    def ids(query: WorkflowQuery) -> list[str]:
        return [each.id for each in store.workflows(within(query, visibility))[0]]

    word = id[:LONGEST_ID]
    named = ids(WorkflowQuery(name=word, limit=MOST_LOOKED_AT))
    return no_workflow(id, [*named, *ids(WorkflowQuery(limit=MOST_LOOKED_AT))])


def pool_of(store: WorkflowReads, workflow: str) -> str | None:
    """Returns the pool of the workflow with this id; None if retention deleted it."""
    try:
        return store.head(workflow).pool
    except NotFound:
        return None


def within(query: WorkflowQuery, visibility: Visibility) -> WorkflowQuery:
    """Limits *query* to *visibility*; if nothing is left, to a pool that does not exist."""
    if visibility.whole:
        return query
    pools = visibility.of(query.pools)
    if not visibility.tops or (query.pools and not pools):
        return replace(query, pools=("",))
    return replace(query, pools=pools, below=visibility.tops)


def settings_of(state: State, pool: Pool) -> Pool:
    """Returns the pool with the settings of *pool*: for a subpool, its parent (rule S5)."""
    return pool if pool.parent is None else state.pools[pool.parent]


def flavors_of(state: State, pool: Pool) -> tuple[str, ...]:
    """Returns the flavors that *pool* can use."""
    return settings_of(state, pool).flavors or tuple(state.flavors)
