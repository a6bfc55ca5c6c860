"""A pool or subpool by its name, or a refusal that names those that there are."""

from runrig.domain.errors import NotFound
from runrig.domain.pools import SUBPOOL_DELIMITER, Pool, PoolState
from runrig.engine import subpools
from runrig.engine.state import State
from runrig.spec import cluster


def live_pool(state: State, name: str) -> Pool:
    """Raises NotFound, with the names that there are."""
    pool = state.pools.get(name)
    if pool is None or pool.state is PoolState.ARCHIVED:
        there = sorted(each.name for each in state.pools.values() if each.state is not PoolState.ARCHIVED)
        raise NotFound(f"there is no pool {name!r}: there are {cluster.listed(there) or 'none yet'}")
    return pool


def any_subpool(state: State, parent: str, short: str) -> Pool:
    """In any of its states.  Raises NotFound, with the names that there are."""
    found = state.pools.get(f"{parent}{SUBPOOL_DELIMITER}{short}")
    if found is not None and found.parent == parent:
        return found
    live_pool(state, parent)
    there = [each.subpool_name or "" for each in subpools.children_of(state.pools, parent)]
    has = f"it has {cluster.listed(there)}" if there else "it has none"
    raise NotFound(f"pool {parent} has no subpool {short!r}: {has}")
