"""The quota tree: how much each node may use, lend and borrow (hierarchical-cohorts.md; laws Q1-Q5).

One kind of node for all: cohorts, pools and leaves.  Per (flavor, resource), by index into lists:

    subtree   S   what the node brings: its nominal, and of each child what the child lends
    local         the part of S that the lending limit keeps inside: invisible to the parent
    usage     U   of a leaf what its gangs hold, of an inner node what its children hold beyond their local part
    balance   T = S - U   (KEP-79's T(x, r); negative: the node borrows)

Usage has two layers: CHARGED is what decisions count (nominated gangs in, their targets out), REAL is what is held now.
Adding and taking away are exact inverses and cost O(depth) per resource.
"""

import enum
from collections.abc import Iterable, Mapping
from fractions import Fraction

from runrig.domain.pools import Pool, Quota

CHARGED = 0
REAL = 1
LAYERS = (CHARGED, REAL)

Request = tuple[tuple[int, int], ...]
"""(index of a FlavorResource, amount above zero): what a gang asks of the tree."""

Weight = int | Fraction
"""How much of what is borrowed a node may have beside its siblings.  Ours are whole numbers of 1 or more; Kueue's may be 0."""

NO_QUOTA = Quota()


class Kind(enum.Enum):
    ROOT = "root"
    COHORT = "cohort"
    POOL = "pool"
    OWN = "own"
    FIRM = "firm"
    LOW = "low"
    QUEUE = "queue"


class QuotaNode:
    """A node, its limits as lists by FlavorResource index, and its usage in both layers.  `TreeBuilder` makes them.

    *path*: from the node up to the root, both included.  *below*: what its children lend it.
    *room*: S - local + borrowing limit, None without that limit.  *declared*: the indices for which it has a quota.
    *height*: of an imported cohort, steps down to its deepest leaf.
    *active* False: its parents run in a circle (law Q5), nothing new starts.  *pool*: of a pool's own node, what was declared.
    *used*: of a pool with subpools, what firm work below it holds (law P2).
    *pools_over_nominal*: how many outermost pools in the subtree hold more than their nominal (in the layer CHARGED), so that
    a search for borrowers need not enter where there are none.  *over*: its children with such pools.
    *borrowed*: GPUs of all flavors that the subtree holds above what it brings (in the layer CHARGED); kept only in a tree in
    which weights differ, else 0.
    *guarantee*: its twin in the tree that counts firm work alone (`guarantees.py`); None if no cohort above shares quota.
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

    def __init__(self, kind: Kind, name: str, quotas: Mapping[int, Quota], width: int, weight: Weight) -> None:
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
        """Borrows one of *indices*: holds more than its subtree brings and its firm work draws."""
        usage, subtree = self.usage[CHARGED], self.subtree
        for index in indices:
            over = usage[index] - subtree[index]
            if over > 0 and (self.guarantee is None or over > self.drawn(index, CHARGED)):
                return True
        return False

    def balance(self, index: int, layer: int = REAL) -> int:
        """T of law Q3: negative means that the subtree borrows."""
        return self.subtree[index] - self.usage[layer][index]

    def drawn(self, index: int, layer: int = REAL) -> int:
        """Returns what its firm work holds of the quota that cohorts above share (law P2).  It is entitled to that, so it is not borrowed.

        Less than `asked_above` after a promise was cut.  O(depth) where anything is drawn.
        """
        if (twin := self.guarantee) is None:
            return 0
        asked = self.asked_above(index, layer)
        return max(0, asked + min(0, headroom(twin, index, layer))) if asked else 0

    def asked_above(self, index: int, layer: int = REAL) -> int:
        """Returns what its firm work holds beyond what this node and those below have; 0 if no cohort shares quota with it."""
        twin = self.guarantee
        return 0 if twin is None else max(0, twin.usage[layer][index] - twin.subtree[index])


class QuotaLeaf(QuotaNode):
    """A node that holds work.

    *limits*: per index, the nodes of the path that can refuse or keep anything; *keeps*: some node of the path keeps.
    *holding*: per layer, the usage of the nodes of the path.  *counted*: the resources that some quota above counts.
    *pools_above*: pools above (the own one included) that have subpools, whose *used* firm leaves count against (law P2).
    *outermost_pool*: the outermost pool above; the leaf itself where there are no pools.
    *guarded*: firm work is checked against more than the limits of the path: pools above, or quota that cohorts share.
    *weighed*: the indices of GPUs, of which the nodes above keep what they borrow; empty where all weights are equal.
    """

    __slots__ = ("counted", "guarded", "holding", "keeps", "limits", "outermost_pool", "pools_above", "twin", "weighed")

    def __init__(self, kind: Kind, name: str, quotas: Mapping[int, Quota], width: int, weight: Weight) -> None:
        super().__init__(kind, name, quotas, width, weight)
        self.counted: frozenset[str] = frozenset()
        self.pools_above: tuple[QuotaNode, ...] = ()
        self.outermost_pool: QuotaNode = self
        self.limits: tuple[tuple[QuotaNode, ...], ...] = ()
        self.keeps = False
        self.holding: tuple[tuple[list[int], ...], ...] = ()
        self.twin: QuotaLeaf | None = None
        self.guarded = False
        self.weighed: tuple[int, ...] = ()


def fits(leaf: QuotaLeaf, request: Request, layer: int = CHARGED) -> bool:
    """All of *request* is within the headroom of *leaf* (law Q4) and, for firm work, within what it was promised (law P2).

    The same as ``amount <= headroom`` for each, without building the headroom.  O(nodes above that have limits) per resource:
    a node without any lets everything through.
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
    """Law P2 without Q3: firm work may hold *request* too, once nobody borrows."""
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
    """As `fits`, but only what goes beyond a node's own quota is asked of those above: their promise may have been cut."""
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
    """The most that firm work of *leaf* may use beside what it holds, pools above not asked; negative after its quota was cut."""
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
    """Returns what firm work of *pool* and of its subpools may still use together (law P2).

    Differs from what each of them may use only after a promise was cut: running work that predates a subpool stays (law S2).
    """
    drawable, twin = 0, pool.guarantee
    if twin is not None:
        drawable = max(0, twin.usage[layer][index] + headroom(twin, index, layer))
    return pool.nominal[index] + drawable - pool.used[layer][index]


def promise(leaf: QuotaLeaf, index: int) -> int:
    """The most that firm work of *leaf* can ever hold (law P3): its nominal and what cohorts share, within the limits between."""
    return leaf.subtree[index] if leaf.twin is None else potential(leaf.twin, index)


def add(leaf: QuotaLeaf, request: Request, layer: int) -> None:
    """*leaf* holds *request* more."""
    add_on_trial(leaf, request, layer)
    if layer == CHARGED:
        note_over(leaf.outermost_pool, request)
        if leaf.weighed:
            note_borrowed(leaf.path, leaf.weighed)


def add_everywhere(leaf: QuotaLeaf, request: Request) -> None:
    """`add` in all layers."""
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
    """*leaf* holds *request* less: the inverse of `add`."""
    take_on_trial(leaf, request, layer)
    if layer == CHARGED:
        note_over(leaf.outermost_pool, request)
        if leaf.weighed:
            note_borrowed(leaf.path, leaf.weighed)


def add_on_trial(leaf: QuotaLeaf, request: Request, layer: int) -> None:
    """As `add`, for who undoes it at once: `pools_over_nominal` and `borrowed` stay as they were."""
    if leaf.guarded:
        _count_used(leaf, request, layer, 1)
        if leaf.twin is not None:
            add_on_trial(leaf.twin, request, layer)
    if leaf.keeps:
        _add_beyond_kept(leaf, request, layer)
    else:
        holding = leaf.holding[layer]
        for index, amount in request:
            for usage in holding:
                usage[index] += amount


def take_on_trial(leaf: QuotaLeaf, request: Request, layer: int) -> None:
    """The inverse of `add_on_trial`."""
    if leaf.guarded:
        _count_used(leaf, request, layer, -1)
        if leaf.twin is not None:
            take_on_trial(leaf.twin, request, layer)
    if leaf.keeps:
        _take_beyond_kept(leaf, request, layer)
    else:
        holding = leaf.holding[layer]
        for index, amount in request:
            for usage in holding:
                usage[index] -= amount


def _count_used(leaf: QuotaLeaf, request: Request, layer: int, sign: int) -> None:
    for pool in leaf.pools_above:
        used = pool.used[layer]
        for index, amount in request:
            used[index] += sign * amount


def _add_beyond_kept(leaf: QuotaLeaf, request: Request, layer: int) -> None:
    """Charges first what the node keeps for itself; only what goes beyond reaches its parent."""
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
    """Counts *pool* in or out of the pools over nominal, where that has just changed."""
    usage, subtree, counted = pool.usage[CHARGED], pool.subtree, pool.pools_over_nominal
    for index, _ in request:
        if (usage[index] > subtree[index]) != counted[index]:
            change = 1 - 2 * counted[index]
            for node in pool.path:
                node.pools_over_nominal[index] += change
                tell_parent_of_over(node)


def tell_parent_of_over(node: QuotaNode) -> None:
    """Brings *over* of the parent up to date."""
    if node.parent is None:
        return
    if any(node.pools_over_nominal):
        node.parent.over[node] = None
    else:
        node.parent.over.pop(node, None)


def note_borrowed(nodes: Iterable[QuotaNode], weighed: tuple[int, ...]) -> None:
    """Counts anew what *nodes* borrow of *weighed*, the indices of GPUs."""
    for node in nodes:
        usage, subtree = node.usage[CHARGED], node.subtree
        node.borrowed = 0
        for index in weighed:
            if usage[index] > subtree[index]:
                node.borrowed += max(0, usage[index] - subtree[index] - node.asked_above(index, CHARGED))


def headroom(node: QuotaNode, index: int, layer: int = CHARGED) -> int:
    """Returns what *node* may still use, limits at all levels applied (law Q4); negative in an over-committed tree."""
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
