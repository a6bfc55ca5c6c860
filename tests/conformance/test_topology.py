"""Where the pods of one workload go, through `simulate`: pod by pod as in the case, or nowhere for want of a place."""

import pytest

from tests.conformance import topologies
from tests.conformance.cases import Case, parameters
from tests.conformance.run import Answer, simulated
from tests.conformance.systems import settings

Placed = dict[str, dict[str, int]]
FAILED = "TopologyPlacementFailed"


@pytest.mark.parametrize("case", parameters("topology"))
def test_pods_are_placed_where_the_case_says(case: Case) -> None:
    made = simulated(topologies.text(case), settings(case))
    assert _outcome(made, hosts=case["levels"][-1] == "host") == case["expect"].get("placed", FAILED)


def _outcome(made: Answer, *, hosts: bool) -> Placed | str:
    """Returns pods by pod set and lowest domain; Kueue's word if it waits."""
    (cycle,) = made["cycles"]
    if not cycle["admitted"]:
        return str(cycle["pending"][0]["reason"])
    (admitted,) = cycle["admitted"]
    return {
        each["name"]: {_name(placed["domain"], hosts=hosts): placed["count"] for placed in each["placement"]}
        for each in admitted["pod_sets"]
    }


def _name(domain: list[str], *, hosts: bool) -> str:
    return domain[-1] if hosts else "/".join(domain)
