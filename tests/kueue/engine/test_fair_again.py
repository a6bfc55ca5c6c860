"""Fair preemption after the preemptor's own queue was preempted: its share is lower, so skipped candidates are tried
again.
"""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from runrig.domain.kueue import FAIR, Settings, Strategy
from runrig.domain.pools import Quota
from runrig.domain.quantities import FlavorResource
from runrig.kueue.declared import Policies, Policy, QueueCohort, Workload
from tests.kueue.engine.clusters import TAKES_BACK, cluster, decided, pods, queue, runs, waits

FINAL, INITIAL = FAIR
OWN, OTHER = ("big", "InClusterQueue"), ("big", "InCohortFairSharing")


def of(resource: str, amount: int) -> dict[str, Any]:
    return {resource: amount}


def ones(name: str, count: int, resource: str) -> list[Workload]:
    """Workloads of one unit each, started one after the other."""
    return [runs(f"{name}{at}", name, pods(**of(resource, 1)), since=float(at)) for at in range(1, count + 1)]


def stops(
    own: int, other: int, asks: int, *strategies: Strategy, resource: str = "cpu", deep: bool = False, weight: int = 1
) -> object:
    """The workloads that stop for *big* of queue a. a has *own* workloads of lower priority, b has *other*; nothing is
    idle.
    """
    b = replace(queue("b", "beside" if deep else "co", TAKES_BACK, **of(resource, 0)), weight=Fraction(weight))
    made = cluster(
        [],
        [queue("a", "co", TAKES_BACK, **of(resource, 0)), b],
        *ones("a", own, resource),
        *ones("b", other, resource),
        waits("big", "a", pods(**of(resource, asks)), priority=10),
        cohorts=[
            QueueCohort("co", None, {FlavorResource("f", resource): Quota(own + other)}),
            QueueCohort("beside", "co"),
        ],
        settings=Settings(strategies),
    )
    return decided(made)["stops"]


@pytest.mark.parametrize("resource", ["cpu", "gpu"])
@pytest.mark.parametrize("deep", [False, True], ids=["in one cohort", "one level more"])
@pytest.mark.parametrize("strategies", [FAIR, (FINAL,)], ids=["both strategies", "the first alone"])
def test_the_share_is_computed_again_after_own_workloads_were_taken(
    strategies: tuple[Strategy, ...], deep: bool, resource: str
) -> None:
    """7 and 7 in the end. At first the shares are 9 and 9, and nothing of b can be preempted."""
    gone = {f"a{at}": OWN for at in range(1, 6)} | {"b8": OTHER, "b9": OTHER}
    assert stops(5, 9, 7, *strategies, resource=resource, deep=deep) == gone


def test_nothing_is_preempted_if_the_share_stays_too_high() -> None:
    """8 and 6 would not be fair."""
    assert stops(5, 9, 8, *FAIR) == {}


def test_the_initial_share_is_compared_again_too() -> None:
    """At 9 and 9 nothing can be preempted. With 7 of a, b can give from 9 and from 8, but not from 7."""
    assert stops(5, 9, 7, INITIAL) == {"b9": OTHER, "b8": OTHER} | {f"a{at}": OWN for at in range(1, 6)}
    assert stops(5, 9, 8, INITIAL) == {}


def test_a_queue_with_more_weight_is_compared_by_its_weight() -> None:
    """b counts half: 4.5 at first, and a with 7 is above it even without its own workloads."""
    assert stops(5, 9, 7, *FAIR, weight=2) == {}


def test_targets_allowed_by_the_second_strategy_stay_allowed() -> None:
    """One of b is enough, and 6 is less than its 9."""
    assert stops(5, 9, 6, *FAIR) == {"b9": OTHER} | {f"a{at}": OWN for at in range(1, 6)}


# ---------------------------------------------------------------- decisions that do not change


@pytest.mark.parametrize(
    ("strategies", "gone"),
    [(FAIR, {}), ((FINAL,), {}), (None, {"surplus": ("new", "InCohortReclamation")})],
    ids=["fair", "the first strategy alone", "classical"],
)
def test_a_cohort_within_its_nominal_quota_still_compares_shares(
    strategies: tuple[Strategy, ...] | None, gone: object
) -> None:
    """As in Kueue today (docs/conformance.md): *mine* brings 35 gpu and uses 28, but borrows all cpu of the root."""
    gpu, cpu = FlavorResource("f", "gpu"), FlavorResource("f", "cpu")
    made = cluster(
        [],
        [
            queue("a", "mine", Policies(reclaim=Policy.LOWER), gpu=0, cpu=0),
            queue("b", "mine", TAKES_BACK, gpu=0, cpu=0),
            queue("c", "theirs", TAKES_BACK, gpu=30, cpu=0),
        ],
        runs("borrows", "b", pods(gpu=28, cpu=200), priority=9),
        runs("own", "c", pods(gpu=30), since=2.0),
        runs("surplus", "c", pods(gpu=7), since=3.0),
        waits("new", "a", pods(gpu=5), priority=5),
        cohorts=[
            QueueCohort("root", None, {cpu: Quota(200)}),
            QueueCohort("mine", "root", {gpu: Quota(35)}),
            QueueCohort("theirs", "root"),
        ],
        settings=Settings(strategies),
    )
    assert decided(made)["stops"] == gone
