"""Questions about the domains of the nodes: values from the state in memory.  Nothing here changes anything."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from runrig.domain.errors import InvalidInput
from runrig.domain.pools import Pool, PoolState, TopologyKey
from runrig.engine.explain.topology_report import topology_report
from runrig.engine.explain.topology_values import (
    MOST_HOLDERS,
    DomainGpus,
    DomainReport,
    GangsThatFit,
    Holder,
    LevelReport,
    Size,
    TopologyQuestion,
    TopologyReport,
    UnlabelledNode,
)
from runrig.engine.state.state import State
from runrig.service.queries import redaction
from runrig.service.queries.lookup import live_pool
from runrig.service.queries.visibility import ALL, Visibility
from runrig.service.runtime.transactor import Transactor

__all__ = [
    "MOST_HOLDERS",
    "DomainGpus",
    "DomainReport",
    "GangsThatFit",
    "Holder",
    "LevelReport",
    "Map",
    "MapQuery",
    "Size",
    "Topology",
    "TopologyReport",
    "UnlabelledNode",
    "parse_size",
]

_SIZE = re.compile(r"([0-9]{1,9})(?:[xX×]([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True)
class Map:
    """*report* on the nodes that *pools*, which have these keys in common, may use between them."""

    pools: tuple[str, ...]
    report: TopologyReport


@dataclass(frozen=True, slots=True)
class MapQuery:
    """*pool* None: all.  *level*: the finest one that is shown, by its key; None: all of them.  *nodes*: below these."""

    pool: str | None = None
    size: Size | None = None
    level: str | None = None
    nodes: bool = False
    holders: int = MOST_HOLDERS


class Topology:
    def __init__(self, transactor: Transactor) -> None:
        self._transactor = transactor

    def maps(self, query: MapQuery, visibility: Visibility = ALL) -> tuple[Map, ...]:
        """One for each list of keys that pools have, those without keys last; with *level* those that have it.

        Of pools that *visibility* does not reach neither the pool nor a holder is named: these are among the others.

        Raises NotFound for the pool, InvalidInput for a level that none has.
        """
        with self._transactor.reading() as state:
            by_keys = _by_keys(state, query.pool, visibility)
            if query.level is not None:
                by_keys = _with_level(by_keys, query.level)
            return tuple(_map(state, keys, pools, query, visibility) for keys, pools in by_keys)


Shared = tuple[tuple[TopologyKey, ...], list[Pool]]


def _by_keys(state: State, name: str | None, visibility: Visibility) -> list[Shared]:
    chosen = state.pools.values() if name is None else (live_pool(state, name, visibility),)
    found: dict[tuple[TopologyKey, ...], list[Pool]] = {}
    for pool in sorted(chosen, key=lambda each: each.name):
        if pool.state is not PoolState.ARCHIVED and visibility.sees(pool.name):
            found.setdefault(_settings(state, pool).topology_keys, []).append(pool)
    return sorted(found.items(), key=lambda each: not each[0])


def _with_level(by_keys: Sequence[Shared], level: str) -> list[Shared]:
    found = [each for each in by_keys if level in _names(each[0])]
    if not found:
        there = ", ".join(dict.fromkeys(name for keys, _ in by_keys for name in _names(keys)))
        has = f"there are {there}" if there else "there are none here, so leave it out"
        raise InvalidInput.one(f"level {level!r:.80} is no topology key: {has}", "level")
    return found


def _names(keys: Sequence[TopologyKey]) -> list[str]:
    return [each.key for each in keys]


def _map(
    state: State, keys: tuple[TopologyKey, ...], pools: Sequence[Pool], query: MapQuery, visibility: Visibility
) -> Map:
    flavors = {name for pool in pools for name in _settings(state, pool).flavors or tuple(state.flavors)}
    depth = None if query.level is None else _names(keys).index(query.level) + 1
    # Those that are seen shall not be pushed out of the list by others, who are not named anyway.
    holders = query.holders if visibility.whole else len(state.ledger.entries)
    found = topology_report(state.ledger, keys, flavors, TopologyQuestion(query.size, depth, query.nodes, holders))
    if not visibility.whole:
        found = redaction.survey(found, visibility.sees, query.holders)
    return Map(tuple(each.name for each in pools), found)


def _settings(state: State, pool: Pool) -> Pool:
    """What a subpool has from its parent (law S5)."""
    return pool if pool.parent is None else state.pools[pool.parent]


def parse_size(text: str) -> Size:
    """``64``: so many pods of one GPU; ``8x8``: pods, GPUs of each.  Raises InvalidInput."""
    match = _SIZE.fullmatch(text.strip())
    size = Size(int(match[1]), int(match[2] or 1)) if match else Size(0, 0)
    if size.pods < 1 or size.gpus < 1:
        raise InvalidInput.one(
            f"size {text!r:.80} is no size of a gang: write its pods of one GPU, such as 64, "
            "or PODSxGPUS, such as 8x8, each at least 1 and at most 999999999",
            "size",
        )
    return size
