"""A ledger that restores its gangs together equals one that got them one by one, in any order of rows."""

import random
from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.gangs import Assignment, Gang, GangState, NodeShare, PodSet, Priority
from runrig.domain.nodes import DEFAULT_FLAVOR, Flavor, Node
from runrig.domain.plan import Queue
from runrig.domain.pools import Pool, Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.records import GangRow
from runrig.engine.ledger.ledger import Ledger

POOLS = ("a", "b")


def gang(number: int, pool: str, priority: Priority, at: float, gpus: int, refused: str) -> Gang:
    return Gang(f"w{number:02}/train", pool, priority, at, (PodSet("main", 1, ((GPU, gpus),)),), refused=refused)


# Few pools, shapes and times, so that many share a bucket or a time.
waiting = st.lists(
    st.tuples(
        st.sampled_from(POOLS),
        st.sampled_from(list(Priority)),
        st.sampled_from([1.0, 2.0, 3.0]),
        st.integers(1, 2),
        st.sampled_from(["", "", "no such image"]),
    ),
    max_size=30,
).map(lambda drawn: [gang(number, *each) for number, each in enumerate(drawn)])


def empty() -> Ledger:
    ledger = Ledger()
    ledger.set_flavors([Flavor(DEFAULT_FLAVOR)])
    for name in POOLS:
        ledger.put_pool(Pool(name, {FlavorResource(DEFAULT_FLAVOR, GPU): Quota(8)}))
    for number in range(4):
        ledger.put_node(Node(f"n{number}", {GPU: 4}))
    return ledger


def pending(gangs: Sequence[Gang]) -> list[GangRow]:
    return [GangRow(each, GangState.PENDING) for each in gangs]


def told(ledger: Ledger) -> object:
    """The ledger's view of waiting gangs: every bucket and queue, in order, and each gang's position."""
    buckets = {key: [each.gang.id for each in bucket.waiting] for key, bucket in ledger.pending.items()}
    queues = {
        (number, pool): (list(queue.times), queue.gpus, Counter(bucket.key for bucket in queue.buckets))
        for number, rank in ledger.ranks.items()
        for pool, queue in rank.by_pool.items()
    }
    ahead = {
        id: {
            (rank, pool): queue.ahead_of(entry)
            for rank, pool in queues
            if rank == entry.bucket.rank
            for queue in [ledger.ranks[rank].by_pool[pool]]
        }
        for id, entry in ledger.entries.items()
        if entry.state is GangState.PENDING
    }
    rows = {id: (entry.gang, entry.state, entry.placement) for id, entry in ledger.entries.items()}
    awake = {bucket.key for bucket in ledger.sleepers.awake}
    refused = {bucket.key for bucket in ledger.sleepers.refused}
    gangs = {number: rank.gangs for number, rank in ledger.ranks.items() if rank.gangs}
    return buckets, queues, ahead, rows, awake, refused, gangs


@given(waiting, st.randoms(use_true_random=False), st.booleans())
def test_restoring_together_equals_adding_one_by_one_in_any_order(
    gangs: list[Gang], chance: random.Random, asked: bool
) -> None:
    one_by_one, at_once = empty(), empty()
    there = chance.randint(0, len(gangs))  # this many wait before the others arrive
    for each in gangs:
        one_by_one.apply(Queue(each), 0.0)
    mixed = chance.sample(gangs, len(gangs))
    at_once.restore(pending(mixed[:there]))
    if asked:  # from then on the sums are kept up to date
        told(at_once)
    at_once.restore(pending(mixed[there:]))
    assert told(at_once) == told(one_by_one)
    for entry in at_once.entries.values():
        assert ahead(at_once, entry.gang) == sum(before(other, entry.gang) for other in gangs)


def ahead(ledger: Ledger, gang: Gang) -> int:
    return ledger.ranks[gang.priority.rank].by_pool[gang.pool].ahead_of(ledger.entries[gang.id])


def before(one: Gang, other: Gang) -> bool:
    """By rule P4, within a pool and a priority."""
    alike = (one.pool, one.priority) == (other.pool, other.priority)
    return alike and (one.submitted_at, one.id) < (other.submitted_at, other.id)


@given(waiting, st.randoms(use_true_random=False))
def test_usage_and_reservations_are_restored(gangs: list[Gang], chance: random.Random) -> None:
    def place(node: str) -> tuple[Assignment, ...]:
        return (Assignment("main", DEFAULT_FLAVOR, 1, (NodeShare(node, 1, (0,)),)),)

    holds, stops, waits = (gang(number, "a", Priority.LOW, 1.0, 1, "") for number in (90, 91, 92))
    rows = [
        GangRow(holds, GangState.ADMITTED, place("n0"), (), 5.0),
        GangRow(stops, GangState.STOPPING, place("n1"), (), 5.0, "w92"),
        GangRow(waits, GangState.NOMINATED, place("n1"), (stops.id, "gone/train")),
        *pending(gangs),
    ]
    ledgers = [empty(), empty()]
    ledgers[0].restore(rows)
    ledgers[1].restore(chance.sample(rows, len(rows)))
    first, second = (
        (told(each), sorted(each.nominated), each.stopping_ids, sorted(each.unclaimed), sorted(each.placed))
        for each in ledgers
    )
    assert first == second
    assert first[1:] == ([waits.id], [stops.id], [], [holds.id, stops.id, waits.id])
    assert ledgers[0].entries[waits.id].waits_for == (stops.id,)
