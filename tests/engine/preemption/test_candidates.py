"""Candidates and their order (rules R1 to R3), compared with a check of every gang in random trees."""

import pytest

from runrig.domain.gangs import Assignment, Gang, GangState, NodeShare, PodSet, Priority
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import Admit, Nominate, Queue, Release
from runrig.domain.pools import Cohort, Pool, Quota
from runrig.domain.quantities import CPU, GPU, FlavorResource, of_one_pod, requests_of
from runrig.engine.ledger.gang_columns import SPARE
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import options
from runrig.engine.ledger.queue import Entry
from runrig.engine.preemption.candidates import Candidates
from runrig.engine.quota.quota_node import NodeKind, Request, headroom
from tests.engine.scheduling.test_sleeping import History, cycle
from tests.exploring import tries

pytestmark = pytest.mark.explored


def from_scratch(ledger: Ledger, entry: Entry, flavors: set[str], request: Request) -> list[str]:
    """The ids of all candidates in order, in a tree without weights."""
    leaf = ledger.leaf(entry)
    short = [index for index, amount in request if amount > headroom(leaf, index)]
    contested = short or [index for index, _ in request]
    found: list[tuple[object, str]] = [
        ((0, name), name) for name in ledger.unclaimed if _in_the_way(ledger, ledger.entries[name], flavors, contested)
    ]
    for name, candidate in ledger.entries.items():
        if candidate.state is not GangState.ADMITTED or not candidate.gang.priority.preemptible:
            continue
        path = ledger.leaf(candidate).path
        common = next(node for node in leaf.path if node in path)
        below = path[: path.index(common)]
        # The part of a pool that is not given to subpools counts as a pool next to them.
        pools = [node for node in below if node.kind is NodeKind.POOL] or [
            node for node in below if node.kind is NodeKind.OWN
        ]
        over = [pool.over_nominal(contested) for pool in pools]
        if not _in_the_way(ledger, candidate, flavors, contested) or (over and not over[-1]):
            continue
        turn = 3 if common.kind is NodeKind.OWN else 1 if all(over) else 2
        found.append(((turn, leaf.path.index(common), candidate.preemption_key), name))
    return [name for _, name in sorted(found)]


def _in_the_way(ledger: Ledger, candidate: Entry, flavors: set[str], contested: list[int]) -> bool:
    nodes = [ledger.nodes.by_name.get(share.node) for each in candidate.placement for share in each.shares]
    return any(index in contested for index, _ in candidate.request) or any(
        room.node.flavor in flavors for room in nodes if room is not None
    )


@pytest.mark.parametrize("first", range(0, tries(20), 5))
def test_candidates_and_their_order_match_the_rules_in_random_trees(first: int) -> None:
    drawn = 0
    for seed in range(first, first + 5):
        history = History(seed)
        for _ in range(15):
            for _ in range(4):
                history.something_happens()
            history.now += 1
            cycle(history.ledger, history.now)
            drawn += _compared(history.ledger)
    assert drawn


def _columns_are_what_gangs_hold(ledger: Ledger) -> None:
    """Compares the columns with the gangs themselves."""
    columns, topology = ledger.candidates, ledger.nodes.topology(("rack",))
    columns.refresh()
    entries = [each for each in ledger.entries.values() if each.state is GangState.ADMITTED]
    entries = sorted((each for each in entries if each.gang.priority.preemptible), key=lambda each: each.preemption_key)
    assert [columns.entries[slot] for slot in columns.order] == entries
    assert [columns.entries[slot] for slot in columns.counted()] == [each for each in entries if each.charged]
    pools, requests = list(columns.pools), list(columns.requests)
    assert [pools[number] for number in columns.pool[columns.order]] == [each.gang.pool for each in entries]
    assert [requests[number] for number in columns.request[columns.order]] == [each.request for each in entries]
    if ledger.place:
        held = columns.held(columns.order, (CPU, GPU), topology, topology.whole(labelled=False))
        rows = zip(held.who, held.node, held.amounts[CPU], held.amounts[GPU], strict=True)
        found = sorted((entries[who].gang.id, topology.names[node], cpu, gpu) for who, node, cpu, gpu in rows)
        assert found == sorted(
            (each.gang.id, share.node, *(dict(pods.requests).get(what, 0) * share.count for what in (CPU, GPU)))
            for each in entries
            for place, pods in _pairs(each)
            for share in place.shares
            if share.node in topology.index
        )
        sizes = [
            [(place.count, place.count * dict(pods.requests)[GPU]) for place, pods in _pairs(each)] for each in entries
        ]
        assert columns.pods[columns.order].tolist() == [sum(pods for pods, _ in each) for each in sizes]
        assert columns.gpus[columns.order].tolist() == [sum(gpus for _, gpus in each) for each in sizes]


def _pairs(entry: Entry) -> list[tuple[Assignment, PodSet]]:
    return list(zip(entry.placement, entry.gang.pod_sets, strict=True))


def test_columns_drop_removed_gangs() -> None:
    ledger = Ledger(place=False)
    ledger.set_flavors([Flavor("a")])
    ledger.put_pool(Pool("p", {FlavorResource("a", GPU): Quota(5000)}))
    for at in range(2 * SPARE):
        ledger.apply(Queue(Gang(f"low{at:04}", "p", Priority.LOW, 0.0, (_pods(1, 1 + at % 3),))), 0.0)
        ledger.apply(Admit(f"low{at:04}", (Assignment("x", "a", 1),)), float(at))
    assert ledger.candidates.refresh() == 2 * SPARE
    for at in range(2 * SPARE - 3):
        ledger.apply(Release(f"low{at:04}"), 5000.0)
    assert len(ledger.candidates.entries) == 2 * SPARE
    _columns_are_what_gangs_hold(ledger)
    assert len(ledger.candidates.entries) == 3


def _compared(ledger: Ledger) -> int:
    """The number of candidates of all waiting preemptors."""
    _columns_are_what_gangs_hold(ledger)
    count = 0
    heads = [bucket.waiting[0] for bucket in ledger.pending.values() if bucket.firm]
    for entry in heads:
        if not ledger.leaf(entry).active:
            continue
        for choice, request in options(ledger, entry, entry.bucket.counts):
            one_by_one = Candidates(ledger, entry, choice, request)
            together = Candidates(ledger, entry, choice, request)
            found = list(one_by_one.in_order())
            assert list(together.everybody().entries()) == found
            assert together.spared_before(found[::2]) == one_by_one.spared_before(found[::2])
            if not ledger.tree.weighted:
                flavors = {each.flavor for each in choice} if ledger.place else set()
                assert [each.gang.id for each in found] == from_scratch(ledger, entry, flavors, request)
            count += len(found)
    return count


def test_a_preemptor_that_needs_quota_of_others_targets_waits_for_few_of_them() -> None:
    """R4: these are enough. If each nomination named all stopping gangs, the plan of a full cluster would grow with its
    square.
    """
    ledger, key = Ledger(), FlavorResource("a", GPU)
    ledger.set_flavors([Flavor("a")])
    ledger.put_cohort(Cohort("c", quotas={key: Quota(0, 0)}))
    ledger.put_pool(Pool("p", {key: Quota(20)}, cohort="c"))
    ledger.put_pool(Pool("q", {key: Quota(0)}, cohort="c"))
    for name, gpus in (("n0", 10), ("n1", 10), ("m", 8)):
        ledger.put_node(Node(name, {GPU: gpus}, flavor="a"))
    on_both = (Assignment("x", "a", 2, (NodeShare("n0", 1), NodeShare("n1", 1))),)
    for at in range(10):
        ledger.apply(Queue(Gang(f"low{at}", "q", Priority.LOW, 0.0, (_pods(2, 1),))), 0.0)
        ledger.apply(Admit(f"low{at}", on_both), float(at))
    ledger.apply(Queue(Gang("wide", "p", Priority.HIGH, 1.0, (_pods(1, 10),))), 10.0)
    ledger.apply(Queue(Gang("next", "p", Priority.NORMAL, 2.0, (_pods(1, 8),))), 10.0)
    nominated = [each for each in cycle(ledger, 11.0) if isinstance(each, Nominate)]
    assert [(each.gang, sorted(each.targets)) for each in nominated] == [
        ("wide", [f"low{at}" for at in range(10)]),
        ("next", [f"low{at}" for at in range(8)]),
    ]


def _pods(count: int, gpus: int) -> PodSet:
    return PodSet("x", count, of_one_pod(requests_of({GPU: gpus})))
