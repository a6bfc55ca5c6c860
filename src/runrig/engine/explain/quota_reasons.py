"""Which quotas and limits block a gang, who uses them, and who withholds idle quota (rules P2, Q3)."""

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from operator import itemgetter

from runrig.domain.blockers import QuotaLeft
from runrig.domain.older_gangs import Older, Share
from runrig.domain.pools import PoolState
from runrig.domain.reasons import Code, Concerned, Part, Reason
from runrig.domain.value import Amounts
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.quota.guarantees import shared_by
from runrig.engine.quota.limits import ceilings, promises
from runrig.engine.quota.pool_tree import has_subpools
from runrig.engine.quota.quota_node import CHARGED, NodeKind, QuotaLeaf, QuotaNode, left_of_promise, most_ever, promise

MOST_HOLDERS = 5
"""Maximum number of gangs that a reason names as users of a quota."""

MOST_CONCERNED = 3
"""Maximum number of pools that a reason names per part."""


def quota_reasons(ledger: Ledger, leaf: QuotaLeaf, index: int, amount: int) -> Iterator[Reason]:
    """Yields every quota and limit above *leaf* that *amount* exceeds, each judged as if it were the only one; the own pool's first."""
    if leaf.kind is NodeKind.FIRM:
        yield from promise_reasons(ledger, leaf, index, amount)
    key = str(ledger.tree.keys[index])
    for node, have in ceilings(leaf, index):
        if node.kind is NodeKind.FIRM or amount <= have:
            continue
        code = Code.NO_IDLE_TO_BORROW if node is leaf.path[-1] else Code.BORROWING_LIMIT
        concerned = (*_holders(ledger, node, index), *_keepers(ledger, node, leaf, index))
        yield Reason(code, "Q3", name_of(node), key, have, amount, concerned=concerned)


def quota_left(ledger: Ledger, leaf: QuotaLeaf, index: int) -> Iterator[QuotaLeft]:
    """Yields what is left of the own pool's guarantee, for guaranteed work, then the node above with the least left."""
    key = str(ledger.tree.keys[index])
    if leaf.kind is NodeKind.FIRM:
        yield QuotaLeft(f"pool {leaf.name}", key, left_of_promise(leaf, index), promise(leaf, index))
    above = [each for each in ceilings(leaf, index) if each[0].kind is not NodeKind.FIRM]
    tightest, left = min(above, key=itemgetter(1))
    yield QuotaLeft(name_of(tightest), key, left)


def promise_reasons(ledger: Ledger, leaf: QuotaLeaf, index: int, amount: int) -> Iterator[Reason]:
    """Yields the guarantees that *amount* exceeds (rule P2); preemption does not help beyond them."""
    key = str(ledger.tree.keys[index])
    for pool, left in promises(leaf, index):
        if amount > left:
            shared = shared_by(leaf, index) if pool is leaf else ()
            of_leaf = Share.OWN if has_subpools(ledger.tree.pools[leaf.name]) else Share.ALL
            yield Reason(
                Code.QUOTA_FULL,
                "P2",
                pool.name,
                key,
                left,
                amount,
                _firm_holders(ledger, pool, index),
                own=leaf.nominal[index] if shared else 0,
                shared=Amounts(shared),
                concerned=tuple(_draining(ledger, leaf, index)),
                share=of_leaf if pool is leaf else Share.SUBTREE,
                older=tuple(_older(ledger, pool, index)),
            )


def _older(ledger: Ledger, pool: QuotaNode, index: int) -> Iterator[Older]:
    """Yields pools whose work counts towards *pool* and exceeds their own guarantee: it started when that pool had more."""
    for name in sorted(ledger.placed_in):
        leaf = ledger.tree.firm[name]
        if (leaf is pool or pool in leaf.pools_above) and leaf.usage[CHARGED][index] > promise(leaf, index):
            yield Older(name, _firm_holders(ledger, leaf, index), has_subpools(ledger.tree.pools[name]))


def never_allowed(ledger: Ledger, leaf: QuotaLeaf, index: int, amount: int) -> Reason | None:
    """The reason if quotas allow less than *amount* even in an idle cluster, because they were cut after submission (rule P3)."""
    most = most_ever(leaf, index)
    if amount <= most:
        return None
    return Reason(Code.EXCEEDS_POTENTIAL, "P3", f"pool {leaf.name}", str(ledger.tree.keys[index]), most, amount)


def name_of(node: QuotaNode) -> str:
    if node.kind is NodeKind.ROOT:
        return "the cluster"
    return f"{'cohort' if node.kind is NodeKind.COHORT else 'pool'} {node.name}"


def _holders(ledger: Ledger, node: QuotaNode, index: int) -> tuple[Concerned, ...]:
    """The pools below *node* whose own work uses the most. O(pools and cohorts below it)."""
    tree = ledger.tree
    below = [each.name for each in _pools_and_cohorts(ledger, node) if each.kind is NodeKind.POOL]
    held = [
        (name, tree.firm[name].usage[CHARGED][index] + tree.low[name].usage[CHARGED][index])
        for name in below
        if name in ledger.placed_in
    ]
    return _largest(Part.HOLDS, held)


def _keepers(ledger: Ledger, node: QuotaNode, leaf: QuotaLeaf, index: int) -> tuple[Concerned, ...]:
    """The pools and cohorts below *node*, apart from the path of *leaf*, that withhold the most idle quota by lending limits.

    O(pools and cohorts below it).
    """
    kept = [
        (each.name, each.local[index] - each.usage[CHARGED][index])
        for each in _pools_and_cohorts(ledger, node)
        if each.lending[index] is not None and each not in leaf.path
    ]
    return _largest(Part.LENDING_LIMIT, kept)


def _pools_and_cohorts(ledger: Ledger, node: QuotaNode) -> list[QuotaNode]:
    """*node*, and the pools and cohorts below it, without the nodes inside pools, which are most of the tree."""
    if node is ledger.tree.root:
        return [*ledger.tree.cohorts.values(), *ledger.tree.pools.values()]
    found = [node]
    for each in found:  # breadth first: the loop also visits what it appends
        found += [child for child in each.children if child.kind is NodeKind.POOL or child.kind is NodeKind.COHORT]
    return found


def _draining(ledger: Ledger, leaf: QuotaLeaf, index: int) -> Iterator[Concerned]:
    """Yields the DELETING subpools of the pool of *leaf*: it gets their quota back once they have drained (rule S3)."""
    for child in ledger.tree.pools[leaf.name].children:
        if child.kind is NodeKind.POOL and child.pool is not None and child.pool.state is PoolState.DELETING:
            yield Concerned(Part.DELETING, child.name, child.nominal[index])


def _largest(part: Part, amounts: Iterable[tuple[str, int]]) -> tuple[Concerned, ...]:
    found = sorted((-amount, name) for name, amount in amounts if amount > 0)
    return tuple(Concerned(part, name, -amount) for amount, name in found[:MOST_CONCERNED])


def _firm_holders(ledger: Ledger, pool: QuotaNode, index: int) -> tuple[str, ...]:
    """Ids of guaranteed gangs that count towards *pool*, a firm leaf or a pool with subpools; largest first, then by id.

    O(pools with running work + gangs of those that count). Gangs of other pools count too if they draw on quota that a cohort
    shares with this one.
    """
    held = []
    for of, placed in ledger.placed_in.items():
        leaf = ledger.tree.firm[of]
        if not leaf.usage[CHARGED][index]:
            continue
        if leaf is pool or pool in leaf.pools_above or _draws_beside(leaf, pool, index):
            for entry in placed.values():
                if entry.charged and entry.bucket.firm and (amount := dict(entry.request).get(index, 0)):
                    held.append((-amount, entry.gang.id))
    return tuple(gang for _, gang in nsmallest(MOST_HOLDERS, held))


def _draws_beside(leaf: QuotaLeaf, other: QuotaNode, index: int) -> bool:
    """Whether guaranteed work of *leaf* draws on quota of a cohort that also shares it with *other*."""
    if leaf.twin is None or other.guarantee is None or not leaf.drawn(index, CHARGED):
        return False
    return any(
        node.kind is NodeKind.COHORT and node.local[index] and node in other.guarantee.path for node in leaf.twin.path
    )
