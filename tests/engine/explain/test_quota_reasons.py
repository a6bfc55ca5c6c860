"""Which pools use a quota, and which withhold idle quota: compared with a walk over the whole tree."""

from collections.abc import Iterator
from random import Random

import pytest

from runrig.domain.gangs import Gang, PodSet, Priority
from runrig.domain.nodes import DEFAULT_FLAVOR, Flavor
from runrig.domain.plan import Queue, Release
from runrig.domain.pools import Cohort, Pool, Quota, Quotas
from runrig.domain.quantities import GPU, FlavorResource, of_one_pod
from runrig.domain.reasons import Concerned, Part, Reason
from runrig.engine.explain.quota_reasons import MOST_CONCERNED, MOST_HOLDERS, quota_left, quota_reasons
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.quota.guarantees import nodes_under
from runrig.engine.quota.quota_node import CHARGED, NodeKind, QuotaLeaf, QuotaNode, headroom
from runrig.engine.scheduling.admission import decide

MORE_THAN_THERE_IS = 1_000
KEY = FlavorResource(DEFAULT_FLAVOR, GPU)


def quotas(mix: Random) -> Quotas:
    return {KEY: Quota(mix.randrange(6), mix.choice((None, 2)), mix.choice((None, None, 0, 1)))}


def world(seed: int) -> Ledger:
    """Cohorts with and without quota, one of them named like a pool; subpools; gangs that start and end."""
    mix, ledger = Random(seed), Ledger(place=False)
    ledger.set_flavors([Flavor(DEFAULT_FLAVOR)])
    for name, parent in (("top", None), ("left", "top"), ("p1", "top")):
        ledger.put_cohort(Cohort(name, parent, quotas(mix) if mix.random() < 0.5 else {}))
    for at in range(6):
        ledger.put_pool(Pool(f"p{at}", quotas(mix), cohort=mix.choice(("top", "left", "p1", None))))
    ledger.put_pool(Pool("p0--a", {KEY: Quota(1)}, parent="p0"))
    for number in range(60):
        pool = mix.choice([*ledger.pools])
        asked = of_one_pod(((GPU, mix.randint(1, 3)),))
        each = Gang(f"g{number:02}/g", pool, mix.choice(list(Priority)), number, (PodSet("main", 1, asked),))
        ledger.apply(Queue(each), number)
        for action in decide(ledger):
            if action is not None:
                ledger.apply(action, number)
        held = [name for name, entry in ledger.entries.items() if entry.held]
        if len(held) > 8:
            ledger.apply(Release(mix.choice(held)), number)
    return ledger


@pytest.mark.parametrize("seed", range(25))
def test_users_and_withholders_match_a_walk_over_the_tree(seed: int) -> None:
    ledger = world(seed)
    index = ledger.tree.index_of[KEY]
    for leaf in (*ledger.tree.firm.values(), *ledger.tree.low.values()):
        told = list(quota_reasons(ledger, leaf, index, MORE_THAN_THERE_IS))
        promises = [each for each in told if each.law == "P2"]
        pools = (leaf, *leaf.pools_above) if leaf.kind is NodeKind.FIRM else ()
        assert [each.holders for each in promises] == [walked_gangs(ledger, pool, index) for pool in pools]
        for reason in told[len(promises) :]:
            assert reason.concerned == tuple(walked(leaf, reason, index)), reason
        assert told[-1].where == "the cluster"
        *_, least = quota_left(ledger, leaf, index)
        assert leaf.kind is NodeKind.FIRM or least.have == headroom(leaf, index), least


def walked(leaf: QuotaLeaf, reason: Reason, index: int) -> Iterator[Concerned]:
    node = next(each for each in reversed(leaf.path) if where(each) == reason.where)
    below = list(nodes_under(node))
    held: dict[str, int] = {}
    for each in below:
        if isinstance(each, QuotaLeaf):
            held[each.name] = held.get(each.name, 0) + each.usage[CHARGED][index]
    kept = [
        (each.name, each.local[index] - each.usage[CHARGED][index])
        for each in below
        if each.lending[index] is not None and each not in leaf.path
    ]
    for part, amounts in ((Part.HOLDS, list(held.items())), (Part.LENDING_LIMIT, kept)):
        largest = sorted((-amount, name) for name, amount in amounts if amount > 0)
        yield from (Concerned(part, name, -amount) for amount, name in largest[:MOST_CONCERNED])


def where(node: QuotaNode) -> str:
    return {NodeKind.ROOT: "the cluster", NodeKind.COHORT: f"cohort {node.name}"}.get(node.kind, f"pool {node.name}")


def walked_gangs(ledger: Ledger, pool: QuotaNode, index: int) -> tuple[str, ...]:
    held = []
    for entry in ledger.entries.values():
        of = ledger.tree.firm[entry.gang.pool]
        if entry.charged and entry.bucket.firm and (pool in of.path or draws_beside(of, pool, index)):
            held.append((-dict(entry.request)[index], entry.gang.id))
    return tuple(name for _, name in sorted(held)[:MOST_HOLDERS])


def draws_beside(leaf: QuotaLeaf, pool: QuotaNode, index: int) -> bool:
    """Both are below the same cohort, which shares quota, and *leaf* uses some of that."""
    if leaf.twin is None or pool.guarantee is None or not leaf.drawn(index, CHARGED):
        return False
    both = set(leaf.twin.path) & set(pool.guarantee.path)
    return any(node.kind is NodeKind.COHORT and node.local[index] for node in both)
