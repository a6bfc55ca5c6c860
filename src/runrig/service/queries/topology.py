"""Queries about the domains of nodes, from the state in memory."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from runrig.domain.errors import InvalidInput
from runrig.domain.pools import Pool, PoolState, TopologyKey
from runrig.domain.shown.topology import GangSize, TopologyAnswer, TopologyMap
from runrig.engine.explain.topology_columns import MOST_HOLDERS as MOST_HOLDERS
from runrig.engine.explain.topology_columns import TopologyQuestion
from runrig.engine.explain.topology_report import topology_report
from runrig.engine.state.state import State
from runrig.service.queries import redaction
from runrig.service.queries.lookup import flavors_of, live_pool, settings_of
from runrig.service.queries.visibility import ALL, Visibility
from runrig.service.runtime.transactor import Readable

_SIZE = re.compile(r"([0-9]{1,9})(?:[xX×]([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True)
class MapQuery:
    """*pool* None: all. *level*: the key of the finest level to show; None: all levels. *nodes*: show nodes as well."""

    pool: str | None = None
    size: GangSize | None = None
    level: str | None = None
    nodes: bool = False
    holders: int = MOST_HOLDERS


class Topology:
    def __init__(self, transactor: Readable) -> None:
        self._transactor = transactor

    def maps(self, query: MapQuery, visibility: Visibility = ALL) -> TopologyAnswer:
        """Returns a map for each list of keys that pools have, pools without keys last; with *level*, only lists that
        contain it.

        Hidden pools and their gangs are not named, but counted as others. Raises NotFound for the pool; InvalidInput
        for an unknown level.
        """
        with self._transactor.reading() as state:
            by_keys = _by_keys(state, query.pool, visibility)
            if query.level is not None:
                by_keys = _with_level(by_keys, query.level)
            maps = tuple(_map(state, keys, pools, query, visibility) for keys, pools in by_keys)
        return TopologyAnswer(query.size, maps)


Shared = tuple[tuple[TopologyKey, ...], list[Pool]]


def _by_keys(state: State, name: str | None, visibility: Visibility) -> list[Shared]:
    chosen = state.pools.values() if name is None else (live_pool(state, name, visibility),)
    by_keys: dict[tuple[TopologyKey, ...], list[Pool]] = {}
    for pool in sorted(chosen, key=lambda pool: pool.name):
        if pool.state is not PoolState.ARCHIVED and visibility.sees(pool.name):
            by_keys.setdefault(settings_of(state, pool).topology_keys, []).append(pool)
    return sorted(by_keys.items(), key=lambda item: not item[0])


def _with_level(by_keys: Sequence[Shared], level: str) -> list[Shared]:
    with_level = [(keys, pools) for keys, pools in by_keys if level in _names(keys)]
    if not with_level:
        known = ", ".join(dict.fromkeys(name for keys, _ in by_keys for name in _names(keys)))
        has = f" (topology keys: {known})" if known else ": these pools have no topology keys. Omit it"
        raise InvalidInput.one(f"unknown level {level!r:.80}{has}", "level")
    return with_level


def _names(keys: Sequence[TopologyKey]) -> list[str]:
    return [key.key for key in keys]


def _map(
    state: State, keys: tuple[TopologyKey, ...], pools: Sequence[Pool], query: MapQuery, visibility: Visibility
) -> TopologyMap:
    flavors = {name for pool in pools for name in flavors_of(state, pool)}
    depth = None if query.level is None else _names(keys).index(query.level) + 1
    # Hidden holders are not named, so they must not use up places in the list.
    holders = query.holders if visibility.whole else len(state.ledger.entries)
    shown = topology_report(state.ledger, keys, flavors, TopologyQuestion(query.size, depth, query.nodes, holders))
    if not visibility.whole:
        shown = redaction.survey(shown, visibility.sees, query.holders)
    return replace(shown, pools=tuple(pool.name for pool in pools))


def parse_size(text: str) -> GangSize:
    """Parses ``64`` as 64 pods of 1 GPU, ``8x4`` as 8 pods of 4 GPUs each. Raises InvalidInput."""
    match = _SIZE.fullmatch(text.strip())
    size = GangSize(int(match[1]), int(match[2] or 1)) if match else GangSize(0, 0)
    if size.pods < 1 or size.gpus < 1:
        raise InvalidInput.one(
            f"invalid size {text!r:.80}. Use a number of 1-GPU pods (64) or PODSxGPUS (8x8), each from 1 to 999999999",
            "size",
        )
    return size
