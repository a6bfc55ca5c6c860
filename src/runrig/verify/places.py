"""Finds out whether a gang fits on nodes now, in both layers (T1, N1).

A placement that is found is a proof; that none is found proves nothing, so the rules ask only *could it have started?*
"""

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any

from .gang import Gang, Placement
from .nodes import fits
from .quota import LAYERS
from .world import World

Pods = list[tuple[int, int]]
"""(index of the pod set, index of the pod)."""
MOST_CHOICES = 64


def usable(world: World, gang: Gang) -> list[tuple[str, ...]]:
    """The flavors that each pod set can have, in the order of the pool. None if an edit took away the one that it names."""
    pool = world.pools[gang.pool]
    allowed = tuple(pool["flavors"]) or tuple(world.flavors)
    named = [one.get("platform") or pool.get("default_platform") for one in gang.sets]
    return [tuple(flavor for flavor in allowed if name in (None, flavor)) for name in named]


def choices(world: World, gang: Gang) -> list[tuple[str, ...]]:
    """The flavors that its pod sets can have together; where these are many, only the same for all that name none."""
    each = usable(world, gang)
    widest = max(each, key=len)
    if all(each) and (len({*each}) * len(widest) > MOST_CHOICES or len(widest) ** len(each) > MOST_CHOICES):
        return [tuple(one[0] if len(one) == 1 else flavor for one in each) for flavor in widest]
    return list(product(*each))


def groups(world: World, gang: Gang, pod: tuple[int, int]) -> list[tuple[Any, ...] | None]:
    """For each level of the pool, coarse to fine: the group of the pod; None: it requires no domain of that level."""
    index, number = pod
    named = {each["key"]: each for each in gang.sets[index]["topology"]}
    found, path = list[tuple[Any, ...] | None](), tuple[Any, ...]()
    for level in world.pools[gang.pool]["topology_keys"]:
        need = named.get(level["key"])
        size = need.get("slice_size") if need else None
        path = *path, need and (level["key"], need.get("group", "default"), size and (index, number // size))
        found.append(path if need and need.get("required", True) else None)
    return found


class Search:
    """A try to place *counts* pods of a gang with these *flavors*, best fit, in the room that is left in *layers*."""

    def __init__(
        self, world: World, gang: Gang, counts: Sequence[int], flavors: Sequence[str], layers: tuple[int, ...] = LAYERS
    ) -> None:
        self.world, self.gang, self.flavors, self.layers = world, gang, flavors, layers
        self.pods = [(index, number) for index, count in enumerate(counts) for number in range(count)]
        self.levels = [each["label"] for each in world.pools[gang.pool]["topology_keys"]]
        needs = [need for each in gang.sets for need in each["topology"]]
        self.depth = len(self.levels) if any(need.get("required", True) for need in needs) else 0
        self.group_of = {pod: groups(world, gang, pod) for pod in self.pods} if self.depth else {}
        labels, self.left = {*self.levels} if needs else set[str](), dict[str, dict[str, int]]()
        takes = [name for name in world.nodes if world.takes.get(name) in flavors]
        self.usable = [name for name in takes if labels <= world.nodes[name]["labels"].keys()]

    def succeeds(self) -> bool:
        return self._fill(self.pods, self.usable, 0)

    def _fill(self, pods: Pods, nodes: list[str], level: int) -> bool:
        if level == self.depth:
            return self._pack(pods, nodes)
        parts: dict[Any, Pods] = {}
        for pod in pods:
            parts.setdefault(self.group_of[pod][level], []).append(pod)
        alone = parts.pop(None, [])
        several = sorted(parts.values(), key=lambda each: (-len(each), each))
        placed = all(self._in_a_domain(part, nodes, level) for part in several)
        return placed and (not alone or self._fill(alone, nodes, level + 1))

    def _in_a_domain(self, pods: Pods, nodes: list[str], level: int) -> bool:
        domains: dict[tuple[str, ...], list[str]] = {}
        for name in nodes:
            labels = self.world.nodes[name]["labels"]
            domains.setdefault(tuple(labels[label] for label in self.levels[: level + 1]), []).append(name)
        gpus = {name: self._room(name).get("gpu", 0) for name in nodes}
        for names in sorted(domains.values(), key=lambda names: (sum(gpus[name] for name in names), names)):
            kept = {name: dict(self._room(name)) for name in names}
            if self._fill(pods, names, level + 1):
                return True
            self.left |= kept
        return False

    def _pack(self, pods: Pods, nodes: list[str]) -> bool:
        counts = Counter(index for index, _ in pods)
        for index in sorted(counts, key=lambda index: (-self.gang.requests[index].get("gpu", 0), index)):
            need, left, flavor = self.gang.requests[index], counts[index], self.flavors[index]
            there = [name for name in nodes if self.world.takes.get(name) == flavor]
            for name in sorted(there, key=lambda name: (fits(self._room(name), need), name)):
                room = self._room(name)
                several = min(left, fits(room, need))
                left -= several
                for resource in need.keys() & room.keys():
                    room[resource] -= need[resource] * several
            if left:
                return False
        return True

    def _room(self, name: str) -> dict[str, int]:
        if name not in self.left:
            self.left[name] = dict(self.world.rooms[self.layers].of(name))
        return self.left[name]


def shared_levels(world: World, gang: Gang) -> int | None:
    """How many levels all pods share: the finest one that they require, counted from the coarsest; None: they differ in that."""
    needs = gang.sets[0]["topology"]
    if len(gang.sets) > 1 or any(need.get("slice_size") for need in needs):
        return None
    required = {need["key"] for need in needs if need.get("required", True)}
    return max(
        (at for at, each in enumerate(world.pools[gang.pool]["topology_keys"], 1) if each["key"] in required), default=0
    )


def as_placement(flavors: Sequence[str], counts: Sequence[int]) -> Placement:
    """Returns a placement without nodes, for questions about quota."""
    return [{"flavor": flavor, "count": count} for flavor, count in zip(flavors, counts, strict=True)]
