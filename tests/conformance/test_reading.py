"""The file of a case and its values are the same system: the reader adds nothing and loses nothing."""

from dataclasses import replace

import pytest

from runrig.kueue.declared import System
from runrig.kueue.read import read_manifests
from tests.conformance import manifests
from tests.conformance.cases import Case, cases, parameters
from tests.conformance.systems import system

OF_WORK = {"conditions", "checks"}
OF_PODS = {"reclaimable", "node_selector", "affinity", "tolerations"}
"""What `systems.system` does not know, besides labels and taints of flavors."""


REFUSED_THERE = {"borrowingLimit", "borrowWithinCohort", "podSets"}
"""What a few cases set though Kueue's own admission would refuse it: a limit without a cohort, a mix of policies, two ranges."""


def _plain(case: Case) -> bool:
    work = [*case.get("pending", {}).values(), *case.get("running", {}).values()]
    pods = [each for one in work for each in one["pods"].values()]
    return (
        "flavors" not in case
        and not any(OF_WORK & each.keys() for each in work)
        and not any(OF_PODS & each.keys() for each in pods)
    )


@pytest.mark.parametrize("case", parameters("admission", "partial", "rest", only=_plain))
def test_file_is_read_as_the_values_of_its_case(case: Case) -> None:
    read = read_manifests(manifests.text(case), "case.yaml")
    assert {each.path.split(".")[-1] for each in read.warnings} <= REFUSED_THERE
    assert _sorted(read.system) == _sorted(_from_start(system(case)))


@pytest.mark.parametrize("kind", ["admission", "partial", "rest"])
def test_both_versions_are_read_alike(kind: str) -> None:
    for case in cases(kind):
        older, newer = (read_manifests(manifests.text(case, api), "case.yaml") for api in (manifests.V1, manifests.V2))
        assert older.system == newer.system, case["id"]


def _from_start(made: System) -> System:
    """Times as the file has them."""
    start = manifests.START.timestamp()
    work = (
        replace(
            each,
            created_at=each.created_at + start,
            queued_at=each.queued_at + start,
            reserved_at=each.reserved_at + start if each.granted is not None else each.reserved_at,
        )
        for each in made.workloads
    )
    return replace(made, workloads=tuple(work), now=made.now + start)


def _sorted(made: System) -> System:
    return replace(
        made,
        cohorts=tuple(sorted(made.cohorts, key=lambda each: each.name)),
        queues=tuple(sorted(made.queues, key=lambda each: each.name)),
        flavors=tuple(sorted(made.flavors, key=lambda each: each.name)),
        workloads=tuple(sorted(made.workloads, key=lambda each: each.name)),
    )
