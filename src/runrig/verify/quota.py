"""The quota tree of a log for one flavor and resource: balances, headroom and what HIGH and NORMAL work draws (Q1 to Q8, P2).

Amounts are kept per layer: CHARGED is what was decided, REAL is what is held.
"""

from collections.abc import Mapping
from typing import Any

CHARGED, REAL = 0, 1
LAYERS = (CHARGED, REAL)
NO_LIMIT = 1 << 62
Rows = Mapping[str, Mapping[str, Any]]


class Node:
    """A node of the tree, with *path* from itself to the root. *steps*: those of it that have limits, and the root: others pass on
    any balance. *whole*: the nominal of a pool with its subpools; None for others.

    Per layer: *balance*: T of law Q3. *held*: by its subtree, as far as CHARGED. *used*: by HIGH and NORMAL work of it; *wanted*: what
    reaches it of *used*.
    """

    __slots__ = ("balance", "borrow", "held", "lend", "name", "nominal", "path", "steps", "used", "wanted", "whole")

    def __init__(self, name: str, above: "Node | None", nominal: int, quota: Mapping[str, Any]) -> None:
        """*quota*: has its limits."""
        borrow, lend = quota.get("borrowing_limit"), quota.get("lending_limit")
        self.name, self.nominal = name, nominal
        self.whole: int | None = None
        self.borrow, self.lend = NO_LIMIT if borrow is None else borrow, NO_LIMIT if lend is None else lend
        self.path: tuple[Node, ...] = (self, *(above.path if above is not None else ()))
        self.steps = tuple(each for each in self.path if len(each.path) == 1 or min(each.borrow, each.lend) < NO_LIMIT)
        self.balance, self.held, self.used, self.wanted = [0, 0], [0, 0], [0, 0], [0, 0]
        for layer in LAYERS:
            self.move(nominal, layer)

    def move(self, change: int, layer: int) -> None:
        """Changes the balance, and those above as far as they notice: what a node does not lend is not theirs."""
        for node in self.steps:
            old, lend = node.balance[layer], node.lend
            node.balance[layer] = new = old + change
            change = (new if new < lend else lend) - (old if old < lend else lend)  # Faster than min().
            if not change:
                return

    def charge(self, amount: int, layer: int, *, firm: bool) -> None:
        """*amount* below zero gives it back."""
        self.move(-amount, layer)
        asked = amount
        for node in self.path if firm or layer == CHARGED else ():
            node.held[layer] += amount
            if firm:
                node.used[layer] += amount
            if firm and asked:
                old, nominal = node.wanted[layer], node.nominal
                node.wanted[layer] = new = old + asked
                asked = max(0, new - nominal) - max(0, old - nominal)

    def headroom(self, layer: int) -> int:
        """Law Q4, from the root down."""
        room = self.steps[-1].balance[layer]
        for node in self.steps[-2::-1]:
            balance, lend = node.balance[layer], node.lend
            room = min(balance + node.borrow, room + balance - lend if balance > lend else room)
        return room

    def may_draw(self, layer: int) -> int:
        """Returns how much HIGH and NORMAL work below it can draw from the nodes above it, by P2, including what it draws now."""
        drawn = free = 0
        for node in reversed(self.path):
            spare = node.nominal - node.wanted[layer]
            drawn = min(node.borrow, max(0, free + drawn - min(0, spare)))
            free = spare
        return drawn

    def promise(self, layer: int) -> int:
        """Law P2: how much more HIGH and NORMAL work of this leaf may use; below zero after a cut."""
        most, free, own = NO_LIMIT, 0, self.path[1]
        for node in self.path:
            spare = node.nominal - node.wanted[layer]
            if spare > 0:
                free += spare
            drawn = node.borrow if spare > 0 else max(0, node.borrow + spare)
            if free + drawn < most:
                most = free + drawn
            if node.whole is not None and node is not own:
                most = min(most, node.whole + node.may_draw(layer) - node.used[layer])
        return most

    def over(self, layer: int = CHARGED) -> int:
        """Returns what the subtree holds without what HIGH and NORMAL work of it draws from the nodes above it, for law R2."""
        asks = self.wanted[layer] - self.nominal
        return self.held[layer] - (min(asks, self.may_draw(layer)) if asks > 0 else 0)

    def spare(self, layer: int) -> int:
        """How much more LOW work of the pool stays within its nominal, by law P4."""
        return (self.whole or 0) - self.over(layer)


class Tree:
    """*firm* and *low*: pool → its two leaves. *pools*: their nodes."""

    def __init__(self, key: str, pools: Rows, cohorts: Rows, capacity: int) -> None:
        """*key*: ``flavor/resource``. *capacity*: what all nodes have of it."""
        self._key, self._declared, self._spare = key, cohorts, 0
        self._root = Node("the cluster", None, 0, {"borrowing_limit": 0})
        self._cohorts: dict[str, Node] = {}
        self.pools: dict[str, Node] = {}
        self.firm: dict[str, Node] = {}
        self.low: dict[str, Node] = {}
        there = [pool for pool in pools.values() if pool["state"] != "ARCHIVED"]
        for name in cohorts:
            self._cohort(name)
        for pool in sorted(there, key=lambda pool: pool["parent"] is not None):
            self._pool(pool, [each for each in there if each["parent"] == pool["name"]])
        self.resize(capacity)

    def leaf(self, pool: str, *, firm: bool) -> Node:
        return (self.firm if firm else self.low)[pool]

    def resize(self, capacity: int) -> None:
        """The root has what no quota assigns (Q8)."""
        spare = max(0, capacity - sum(node.nominal for node in (*self._cohorts.values(), *self.firm.values())))
        for layer in LAYERS:
            self._root.move(spare - self._spare, layer)
        self._spare = spare

    def _quota(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        return row.get("quotas", {}).get(self._key, {})  # type: ignore[no-any-return]

    def _cohort(self, name: str | None) -> Node:
        for each in reversed(line(self._declared, name)[0]):
            if each not in self._cohorts:
                row = self._declared.get(each, {})
                above, quota = self._cohorts.get(row.get("parent", ""), self._root), self._quota(row)
                self._cohorts[each] = Node(each, above, quota.get("nominal", 0), quota)
        return self._root if name is None else self._cohorts[name]

    def _pool(self, pool: Mapping[str, Any], subpools: list[Any]) -> None:
        """The node of a pool has its limits; its nominal is in the firm leaf, less what its subpools have."""
        name, quota = pool["name"], self._quota(pool)
        above = self._cohort(pool["cohort"]) if pool["parent"] is None else self.pools[pool["parent"]]
        node = self.pools[name] = Node(name, above, 0, quota)
        inner = Node(f"own work of {name}" if subpools else name, node, 0, {})
        node.whole = quota.get("nominal", 0)
        inner.whole = own = node.whole - sum(self._quota(each).get("nominal", 0) for each in subpools)
        self.firm[name], self.low[name] = Node(name, inner, own, {}), Node(name, inner, 0, {})

    def outermost(self, preempted: str, preemptor: str) -> Node:
        """Returns the pool of *preempted* that counts for *preemptor* by R2: the outermost one below the node that both have in common."""
        common = self.firm[preemptor].path
        return [node for node in self.firm[preempted].path if node.whole is not None and node not in common][-1]


def line(cohorts: Rows, name: str | None) -> tuple[list[str], str | None]:
    """The cohorts from *name* up, each once, and the parent of the last: one of these if they are a cycle (Q5), else None."""
    above: list[str] = []
    while name is not None and name not in above:
        above.append(name)
        name = cohorts.get(name, {}).get("parent")
    return above, name
