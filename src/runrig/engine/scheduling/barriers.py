"""The barriers at which a bucket sleeps that could not start: conditions that must hold for every size and choice of
flavors.

For each choice, it is the first condition that does not hold for the minimum size (rule A1). Each is necessary: LOW
work must fit into the headroom in both layers (Q4, R4) and onto nodes; without rule P2, guaranteed work may not even
preempt. If no single number decides, the bucket sleeps until anything that it requests is released.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice

from runrig.domain.gangs import Placement
from runrig.domain.quantities import LARGEST
from runrig.engine.ledger.fit import layers_of
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import options
from runrig.engine.ledger.queue import Barrier, Entry, Pass
from runrig.engine.ledger.sleeping import ANYTHING, CANDIDATES
from runrig.engine.placement.partial import least_counts
from runrig.engine.placement.place import DomainNeed, most_in_one_domain, unmet_need
from runrig.engine.quota.quota_node import CHARGED, LAYERS, REAL, NodeKind, QuotaLeaf, QuotaNode, Request, left_for_firm

MOST_CHOICES = 16
"""With more choices of flavors, a bucket sleeps until anything is released."""

Short = tuple[Barrier, int]
"""A barrier, and the room that is needed there."""

Lack = tuple[str, QuotaNode, int, int, int]
"""What `_before` makes a `Short` of: the measure, the node, the index, the layer and the need."""


def put_to_sleep(ledger: Ledger, entry: Entry, turn: Pass) -> None:
    """Puts the bucket of *entry*, which failed in *turn*, to sleep until what it lacks may be available."""
    if ledger.user_holds_too_much(entry.bucket):
        ledger.sleepers.sleep(entry.bucket, turn, dict(_of_user(ledger, entry)))
        return
    if turn is Pass.BORROWING and _draws_less_than_asked(ledger, entry):
        return
    before: dict[Barrier, int] = {}
    for barrier, need in () if entry.gang.refused else _lacks(ledger, entry):
        before[barrier] = min(need, before.get(barrier, need))
    ledger.sleepers.sleep(entry.bucket, turn, before)


def _of_user(ledger: Ledger, entry: Entry) -> Iterator[Short]:
    """The limits that stop its user (rule W6). A change of a limit wakes all buckets."""
    users, need = ledger.users, entry.bucket.least_gpus
    for holder, limit in users.exceeded(ledger.pools[entry.gang.pool], entry.user, need):
        yield ledger.sleepers.barrier(("user", *holder, limit), (holder,), partial(users.left, holder, limit)), need


def _draws_less_than_asked(ledger: Ledger, entry: Entry) -> bool:
    """Whether guaranteed work of its pool exceeds what cohorts share: LOW then borrows less as other guaranteed work ends (rule P2)."""
    pool = ledger.tree.pools[entry.gang.pool]
    return pool.guarantee is not None and any(
        pool.asked_above(index, CHARGED) != pool.drawn(index, CHARGED) for index in range(len(pool.nominal))
    )


def _lacks(ledger: Ledger, entry: Entry) -> Iterator[Short]:
    leaf = ledger.leaf(entry)
    if not leaf.active:
        return  # cycle of cohorts: sleep until something is declared (rule Q5)
    counts = least_counts(entry.gang.pod_sets)
    choices = list(islice(options(ledger, entry, counts, mixed=True), MOST_CHOICES + 1))
    if len(choices) > MOST_CHOICES:
        yield _anything(ledger, (ANYTHING, CANDIDATES))
        return
    for choice, request in choices:
        if entry.bucket.firm:
            short = _promised(ledger, leaf, request)
        else:
            short = _headroom(ledger, leaf, request, CHARGED) or _headroom(ledger, leaf, request, REAL)
            short = short or _domain(ledger, entry, choice)
        yield from short or [_whatever(ledger, leaf, choice, request)]


def _whatever(ledger: Ledger, leaf: QuotaLeaf, choice: Placement, request: Request) -> Short:
    """A release of anything in *request*, anywhere in the tree or on nodes of the flavors; for guaranteed work also new candidates."""
    quota = ((leaf.path[-1], index, layer) for index, _ in request for layer in LAYERS)
    flavors = sorted({each.flavor for each in choice})
    return _anything(ledger, (*quota, *flavors, *([CANDIDATES] if leaf.kind is NodeKind.FIRM else [])))


def _anything(ledger: Ledger, sources: tuple[Hashable, ...]) -> Short:
    barrier = ledger.sleepers.barrier(sources, sources, None)
    return barrier, barrier.room() + 1


# ---------------------------------------------------------------- quota


def _headroom(ledger: Ledger, leaf: QuotaLeaf, request: Request, layer: int) -> list[Short]:
    """The first node of the path that the request exceeds (as in `fits`), and nodes below it that may later withhold more for it."""
    found = (
        _exceeded(ledger, "headroom", (*leaf.limits[index], leaf.path[-1]), index, layer, amount)
        for index, amount in request
    )
    return next(filter(None, found), [])


def _exceeded(ledger: Ledger, what: str, path: Iterable[QuotaNode], index: int, layer: int, amount: int) -> list[Short]:
    """The first node of *path* whose measure *what* is less than *amount*, and the nodes below it that withhold quota.

    Those may withhold more later, when usage is released or their quota or lending limit changes. If no node refuses, they get no
    barrier: no bucket would sleep at it, so it would never be deleted.
    """
    keeping: list[Lack] = []
    for node in path:
        kept = _kept(node, index, layer)
        if what == "cover" and amount <= kept:
            return []
        if amount > _MEASURES[what](node, index, layer):
            return [_before(ledger, *each) for each in (*keeping, (what, node, index, layer, amount))]
        if node.lending[index] is not None:
            keeping.append(("kept", node, index, layer, max(0, kept) + 1))
        amount -= max(0, kept)
    return []


def _promised(ledger: Ledger, leaf: QuotaLeaf, request: Request) -> list[Short]:
    """The limits of rule P2 that the request exceeds (as in `within_promise`)."""
    twin = () if leaf.twin is None else leaf.twin.path
    found = (_exceeded(ledger, "cover", twin, index, CHARGED, amount) for index, amount in request)
    if short := next(filter(None, found), []):
        return short
    for index, amount in request:
        if leaf.twin is None and amount > leaf.subtree[index] - leaf.usage[CHARGED][index]:
            return [_before(ledger, "headroom", leaf, index, CHARGED, amount)]
        for pool in leaf.pools_above:
            if amount > left_for_firm(pool, index):
                source = (pool if pool.guarantee is None else pool.guarantee.path[-1], index, CHARGED)
                room = partial(left_for_firm, pool, index)
                return [(ledger.sleepers.barrier(("promise", pool, index), (source,), room), amount)]
    return []


def _before(ledger: Ledger, what: str, node: QuotaNode, index: int, layer: int, need: int) -> Short:
    source = (node, index, layer)
    return ledger.sleepers.barrier((what, *source), (source,), partial(_MEASURES[what], *source)), need


def _kept(node: QuotaNode, index: int, layer: int) -> int:
    """What is left of the local part of *node*."""
    return node.local[index] - node.usage[layer][index]


def _room(node: QuotaNode, index: int, layer: int) -> int:
    """The amount that the limit of *node* leaves for work below it, apart from the local parts further down."""
    if node.parent is None:
        return node.subtree[index] - node.usage[layer][index]
    room = node.room[index]
    return LARGEST if room is None else room + _kept(node, index, layer)


def _cover(node: QuotaNode, index: int, layer: int) -> int:
    """How much guaranteed work the quota of *node* covers, including what nodes above may add."""
    kept = _kept(node, index, layer)
    room = node.room[index]
    if node.parent is None:
        return max(0, kept)
    return LARGEST if room is None else max(0, kept, room + kept)


_MEASURES: Mapping[str, Callable[[QuotaNode, int, int], int]] = {"headroom": _room, "cover": _cover, "kept": _kept}


# ---------------------------------------------------------------- nodes


def _domain(ledger: Ledger, entry: Entry, choice: Placement) -> list[Short]:
    """A group of its pods that no domain has room for, each shape counted alone."""
    asked = ledger.asked_of_nodes(entry, choice) if ledger.place else None
    unmet = None if asked is None else unmet_need(ledger.nodes, asked, layers_of(ledger))
    if unmet is None:
        return []
    need, pods = unmet
    return [(ledger.sleepers.barrier(need, (need.shape.flavor,), partial(_most, ledger, need)), pods)]


def _most(ledger: Ledger, need: DomainNeed) -> int:
    return most_in_one_domain(ledger.nodes, need, layers_of(ledger))
