"""docs/explanation/concepts.md: its example is one that the engine reaches, and each answer is what the engine decides."""

import pytest

from docs import drawings
from runrig.domain.errors import Refused
from runrig.domain.gangs import Priority
from runrig.domain.pools import Cohort, Pool
from tests.worlds.engine import LOW, NORMAL, World, gpu_quota


def example() -> World:
    cohorts = tuple(Cohort(name, quotas=gpu_quota(own)) for name, own in drawings.COHORTS.items())
    pools = {
        name: Pool(name, gpu_quota(quota, drawings.BORROWING_LIMITS.get(name)), cohort=cohort)
        for name, (quota, cohort) in drawings.POOLS.items()
    }
    world = World(pools, {"n0": drawings.CAPACITY}, cohorts)
    for each in drawings.WORK:
        world.submit(each.name, each.pool, LOW if each.low else NORMAL, each.gpus)
        assert world.cycle() == [f"admit {each.name}"]
    return world


@pytest.mark.parametrize(
    ("ended", "submitted", "decided"),
    [
        pytest.param((), [("x", "speech", NORMAL, 1)], ["nominate x", "preempt v2 for x (RECLAIM)"], id="same cohort"),
        pytest.param((), [("x", "vision", NORMAL, 1)], ["nominate x", "preempt b2 for x (RECLAIM)"], id="others first"),
        pytest.param((), [("x", "batch", NORMAL, 3)], [], id="above its guarantee"),
        pytest.param(
            ("b1-1",), [("x", "batch", NORMAL, 3)], ["nominate x", "preempt b2 for x (PRIORITY)"], id="b1 ended"
        ),
        pytest.param(("v1-1",), [("x", "batch", LOW, 1), ("y", "speech", NORMAL, 3)], ["admit y"], id="NORMAL first"),
    ],
)
def test_examples_match_the_engine(
    ended: tuple[str, ...], submitted: list[tuple[str, str, Priority, int]], decided: list[str]
) -> None:
    world = example()
    for each in ended:
        world.finish(each)
    for name, pool, priority, gpus in submitted:
        world.submit(name, pool, priority, gpus)
    assert world.cycle() == decided


def test_a_request_beyond_the_guarantee_is_refused() -> None:
    world = example()
    with pytest.raises(Refused, match="needs 5 GPUs"):
        world.submit("x", "speech", NORMAL, 5)
    world.submit("y", "speech", NORMAL, 4)
