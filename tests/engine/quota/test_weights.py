"""Weights of pools and cohorts: who borrows first, and who is reclaimed first (rules P4, R3, Q2)."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.errors import RunrigError
from runrig.domain.gangs import GangState, Placement, Priority
from runrig.domain.plan import Admit, PutPool
from runrig.domain.pools import Cohort, Pool, Quota, Quotas, subpool_of
from runrig.domain.steps import drained
from runrig.engine.ledger.fit import find_place
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import options
from runrig.engine.ledger.queue import Bucket, BucketKey, Entry
from runrig.engine.preemption.candidates import Candidates
from runrig.engine.quota.quota_node import CHARGED, NodeKind, QuotaNode
from runrig.engine.scheduling.admission import decide
from runrig.engine.scheduling.queue_order import ahead_of, head_of, waiting_in_order, would_borrow
from tests.properties.oracle import Oracle, Place
from tests.worlds.engine import GPUS, LOW, NORMAL, World, gpu_quota

several = settings(max_examples=150, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 10**9)


def weighted(name: str, weight: int, quota: int = 0, cohort: str | None = None) -> Pool:
    return Pool(name, gpu_quota(quota), cohort=cohort, weight=weight)


def submit_many(world: World, pool: str, gangs: int, gpus: int = 1) -> None:
    for number in range(1, gangs + 1):
        world.submit(f"{pool}{number}", pool, LOW, gpus)


def held(world: World) -> dict[str, int]:
    """GPUs by pool, as decided."""
    tree = world.state.ledger.tree
    return {name: node.usage[CHARGED][tree.index_of[GPUS]] for name, node in tree.pools.items()}


# ---------------------------------------------------------------- the order of borrowing


def test_idle_quota_is_borrowed_in_proportion_to_the_weights() -> None:
    """P4; the example of docs/preemption.md."""
    world = World({"small": weighted("small", 1), "large": weighted("large", 2)}, {"n0": 9})
    submit_many(world, "small", 9)
    submit_many(world, "large", 9)
    assert world.cycle() == [
        "admit small1", "admit large1", "admit large2", "admit small2", "admit large3", "admit large4",
        "admit small3", "admit large5", "admit large6",
    ]  # fmt: skip
    assert held(world) == {"small": 3, "large": 6}


# ---------------------------------------------------------------- the order of returning


@pytest.mark.parametrize(
    ("weights", "first"),
    [((1, 2, 1), ["small1", "small2", "large1"]), ((2, 2, 2), ["large1", "large2", "large3"])],
    ids=["different", "equal"],
)
def test_the_largest_share_is_reclaimed_first_and_of_equal_weights_the_last_started(
    weights: tuple[int, int, int], first: list[str]
) -> None:
    """R3; the example of docs/preemption.md."""
    small, large, firm = weights
    pools = {"small": weighted("small", small), "large": weighted("large", large), "firm": weighted("firm", firm, 4)}
    world = World(pools, {"n0": 8})
    for pool, gangs in (("small", 4), ("large", 4)):
        submit_many(world, pool, gangs)
        world.cycle()
    world.submit("back", "firm", NORMAL, 3)
    assert world.cycle() == ["nominate back", *(f"preempt {each} for back (RECLAIM)" for each in first)]


def test_a_stored_weight_of_zero_from_an_earlier_release_counts_as_one() -> None:
    world = World({"small": weighted("small", 0), "large": weighted("large", 2)}, {"n0": 3})
    submit_many(world, "small", 3)
    submit_many(world, "large", 3)
    world.cycle()
    assert held(world) == {"small": 1, "large": 2}


# ---------------------------------------------------------------- compared with a second implementation


class Scene:
    """A random world: nested cohorts, pools with limits, subpools, and LOW that runs and waits."""

    def __init__(self, chance: random.Random, weights: Callable[[], int]) -> None:
        self.chance = chance
        depth = chance.randint(0, 3)
        cohorts = tuple(Cohort(f"c{at}", self._above(at), self._quota((0, 0, 1, 2)), weights()) for at in range(depth))
        names = [f"p{at}" for at in range(chance.randint(2, 4))]
        pools = {
            name: Pool(name, self._quota((0, 1, 2, 4)), cohort=self._above(depth), weight=weights()) for name in names
        }
        self.world = World(pools, {"n0": 8, "n1": 8}, cohorts)
        for name in names:
            nominal = pools[name].quotas[GPUS].nominal
            for short in "xy"[: min(nominal, chance.randint(0, 2))]:
                self.world.do(PutPool(subpool_of(pools[name], short, {"default": 1})))
        self.submitted = 0

    @property
    def ledger(self) -> Ledger:
        return self.world.state.ledger

    def _above(self, depth: int) -> str | None:
        at = self.chance.randint(-1, depth - 1)
        return None if at < 0 else f"c{at}"

    def _quota(self, nominals: Sequence[int]) -> Quotas:
        limit = (None, None, None, 0, 1, 3)
        return {GPUS: Quota(self.chance.choice(nominals), self.chance.choice(limit), self.chance.choice(limit))}

    def submit(self, gangs: int, priority: Priority = LOW) -> None:
        for _ in range(gangs):
            self.submitted += 1
            pool = self.chance.choice(sorted(self.world.state.pools))
            try:
                self.world.submit(f"w{self.submitted}", pool, priority, self.chance.choice((1, 1, 1, 2, 3)))
            except RunrigError:
                continue

    def share(self, node: QuotaNode) -> Fraction:
        """From declarations and usage, by T(x, r), without any stored number of the tree."""
        return Fraction(borrowed(self.oracle(), node), int(node.weight))

    def oracle(self) -> Oracle:
        """The oracle for decisions, without gangs that are treated as stopped in a trial."""
        entries = self.ledger.entries.items()
        gone = [name for name, entry in entries if entry.state is GangState.ADMITTED and not entry.charged]
        return Oracle.decided(self.world.state, without=gone)


def borrowed(oracle: Oracle, node: QuotaNode) -> int:
    if node.kind is NodeKind.OWN:
        drawn = _asked_above(oracle, ("firm", node.name))
        return max(0, -sum(oracle.balance((kind, node.name), GPUS) for kind in ("firm", "low")) - drawn)
    place = (node.kind.value, node.name)
    return max(0, -oracle.balance(place, GPUS) - _asked_above(oracle, place))


def _asked_above(oracle: Oracle, place: Place) -> int:
    return oracle.beyond(place, GPUS) if oracle.is_shared(place, GPUS) else 0


def unlike(chance: random.Random) -> Callable[[], int]:
    return lambda: chance.randint(1, 4)


T = TypeVar("T")
Items = Mapping[str, list[tuple[Any, T]]]


def winner(scene: Scene, top: QuotaNode, items: Items[T], *, largest: bool) -> tuple[Any, T] | None:
    """The item of the low leaf that a new tournament selects. *items*: by pool, (key, item), in any order."""
    if top.kind is NodeKind.LOW:
        return min(items.get(top.name, []), key=lambda item: item[0], default=None)
    sign = -1 if largest else 1
    heads = [
        (sign * scene.share(child), found[0], found)
        for child in top.children
        if (found := winner(scene, child, items, largest=largest)) is not None
    ]
    return min(heads, key=lambda head: head[:2])[2] if heads else None


def borrowers(ledger: Ledger) -> list[Bucket]:
    return [bucket for bucket in ledger.pending.values() if not bucket.firm and would_borrow(ledger, bucket.waiting[0])]


def expected_starts(scene: Scene) -> Iterator[str]:
    """The next borrowers by the rule, while the cycle applies its decisions between two draws."""
    ledger = scene.ledger
    failed: set[BucketKey] = set()
    while True:
        items: dict[str, list[tuple[Any, Entry]]] = {}
        for bucket in borrowers(ledger):
            if bucket.key not in failed:
                items.setdefault(bucket.pool, []).append((bucket.waiting[0].order, bucket.waiting[0]))
        found = winner(scene, ledger.tree.root, items, largest=False)
        if found is None:
            return
        entry: Entry = found[1]
        if find_place(ledger, entry, entry.bucket.counts) is None:
            failed.add(entry.bucket.key)
        else:
            yield entry.gang.id


@several
@given(seeds)
def test_the_next_borrower_matches_the_rule_computed_from_scratch(seed: int) -> None:
    """P4, after each admission."""
    chance = random.Random(seed)
    scene = Scene(chance, unlike(chance))
    scene.submit(chance.randint(0, 8))
    scene.world.cycle()
    scene.submit(chance.randint(0, 12))
    expected: Iterator[str] | None = None
    for action in (each for each in decide(scene.ledger) if each is not None):
        borrows = isinstance(action, Admit) and would_borrow(scene.ledger, scene.ledger.entries[action.gang])
        if borrows and scene.ledger.tree.weighted:
            expected = expected or expected_starts(scene)
            assert action.gang == next(expected)
        scene.world.do(action)
        check_kept(scene)


def check_kept(scene: Scene) -> None:
    """Every node stores what it borrows, or nothing if all weights are equal."""
    tree = scene.ledger.tree
    oracle = scene.oracle()
    for node in tree.nodes():
        if node.kind not in (NodeKind.ROOT, NodeKind.FIRM, NodeKind.LOW):
            assert node.borrowed == (borrowed(oracle, node) if tree.weighted else 0), node


@several
@given(seeds)
def test_positions_match_the_order_and_the_head_is_the_first_of_its_pool(seed: int) -> None:
    chance = random.Random(seed)
    scene = Scene(chance, unlike(chance))
    for _ in range(2):
        scene.submit(chance.randint(0, 10))
        scene.submit(chance.randint(0, 3), NORMAL)
        order = waiting_in_order(scene.ledger)
        seen: dict[str, list[Entry]] = {}
        for at, entry in enumerate(order):
            before = seen.setdefault(entry.gang.pool, [])
            assert drained(ahead_of(scene.ledger, entry)) == (at, len(before))
            before.append(entry)
        assert {pool: entries[0] for pool, entries in seen.items()} == {
            pool: head_of(scene.ledger, pool) for pool in seen
        }
        assert len(order) == sum(len(bucket.waiting) for bucket in scene.ledger.pending.values())
        scene.world.cycle()


@several
@given(seeds, st.integers(2, 4))
def test_equal_weights_decide_like_no_weights(seed: int, weight: int) -> None:
    """P4, R3: byte for byte, whatever the weight is."""
    plans = []
    for same in (1, weight):
        again = random.Random(seed)
        scene = Scene(again, partial(int, same))
        decided = []
        for _ in range(3):
            scene.submit(again.randint(0, 6))
            decided.append(scene.world.cycle())
            scene.submit(again.randint(0, 3), NORMAL)
            decided.append(scene.world.cycle())
        assert not scene.ledger.tree.weighted
        decided.append([entry.gang.id for entry in waiting_in_order(scene.ledger)])
        plans.append(decided)
    assert plans[0] == plans[1]


@several
@given(seeds)
def test_reclaimed_gangs_match_the_rule_computed_from_scratch(seed: int) -> None:
    """R3: below one common ancestor, each time the largest share without the gangs taken so far."""
    chance = random.Random(seed)
    scene = Scene(chance, unlike(chance))
    scene.submit(chance.randint(6, 14))
    scene.world.cycle()
    scene.submit(chance.randint(1, 3), NORMAL)
    ledger = scene.ledger
    firm = [entry for entry in ledger.entries.values() if entry.bucket.firm]
    for preemptor in firm:
        if preemptor.state is GangState.PENDING:
            check_reclaim(scene, preemptor)


def check_reclaim(scene: Scene, preemptor: Entry) -> None:
    ledger = scene.ledger
    leaf = ledger.leaf(preemptor)
    choice: Placement
    choice, request = next(iter(options(ledger, preemptor, preemptor.bucket.counts)))
    gone: list[Entry] = []
    left = {entry.gang.id: entry for queue in ledger.preemptible.values() for _, entry in queue}
    try:
        for candidate in Candidates(ledger, preemptor, choice, request).in_order():
            if candidate.gang.pool == preemptor.gang.pool:
                break
            ancestor = common(ledger.leaf(candidate), leaf)
            if ledger.tree.weighted:
                assert candidate is first_to_give(scene, ancestor, leaf, left.values())
            ledger.uncharge(candidate)
            gone.append(candidate)
            del left[candidate.gang.id]
            check_kept(scene)
    finally:
        for entry in reversed(gone):
            ledger.charge(entry)
    check_kept(scene)


def common(one: QuotaNode, other: QuotaNode) -> QuotaNode:
    return next(node for node in one.path if node in other.path)


def first_to_give(scene: Scene, ancestor: QuotaNode, leaf: QuotaNode, left: Iterable[Entry]) -> Entry:
    """Selects among gangs whose nearest common node with *leaf* is *ancestor* and that rule R2 does not protect. Gangs
    whose pools are over at every level come before those with only the outermost one over.
    """
    ledger = scene.ledger
    mine = [entry for entry in left if common(ledger.leaf(entry), leaf) is ancestor]
    for inner_too in (False, True):
        items: dict[str, list[tuple[Any, Entry]]] = {}
        for entry in mine:
            between = [node for node in ledger.leaf(entry).path if node.kind is NodeKind.POOL and node not in leaf.path]
            asked = between[-1:] if inner_too else between
            if all(node.usage[CHARGED][0] > node.subtree[0] for node in asked):
                items.setdefault(entry.gang.pool, []).append((entry.preemption_key, entry))
        found = winner(scene, ancestor, items, largest=True)
        if found is not None:
            return found[1]
    raise AssertionError("nobody may be taken")
