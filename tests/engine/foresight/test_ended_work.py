"""The arithmetic on ending workflows never refutes a start: compared with a cycle on a ledger loaded from rows."""

import random

import pytest

from runrig.domain.changes import Ended
from runrig.domain.gangs import Gang, PodSet, Priority, Requirement
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import Queue
from runrig.domain.pools import HOSTNAME, Pool, Quota, TopologyKey
from runrig.domain.quantities import GPU, PODS, FlavorResource, of_one_pod, requests_of
from runrig.engine.foresight.dials import Reach, holders
from runrig.engine.foresight.ended_work import EndedWork
from runrig.engine.ledger.ledger import Ledger
from tests.engine.foresight.test_counterfactual import decided, waiting, world
from tests.engine.scheduling.test_sleeping import cycle
from tests.exploring import tries

pytestmark = pytest.mark.explored

SETS = 6


def compared(seed: int) -> tuple[int, int]:
    """(number of sets of workflows that were refuted, number that start it)."""
    ledger, mix = world(seed), random.Random(seed)
    refuted = started = 0
    for entry in waiting(ledger, 4):
        found = holders(ledger, entry, Reach())
        work, names = EndedWork(ledger, entry, found), [ledger.holdings.names[number] for number in found]
        sets = [[number] for number in range(len(names))]
        sets += [sorted(mix.sample(range(len(names)), mix.randrange(len(names) + 1))) for _ in range(SETS)]
        alone = work.alone()
        for numbers in sets:
            may = work.may_start_with(numbers)
            assert len(numbers) != 1 or may == alone[numbers[0]]
            starts = decided(ledger, entry.gang.id, (Ended(tuple(names[at] for at in numbers)),))[0].starts
            assert may or not starts, (entry.gang, numbers)
            refuted, started = refuted + (not may), started + starts
        least = work.least_set()
        if least is None:
            assert not work.may_start_with(range(len(names)))
        else:
            assert work.may_start_with(least)
            assert not any(work.may_start_with([each for each in least if each != out]) for out in least)
    return refuted, started


@pytest.mark.parametrize("seed", range(tries(30)))
def test_refuted_sets_do_not_start_it(seed: int) -> None:
    compared(seed)


def test_many_sets_are_refuted_and_some_start_it() -> None:
    refuted, started = map(sum, zip(*(compared(seed) for seed in range(20)), strict=True))
    assert refuted > 100
    assert started > 10


# ---------------------------------------------------------------- gangs ahead

RACK = (Requirement("rack"),)


def full(flavors: str = "aaaa") -> Ledger:
    """Four nodes of 8 GPUs with these *flavors*, in racks of two; h0 to h3 use one each, as LOW."""
    ledger = Ledger()
    names = sorted(set(flavors))
    ledger.set_flavors(Flavor(name, position=at) for at, name in enumerate(names))
    for at, flavor in enumerate(flavors):
        ledger.put_node(Node(f"n{at}", {GPU: 8, PODS: 100}, flavor, {"rack": f"r{at // 2}", HOSTNAME: f"n{at}"}))
    keys = (TopologyKey("rack", "rack"), TopologyKey("host", HOSTNAME))
    ledger.put_pool(Pool("p", {FlavorResource(name, GPU): Quota(16) for name in names}, topology_keys=keys))
    for at, flavor in enumerate(flavors):
        queue(ledger, f"h{at}/g", 1, 8, at=at, platform=flavor)
    assert len(cycle(ledger, 10.0)) == 4
    return ledger


def queue(
    ledger: Ledger,
    id: str,
    pods: int,
    gpus: int,
    *,
    at: float = 20.0,
    near: tuple[Requirement, ...] = (),
    platform: str | None = None,
) -> None:
    pod_set = PodSet("x", pods, of_one_pod(requests_of({GPU: gpus})), platform=platform, topology=near)
    ledger.apply(Queue(Gang(id, "p", Priority.LOW, at, (pod_set,))), at)


def sets_for(ledger: Ledger, gang: str = "mine/g") -> dict[str, bool]:
    """The sets of h0 to h3 that may start *gang*; they include all that do in a cycle."""
    numbers = holders(ledger, ledger.entries[gang], Reach())
    names = [ledger.holdings.names[number] for number in numbers]
    work = EndedWork(ledger, ledger.entries[gang], numbers)
    found = {}
    for bits in range(1, 2 ** len(names)):
        chosen = [at for at in range(len(names)) if bits >> at & 1]
        ended = tuple(names[at] for at in chosen)
        found[" ".join(ended)] = work.may_start_with(chosen)
        starts = decided(ledger, gang, (Ended(ended),))[0].starts
        assert found[" ".join(ended)] or not starts, ended
    return found


def test_equal_gangs_ahead_take_their_part() -> None:
    ledger = full()
    queue(ledger, "first/g", 1, 8)
    queue(ledger, "mine/g", 1, 8, at=21.0)
    assert [ended for ended, may in sets_for(ledger).items() if not may] == ["h0", "h1", "h2", "h3"]


def test_gangs_ahead_that_fit_wherever_it_does_take_their_part() -> None:
    ledger = full()
    queue(ledger, "first/g", 1, 8, near=RACK)
    queue(ledger, "mine/g", 2, 8, at=21.0, near=RACK)
    assert [ended for ended, may in sets_for(ledger).items() if may] == [
        "h0 h1 h2",
        "h0 h1 h3",
        "h0 h2 h3",
        "h1 h2 h3",
        "h0 h1 h2 h3",
    ]


def test_a_gang_ahead_that_also_ends_uses_no_capacity() -> None:
    ledger = full()
    queue(ledger, "h0/second", 1, 8)
    queue(ledger, "mine/g", 1, 8, at=21.0)
    assert all(sets_for(ledger).values())


@pytest.mark.parametrize(
    ("pods", "gpus", "near", "mine", "ended"),
    [(1, 16, (), (1, 8), "h0"), (2, 8, (), (1, 8), "h0"), (2, 8, RACK, (2, 8), "h0 h2")],
    ids=["larger pods", "more pods", "nearer pods"],
)
def test_a_gang_that_is_harder_to_place_may_leave_its_nodes_free(
    pods: int, gpus: int, near: tuple[Requirement, ...], mine: tuple[int, int], ended: str
) -> None:
    ledger = full()
    queue(ledger, "first/g", pods, gpus, near=near)
    queue(ledger, "mine/g", *mine, at=21.0)
    assert sets_for(ledger)[ended]
    assert decided(ledger, "mine/g", (Ended(tuple(ended.split())),))[0].starts


def test_a_gang_that_can_use_another_flavor_may_leave_this_one() -> None:
    ledger = full("aabb")
    queue(ledger, "first/g", 1, 8)
    queue(ledger, "mine/g", 1, 8, at=21.0)
    assert sets_for(ledger)["h0 h2"]
    assert decided(ledger, "mine/g", (Ended(("h0", "h2")),))[0].starts
