"""Which nodes take new pods, and what they have left for them."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

MOST_PODS, GONE = 1 << 30, -1
UNLIMITED_IF_UNLISTED = ("cpu", "memory", "storage", "pods")
Used = Mapping[str, Mapping[str, int]]
_keys = itemgetter("key", "value", "effect")


def takes_pods(node: Mapping[str, Any], flavors: Mapping[str, Mapping[str, Any]]) -> bool:
    """Law N1 and the rules of *flavors*: it is ready and open, and its flavor tolerates its taints."""
    if not node["ready"] or node.get("cordoned"):
        return False
    tolerated = [_keys(each) for each in flavors.get(node["flavor"], {}).get("taints", ())]
    return all(each["effect"] == "PreferNoSchedule" or _keys(each) in tolerated for each in node["taints"])


class Rooms:
    """Room that is left in all layers on *nodes* that take pods. *takes*, *touched*: of `World`. *used*: per layer; below zero.

    *kinds*: (flavor, what is left of each resource that a node lists), and once more with another node that has the same. *moves*:
    (node, number of its kind before, and since then); 0: it takes no pods. GONE: it is gone, or may have other labels now.
    """

    def __init__(
        self, nodes: Mapping[str, Any], takes: Mapping[str, str], used: Sequence[Used], touched: Sequence[str]
    ) -> None:
        self.nodes, self._takes, self._used, self.touched = nodes, takes, used, touched
        self.moves: list[tuple[str, int, int]] = []
        self.kinds: list[tuple[str, dict[str, int]]] = [("", {})]
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._now: dict[str, tuple[int, Any]] = {}
        self.seen = 0

    def of(self, name: str) -> dict[str, int]:
        """*name*: of a node that takes pods."""
        if self.seen != len(self.touched):
            self.look()
        return self.kinds[self._now[name][0]][1]

    def look(self) -> None:
        """Takes the nodes into account that were touched."""
        for name in {*self.touched[self.seen :]} if self.seen else [*self.nodes]:
            node = self.nodes.get(name)
            before, same = self._now.get(name, (0, None))
            if node is not same:
                self.moves.append((name, before, GONE))
                before = 0
            number = self._number(name, node["resources"]) if node is not None and name in self._takes else 0
            if number != before or node is not same:
                self.moves.append((name, before, number))
                self._now[name] = number, node
        self.seen = len(self.touched)

    def _number(self, name: str, there: Mapping[str, int]) -> int:
        used, other = self._used[0].get(name, {}), self._used[-1].get(name, {})
        if used != other:
            used = {resource: min(used.get(resource, 0), other.get(resource, 0)) for resource in {*used, *other}}
        room = {resource: amount + used.get(resource, 0) for resource, amount in there.items()}
        key = self._takes[name], *room, *room.values()
        if key not in self._numbers:
            self._numbers[key] = len(self.kinds)
            self.kinds.append((self._takes[name], room))
        return self._numbers[key]


def fits(room: Mapping[str, int], need: Mapping[str, int]) -> int:
    """How many pods fit."""
    most = MOST_PODS
    for resource, amount in need.items():
        there = room.get(resource)
        if there is not None:
            several = there // amount
            most = several if several < most else most  # Faster than min().
        elif resource not in UNLIMITED_IF_UNLISTED:
            return 0
    return max(0, most)
