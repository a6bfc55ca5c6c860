"""The quota tree of a log: balances, headroom and what HIGH and NORMAL work draws (Q1 to Q8, P2).

Amounts are kept per key, ``flavor/resource``, and per layer: CHARGED is what was decided, REAL is what is held.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

CHARGED, REAL = 0, 1
LAYERS = (CHARGED, REAL)
NO_LIMIT = 1 << 62
UNLIMITED = 0, NO_LIMIT, NO_LIMIT
ROOT, OWN = "the cluster", "own work of "


class Sums:
    """Sums of a node for one key in one layer. *balance*: T of law Q3. *held*: by its subtree, as far as CHARGED. *used*: by HIGH and
    NORMAL work of it; *wanted*: what reaches it of *used*.
    """

    __slots__ = ("balance", "held", "used", "wanted")

    def __init__(self) -> None:
        self.balance = self.held = self.used = self.wanted = 0


class Node:
    """A node of the tree. *sums*: per layer and key. *quota*: key → (nominal, borrowing limit, lending limit). *whole*: key → the
    nominal of a pool with its subpools. *path*: from itself to the root.
    """

    __slots__ = ("_rungs", "is_pool", "name", "parent", "path", "quota", "sums", "whole")

    def __init__(self, name: str, parent: "Node | None", quota: Mapping[str, Any], *, is_pool: bool = False) -> None:
        self.name, self.parent, self.is_pool = name, parent, is_pool
        self.path: tuple[Node, ...] = (self, *(parent.path if parent is not None else ()))
        self.quota = {key: limits(each) for key, each in quota.items()}
        self.sums = defaultdict[str, Sums](Sums), defaultdict[str, Sums](Sums)
        self.whole: dict[str, int] = {}
        self._rungs: dict[str, tuple[list[Rung], list[Rung]]] = {}

    def limits(self, key: str) -> tuple[int, int, int]:
        return self.quota.get(key, UNLIMITED)

    def rungs(self, key: str) -> tuple[list["Rung"], list["Rung"]]:
        """Its path, as (node, sums per layer, nominal, borrowing limit, lending limit).

        Then those of it that count for Q3: with limits, and the root. Others pass on whatever is above and below them.
        """
        if key not in self._rungs:
            path = [(each, (each.sums[CHARGED][key], each.sums[REAL][key]), *each.limits(key)) for each in self.path]
            counts = [each for each in path if each[0].parent is None or each[3:] != UNLIMITED[1:]]
            self._rungs[key] = path, counts
        return self._rungs[key]


Rung = tuple[Node, tuple[Sums, Sums], int, int, int]


def limits(quota: Mapping[str, Any]) -> tuple[int, int, int]:
    borrow, lend = quota.get("borrowing_limit"), quota.get("lending_limit")
    return (
        quota.get("nominal", 0),
        NO_LIMIT if borrow is None else borrow,
        NO_LIMIT if lend is None else lend,
    )


class Tree:
    """*firm* and *low*: pool → its two leaves. *nodes*: pools and cohorts by name. *circular*: cohorts above themselves (Q5)."""

    def __init__(self, pools: Mapping[str, Any], cohorts: Mapping[str, Any], capacity: Mapping[str, int]) -> None:
        """*capacity*: key → what all nodes have of it; the caller keeps it up to date."""
        self.capacity = capacity
        self.root = Node(ROOT, None, {})
        self.cohorts: dict[str, Node] = {}
        self.pools: dict[str, Node] = {}
        self.firm: dict[str, Node] = {}
        self.low: dict[str, Node] = {}
        self.assigned: dict[str, int] = {}
        self.circular: set[str] = set()
        self._declared = cohorts
        self._governed: dict[str, set[str]] = {}
        there = {name: pool for name, pool in pools.items() if pool["state"] != "ARCHIVED"}
        for name in cohorts:
            self._cohort(name)
        for pool in sorted(there.values(), key=lambda pool: pool["parent"] is not None):
            self._pool(pool, [each for each in there.values() if each["parent"] == pool["name"]])
        weights = {each.get("weight", 1) for each in [*cohorts.values(), *there.values()]}
        self.weighted = len(weights) > 1

    def _cohort(self, name: str, below: tuple[str, ...] = ()) -> Node:
        if name in self.cohorts:
            return self.cohorts[name]
        declared = self._declared.get(name, {})
        above = declared.get("parent")
        if above in (*below, name):
            self.circular |= {name, *below[: below.index(above) + 1 if above in below else 0]}
            above = None
        parent = self.root if above is None else self._cohort(above, (name, *below))
        if name not in self.cohorts:
            self.cohorts[name] = self._node(Node(name, parent, declared.get("quotas", {})))
        return self.cohorts[name]

    def _pool(self, pool: Mapping[str, Any], subpools: list[Any]) -> None:
        """The node of a pool has its limits; its nominal is in the firm leaf, less what its subpools have."""
        name, quota = pool["name"], pool["quotas"]
        own = {key: each.get("nominal", 0) for key, each in quota.items()}
        for each in subpools:
            for key, part in each["quotas"].items():
                own[key] = own.get(key, 0) - part.get("nominal", 0)
        if pool["parent"] is not None:
            above = self.pools[pool["parent"]]
        else:
            above = self.root if pool["cohort"] is None else self._cohort(pool["cohort"])
        node = self.pools[name] = Node(name, above, quota, is_pool=True)
        node.quota = {key: (0, *each[1:]) for key, each in node.quota.items()}
        inner = Node(f"{OWN}{name}" if subpools else name, node, {}, is_pool=True)
        leaf = self.firm[name] = Node(name, inner, {})
        leaf.quota = {key: (nominal, NO_LIMIT, NO_LIMIT) for key, nominal in own.items()}
        self.low[name] = Node(name, inner, {})
        for key, nominal in own.items():
            for each in leaf.path:
                each.whole[key] = each.whole.get(key, 0) + nominal
        self._node(leaf)

    def _node(self, node: Node) -> Node:
        """Hands the nominal of a new node up the tree."""
        for key, (nominal, _, _) in node.quota.items():
            self.assigned[key] = self.assigned.get(key, 0) + nominal
            for layer in LAYERS:
                self._move(node, key, nominal, layer)
        return node

    def _move(self, node: Node, key: str, change: int, layer: int) -> None:
        """Changes the balance of *node*, and of those above as far as they notice: what it does not lend is not theirs."""
        for _, pair, _, _, lend in node.rungs(key)[1]:
            sums = pair[layer]
            old = sums.balance
            sums.balance = new = old + change
            change = min(lend, new) - min(lend, old)

    def charge(self, leaf: Node, key: str, amount: int, layer: int, *, firm: bool) -> None:
        """*amount* below zero gives it back."""
        self._move(leaf, key, -amount, layer)
        asked = amount
        for _, pair, nominal, _, _ in leaf.rungs(key)[0] if firm or layer == CHARGED else ():
            sums = pair[layer]
            sums.held += amount
            if firm:
                sums.used += amount
            if firm and asked:
                old = sums.wanted
                sums.wanted = new = old + asked
                asked = max(0, new - nominal) - max(0, old - nominal)

    # ------------------------------------------------------------ questions

    def governs(self, pool: str, resource: str) -> bool:
        """A resource without quota in the pool and the cohorts above it is limited by the nodes alone."""
        if pool not in self._governed:
            self._governed[pool] = {key.partition("/")[2] for node in self.firm[pool].path for key in node.quota}
        return resource in self._governed[pool]

    def in_circle(self, pool: str) -> bool:
        return bool(self.circular) and any(node.name in self.circular for node in self.pools[pool].path)

    def headroom(self, node: Node, key: str, layer: int) -> int:
        """Law Q4, from the root down."""
        room = max(0, self.capacity.get(key, 0) - self.assigned.get(key, 0))
        for each, pair, _, borrow, lend in reversed(node.rungs(key)[1]):
            balance = pair[layer].balance
            if each.parent is None:
                room += balance
            else:
                room = min(balance + borrow, room + balance - lend if balance > lend else room)
        return room

    def may_draw(self, node: Node, key: str, layer: int) -> int:
        """Returns how much HIGH and NORMAL work below *node* can draw from the nodes above it, by P2, including what it draws now."""
        drawn, free = 0, -self.root.sums[layer][key].wanted
        for each, pair, nominal, borrow, _ in reversed(node.rungs(key)[0]):
            if each.parent is not None:
                spare = nominal - pair[layer].wanted
                drawn = min(borrow, max(0, free + drawn - min(0, spare)))
                free = spare
        return drawn

    def promise(self, leaf: Node, key: str, layer: int) -> int:
        """Law P2: how much more HIGH and NORMAL work of *leaf* may use; below zero after a cut."""
        most, free = NO_LIMIT, 0
        for node, pair, nominal, borrow, _ in leaf.rungs(key)[0]:
            sums = pair[layer]
            spare = nominal - sums.wanted
            if spare > 0:
                free += spare
            drawn = 0 if node.parent is None else borrow if spare > 0 else max(0, borrow + spare)
            if free + drawn < most:
                most = free + drawn
            if node.is_pool and node is not leaf.parent:
                most = min(most, node.whole.get(key, 0) + self.may_draw(node, key, layer) - sums.used)
        return most

    def over(self, node: Node, key: str, layer: int = CHARGED) -> tuple[int, int]:
        """Returns (what *node* holds without what it draws, its nominal), for law R2."""
        sums = node.sums[layer][key]
        drawn = max(0, sums.wanted - node.limits(key)[0])  # By HIGH and NORMAL work below it, from the nodes above it.
        drawn = min(drawn, self.may_draw(node, key, layer)) if drawn else 0
        return sums.held - drawn, node.whole.get(key, 0)

    def spare(self, node: Node, key: str, layer: int) -> int:
        held, nominal = self.over(node, key, layer)
        return nominal - held

    def outermost(self, preempted: str, preemptor: str) -> Node:
        """Returns the pool of *preempted* that counts for *preemptor* by R2: the outermost one below the node that both have in common."""
        common = {id(node) for node in self.firm[preemptor].path}
        below = [node for node in self.firm[preempted].path if id(node) not in common and node.is_pool]
        return below[-1]
