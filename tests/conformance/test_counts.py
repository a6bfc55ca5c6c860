"""The search for counts alone, without a quota tree around it."""

import pytest

from runrig.domain.gangs import PodSet
from runrig.engine.placement.partial import bisected
from tests.conformance.cases import Case, parameters

Counts = tuple[int, ...]


@pytest.mark.parametrize("case", parameters("counts"))
def test_listed_counts_are_found(case: Case) -> None:
    pod_sets = [
        PodSet(f"set-{n}", each[0], (), each[1] if len(each) > 1 else None) for n, each in enumerate(case["pods"])
    ]
    found = bisected(pod_sets, lambda counts: counts if _accepted(case, counts) else None)
    assert (None if found is None else list(found)) == case["expect"]


def _accepted(case: Case, counts: Counts) -> bool:
    if "accepted_totals" in case:
        return sum(counts) in set(case["accepted_totals"])
    used = sum(weight * count for weight, count in zip(case["weights"], counts, strict=True))
    return int(used) <= int(case["capacity"])
