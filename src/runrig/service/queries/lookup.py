"""A pool or subpool by its name, or a refusal that names those that there are: to each only those that they see."""

from runrig.domain.errors import NotFound
from runrig.domain.pools import SUBPOOL_DELIMITER, Pool, PoolState
from runrig.engine.lifecycle import subpools
from runrig.engine.state.state import State
from runrig.service.queries.visibility import ALL, Visibility
from runrig.spec import cluster


def live_pool(state: State, name: str, visibility: Visibility = ALL) -> Pool:
    """Raises NotFound, with the names that there are."""
    pool = state.pools.get(name)
    if pool is None or pool.state is PoolState.ARCHIVED or not visibility.sees(name):
        live = (each.name for each in state.pools.values() if each.state is not PoolState.ARCHIVED)
        raise NotFound(
            f"there is no pool {name!r}: there are {cluster.listed(sorted(visibility.of(live))) or visibility.none_there}"
        )
    return pool


def known_pool(state: State, name: str, visibility: Visibility = ALL) -> Pool:
    """In any of its states.  Raises NotFound."""
    pool = state.pools.get(name)
    return pool if pool is not None and visibility.sees(name) else live_pool(state, name, visibility)


def any_subpool(state: State, parent: str, short: str, visibility: Visibility = ALL) -> Pool:
    """In any of its states.  Raises NotFound, with the names that there are."""
    found = state.pools.get(f"{parent}{SUBPOOL_DELIMITER}{short}")
    if found is not None and found.parent == parent and visibility.sees(parent):
        return found
    live_pool(state, parent, visibility)
    there = [each.subpool_name or "" for each in subpools.children_of(state.pools, parent)]
    has = f"it has {cluster.listed(there)}" if there else "it has none"
    raise NotFound(f"pool {parent} has no subpool {short!r}: {has}")


def no_workflow(id: str) -> NotFound:
    """As the store says it, so that what is not seen cannot be told from what is not there."""
    return NotFound(f"there is no workflow {id!r}: `runrig workflow list` lists them all")
