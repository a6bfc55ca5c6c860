"""The workloads preempted for an incoming one, and by which policy: through `simulate`, and by the search alone."""

import pytest

from runrig.domain.quantities import FlavorResource
from runrig.engine.quota.quota_node import CHARGED, REAL
from runrig.kueue.engine.simulator import Simulator
from runrig.kueue.engine.targets import workload_targets
from tests.conformance.cases import Case, parameters
from tests.conformance.manifests import full
from tests.conformance.outcomes import preempted
from tests.conformance.run import answer
from tests.conformance.systems import settings, system
from tests.conformance.variants import declares, with_incoming

Outcome = dict[str, str]


@pytest.mark.parametrize("case", parameters("preemption", only=declares))
def test_listed_work_is_preempted(case: Case) -> None:
    made = answer(with_incoming(case))
    assert preempted(made) == _expected(case)
    started = made["cycles"][0]["admitted"]
    assert bool(started) is case["incoming"].get("fits", False)
    if not started:
        assert made["quota"]["after"] == made["quota"]["before"]


@pytest.mark.parametrize("case", parameters("preemption"))
def test_search_finds_the_listed_work_and_changes_nothing(case: Case) -> None:
    world = Simulator(system(with_incoming(case)), settings(case))
    context, index_of = world._context, world._tree.index_of
    incoming = world._workloads[full(case["incoming"]["name"])]
    request = tuple(sorted((index_of[_key(key)], amount) for key, amount in case["incoming"]["requests"].items()))
    contested = frozenset(index_of[_key(key)] for key in case["incoming"]["contested"])
    before = _usage(world)
    targets = workload_targets(context, incoming, request, contested)
    assert {each.workload.spec.name: each.reason.value for each in targets} == _expected(case)
    assert _usage(world) == before


def _expected(case: Case) -> Outcome:
    return {full(name): reason for name, reason in case["expect"].items()}


def _key(text: str) -> FlavorResource:
    return FlavorResource(*text.split("/", 1))


def _usage(world: Simulator) -> dict[str, tuple[list[int], list[int]]]:
    nodes = world._tree.nodes()
    return {world._tree.label(node): (list(node.usage[CHARGED]), list(node.usage[REAL])) for node in nodes}
