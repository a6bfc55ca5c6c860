"""What nodes of a quota tree have, use and may still use: every number of every node, and what fits."""

from collections.abc import Mapping

import pytest

from tests.conformance.cases import Case, parameters
from tests.conformance.outcomes import expected_quota, expected_shares
from tests.conformance.run import answer
from tests.conformance.variants import with_request, with_usage


@pytest.mark.parametrize("case", parameters("quota"))
def test_every_node_has_the_listed_numbers(case: Case) -> None:
    made = answer(with_usage(case))
    said = case["expect"].get("inactive", {})
    kinds = {"ClusterQueue": said.get("queues", ()), "Cohort": said.get("cohorts", ())}
    idle = {"reason": "CohortCycle", "usage": {}}  # nothing runs in the clusters of these cases
    assert made["inactive"] == sorted(
        [{"node": name, "kind": kind, **idle} for kind, names in kinds.items() for name in names],
        key=lambda each: each["node"],
    )
    if not said:
        assert made["quota"]["before"] == expected_quota(case)
        assert made["shares"]["before"] == expected_shares(case)
        assert made["quota"]["after"] == made["quota"]["before"]


@pytest.mark.parametrize("case", parameters("quota"))
def test_fitting_work_starts_and_one_more_does_not(case: Case) -> None:
    wanted = [
        (queue, amounts, word == "fits")
        for queue, entries in case["expect"].get("requests", {}).items()
        for entry in entries
        for word, amounts in entry.items()
    ]
    assert [(queue, amounts, _starts(case, queue, amounts)) for queue, amounts, _ in wanted] == wanted


def _starts(case: Case, queue: str, amounts: Mapping[str, int]) -> bool:
    return bool(answer(with_request(case, queue, amounts))["cycles"][0]["admitted"])
