"""The quota tree: how much each node can use, lend and borrow (rules Q1–Q5).

All nodes have the same structure: cohorts, pools and leaves. Per (flavor, resource), by index into lists:

- subtree, S: the node's quota: its nominal, plus what each child lends
- local: the part of S that the lending limit withholds from the parent
- usage, U: of a leaf, what its gangs use; of an inner node, what its children use beyond their local part
- balance, T = S - U (T(x, r) in KEP-79): negative if the node borrows

Usage has two layers: CHARGED counts what decisions assume (nominated gangs, without their targets), REAL what is in use now.
Adding and subtracting are exact inverses and cost O(depth) per resource.
"""

import enum
from collections.abc import Iterable, Mapping
from fractions import Fraction

from runrig.domain.pools import Pool, Quota

CHARGED = 0
REAL = 1
LAYERS = (CHARGED, REAL)

Request = tuple[tuple[int, int], ...]
"""((index of a FlavorResource, amount above zero), …): what a gang requests from the tree."""

Weight = int | Fraction
"""A node's share of borrowed quota relative to its siblings. Integers ≥ 1 for runrig's pools; Kueue also allows 0 and fractions."""

NO_QUOTA = Quota()


class NodeKind(enum.Enum):
    ROOT = "root"
    COHORT = "cohort"
    POOL = "pool"
    OWN = "own"
    FIRM = "firm"
    LOW = "low"
    QUEUE = "queue"


class QuotaNode:
    """A node: its limits as lists by FlavorResource index, and its usage in both layers. Created by `TreeBuilder`.

    *path*: from the node to the root, both included. *below*: what its children lend it.
    *room*: S - local + borrowing limit; None without that limit. *declared*: the indices for which it has a quota.
    *height*: of an imported cohort, the number of steps to its deepest leaf.
    *active* False: in a cycle of cohorts, where nothing new starts (rule Q5). *pool*: the declared pool, on the pool's node
    only.
    *used*: of a pool with subpools, the usage of guaranteed work below it (rule P2).
    *pools_over_nominal*: number of outermost pools in the subtree that use more than their nominal (layer CHARGED), so that
    searches for borrowers can skip subtrees. *over*: the children that contain such pools.
    *borrowed*: GPUs of all flavors that the subtree uses above its quota (layer CHARGED); 0 if all weights are equal.
    *guarantee*: its twin in the tree of guaranteed work (`guarantees.py`); None if no cohort above shares quota.
    """

    __slots__ = (
        "active",
        "below",
        "borrowed",
        "borrowing",
        "children",
        "declared",
        "guarantee",
        "height",
        "kind",
        "lending",
        "local",
        "name",
        "nominal",
        "over",
        "parent",
        "path",
        "pool",
        "pools_over_nominal",
        "room",
        "subtree",
        "usage",
        "used",
        "weight",
    )

    def __init__(self, kind: NodeKind, name: str, quotas: Mapping[int, Quota], width: int, weight: Weight) -> None:
        self.kind = kind
        self.name = name
        self.weight = weight
        self.parent: QuotaNode | None = None
        self.children: list[QuotaNode] = []
        self.path: tuple[QuotaNode, ...] = (self,)
        self.active = True
        self.pool: Pool | None = None
        self.pools_over_nominal = [0] * width
        self.over: dict[QuotaNode, None] = {}
        self.borrowed = 0
        self.guarantee: QuotaNode | None = None
        self.height = 0
        self.declared = frozenset(quotas)
        listed = [quotas.get(index, NO_QUOTA) for index in range(width)]
        self.nominal = [quota.nominal for quota in listed]
        self.borrowing = [quota.borrowing_limit for quota in listed]
        self.lending = [quota.lending_limit for quota in listed]
        self.below = [0] * width
        self.subtree = [0] * width
        self.local = [0] * width
        self.room: list[int | None] = [None] * width
        self.usage = ([0] * width, [0] * width)
        self.used = ([0] * width, [0] * width)

    def __repr__(self) -> str:
        return f"<{self.kind.value} {self.name}>"

    def over_nominal(self, indices: Iterable[int]) -> bool:
        """Whether the node uses more of any of *indices* than its subtree's quota and the quota that its guaranteed work draws."""
        usage, subtree = self.usage[CHARGED], self.subtree
        for index in indices:
            over = usage[index] - subtree[index]
            if over > 0 and (self.guarantee is None or over > self.drawn(index, CHARGED)):
                return True
        return False

    def balance(self, index: int, layer: int = REAL) -> int:
        """T of rule Q3. Negative: the subtree borrows."""
        return self.subtree[index] - self.usage[layer][index]

    def drawn(self, index: int, layer: int = REAL) -> int:
        """How much of the quota shared by cohorts above its guaranteed work uses (rule P2). This does not count as borrowed.

        Less than `asked_above` after a guarantee was cut. O(depth) if anything is drawn.
        """
        if (twin := self.guarantee) is None:
            return 0
        asked = self.asked_above(index, layer)
        return max(0, asked + min(0, headroom(twin, index, layer))) if asked else 0

    def asked_above(self, index: int, layer: int = REAL) -> int:
        """How far its guaranteed work exceeds the quota of this node and the nodes below; 0 if no cohort above shares quota."""
        twin = self.guarantee
        return 0 if twin is None else max(0, twin.usage[layer][index] - twin.subtree[index])


class QuotaLeaf(QuotaNode):
    """A node that work is charged to.

    *limits*: per index, the nodes of the path with a borrowing or lending limit. *keeps*: some node of the path has a lending
    limit.
    *holding*: per layer, the usage lists of the nodes of the path. *counted*: the resources that a quota above counts.
    *pools_above*: pools above, including its own, that have subpools; guaranteed work counts towards their *used* (rule P2).
    *nominals*: (charged usage, quota) of each pool above, its `own` node first. *outermost_pool*: the last of them, or the leaf.
    *guarded*: guaranteed work is limited by more than the path: by pools above, or by quota that cohorts share.
    *weighed*: the indices of GPUs, for which nodes above count what they borrow; empty if all weights are equal.
    """

    __slots__ = (
        *("counted", "guarded", "holding", "keeps", "limits", "nominals", "outermost_pool", "pools_above"),
        *("twin", "weighed"),
    )

    def __init__(self, kind: NodeKind, name: str, quotas: Mapping[int, Quota], width: int, weight: Weight) -> None:
        super().__init__(kind, name, quotas, width, weight)
        self.counted: frozenset[str] = frozenset()
        self.pools_above: tuple[QuotaNode, ...] = ()
        self.outermost_pool: QuotaNode = self
        self.nominals: tuple[tuple[list[int], list[int]], ...] = ()
        self.limits: tuple[tuple[QuotaNode, ...], ...] = ()
        self.keeps = False
        self.holding: tuple[tuple[list[int], ...], ...] = ()
        self.twin: QuotaLeaf | None = None
        self.guarded = False
        self.weighed: tuple[int, ...] = ()


def fits(leaf: QuotaLeaf, request: Request, layer: int = CHARGED) -> bool:
    """Whether *request* is within the headroom of *leaf* (rule Q4) and, for guaranteed work, within its guarantee (rule P2).

    Equivalent to ``amount <= headroom`` for each index, without computing the headroom. O(nodes above with limits) per
    resource.
    """
    root = leaf.path[-1]
    for index, amount in request:
        for node in leaf.limits[index]:
            kept = node.local[index] - node.usage[layer][index]
            room = node.room[index]
            if kept > 0:
                amount -= kept
                if room is not None and amount > room:
                    return False
            elif room is not None and amount > room + kept:
                return False
        if amount > root.subtree[index] - root.usage[layer][index]:
            return False
    return not leaf.guarded or _within_guards(leaf, request, layer)


def within_promise(leaf: QuotaLeaf, request: Request) -> bool:
    """Whether guaranteed work could use *request* if no pool borrowed: rule P2 without Q3."""
    if leaf.twin is None:
        usage = leaf.usage[CHARGED]
        for index, amount in request:
            if usage[index] + amount > leaf.subtree[index]:
                return False
    return not leaf.guarded or _within_guards(leaf, request, CHARGED)


def _within_guards(leaf: QuotaLeaf, request: Request, layer: int) -> bool:
    if leaf.twin is not None and not _covered(leaf.twin, request, layer):
        return False
    return all(amount <= left_for_firm(pool, index, layer) for pool in leaf.pools_above for index, amount in request)


def _covered(twin: QuotaLeaf, request: Request, layer: int) -> bool:
    """Like `fits`, but nodes above are asked only for what exceeds a node's own quota: their guarantees may have been cut."""
    for index, amount in request:
        for node in twin.path:
            kept = node.local[index] - node.usage[layer][index]
            amount -= max(0, kept)
            if amount <= 0:
                break
            room = node.room[index]
            if node.parent is None or (room is not None and amount > room + min(0, kept)):
                return False
    return True


def left_of_promise(leaf: QuotaLeaf, index: int, layer: int = CHARGED) -> int:
    """How much more guaranteed work of *leaf* can use, ignoring pools above; negative after its quota was cut."""
    if leaf.twin is None:
        return leaf.balance(index, layer)
    free = 0
    for node in reversed(leaf.twin.path[:-1]):
        kept = node.local[index] - node.usage[layer][index]
        room = node.room[index]
        if room is not None:
            free = max(0, min(free, room + min(0, kept)))
        free += max(0, kept)
    return free


def left_for_firm(pool: QuotaNode, index: int, layer: int = CHARGED) -> int:
    """How much more guaranteed work of *pool* and its subpools can use together (rule P2).

    Less than what each of them can use only after a guarantee was cut: running work older than a subpool stays (rule
    S2).
    """
    drawable, twin = 0, pool.guarantee
    if twin is not None:
        drawable = max(0, twin.usage[layer][index] + headroom(twin, index, layer))
    return pool.nominal[index] + drawable - pool.used[layer][index]


def most_ever(leaf: QuotaLeaf, index: int) -> int:
    """The most that work of *leaf* can ever use (rule P3)."""
    return promise(leaf, index) if leaf.kind is NodeKind.FIRM else potential(leaf, index)


def promise(leaf: QuotaLeaf, index: int) -> int:
    """The most that guaranteed work of *leaf* can ever use (rule P3): its nominal and shared quota, within all limits."""
    return leaf.subtree[index] if leaf.twin is None else potential(leaf.twin, index)


def add(leaf: QuotaLeaf, request: Request, layer: int, sign: int = 1) -> None:
    """*sign* -1: subtracts *request*."""
    add_on_trial(leaf, request, layer, sign)
    if layer == CHARGED:
        note_over(leaf.outermost_pool, request)
        if leaf.weighed:
            note_borrowed(leaf.path, leaf.weighed)


def add_everywhere(leaf: QuotaLeaf, request: Request) -> None:
    if leaf.guarded or leaf.keeps or leaf.weighed:
        for layer in LAYERS:
            add(leaf, request, layer)
        return
    for holding in leaf.holding:
        for index, amount in request:
            for usage in holding:
                usage[index] += amount
    note_over(leaf.outermost_pool, request)


def take(leaf: QuotaLeaf, request: Request, layer: int) -> None:
    """The inverse of `add`."""
    add(leaf, request, layer, -1)


def add_on_trial(leaf: QuotaLeaf, request: Request, layer: int, sign: int = 1) -> None:
    """Like `add`, for callers that undo it immediately: does not update `pools_over_nominal` and `borrowed`."""
    if leaf.guarded:
        for pool in leaf.pools_above:
            used = pool.used[layer]
            for index, amount in request:
                used[index] += sign * amount
        if leaf.twin is not None:
            add_on_trial(leaf.twin, request, layer, sign)
    if leaf.keeps:
        (_add_beyond_kept if sign > 0 else _take_beyond_kept)(leaf, request, layer)
    else:
        holding = leaf.holding[layer]
        for index, amount in request:
            more = sign * amount
            for usage in holding:
                usage[index] += more


def take_on_trial(leaf: QuotaLeaf, request: Request, layer: int) -> None:
    """The inverse of `add_on_trial`."""
    add_on_trial(leaf, request, layer, -1)


def _add_beyond_kept(leaf: QuotaLeaf, request: Request, layer: int) -> None:
    """Charges the local part of each node first. Only the excess reaches its parent."""
    for index, amount in request:
        for node in leaf.path:
            usage = node.usage[layer]
            before = usage[index]
            usage[index] = before + amount
            kept = node.local[index] - before
            if kept > 0:
                amount -= kept
                if amount <= 0:
                    break


def _take_beyond_kept(leaf: QuotaLeaf, request: Request, layer: int) -> None:
    for index, amount in request:
        for node in leaf.path:
            usage = node.usage[layer]
            stored = usage[index] - node.local[index]
            usage[index] -= amount
            if stored < amount:
                if stored <= 0:
                    break
                amount = stored


def note_over(pool: QuotaNode, request: Request) -> None:
    """Updates `pools_over_nominal` after the usage of *pool* changed."""
    usage, subtree, counted = pool.usage[CHARGED], pool.subtree, pool.pools_over_nominal
    for index, _ in request:
        if (usage[index] > subtree[index]) != counted[index]:
            change = 1 - 2 * counted[index]
            for node in pool.path:
                node.pools_over_nominal[index] += change
                tell_parent_of_over(node)


def tell_parent_of_over(node: QuotaNode) -> None:
    if node.parent is None:
        return
    if any(node.pools_over_nominal):
        node.parent.over[node] = None
    else:
        node.parent.over.pop(node, None)


def note_borrowed(nodes: Iterable[QuotaNode], weighed: tuple[int, ...]) -> None:
    """Recomputes *borrowed* of *nodes*. *weighed*: the indices of GPUs."""
    for node in nodes:
        usage, subtree = node.usage[CHARGED], node.subtree
        node.borrowed = 0
        for index in weighed:
            if usage[index] > subtree[index]:
                node.borrowed += max(0, usage[index] - subtree[index] - node.asked_above(index, CHARGED))


def headroom(node: QuotaNode, index: int, layer: int = CHARGED) -> int:
    """How much more *node* can use, with all limits at all levels applied (rule Q4); negative in an over-committed tree."""
    root = node.path[-1]
    free = root.subtree[index] - root.usage[layer][index]
    for each in reversed(node.path[:-1]):
        kept = each.local[index] - each.usage[layer][index]
        room = each.room[index]
        if room is not None:
            free = min(free, room + min(kept, 0))
        free += max(kept, 0)
    return free


def potential(node: QuotaNode, index: int) -> int:
    """The headroom in an empty tree: the most that can ever fit."""
    root = node.path[-1]
    most = root.subtree[index]
    for each in reversed(node.path[:-1]):
        most += each.local[index]
        limit = each.borrowing[index]
        if limit is not None:
            most = min(most, each.subtree[index] + limit)
    return most
