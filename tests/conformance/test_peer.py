"""Random systems that Kueue itself decided, cycle by cycle, up to and with the first cycle that preempts: we decide the same.

After a preemption law R5 applies here and not there.  The few systems on which we differ are listed in docs/conformance.md
with their reasons: their tests are expected to fail, and must.
"""

import gzip
import json
import re
from typing import Any

import pytest

from tests.conformance import manifests, systems
from tests.conformance.cases import DATA, Case, params
from tests.conformance.manifests import full
from tests.conformance.run import simulated
from tests.conformance.test_documentation import PAGE

SYSTEMS: list[Case] = [json.loads(line) for line in gzip.decompress((DATA / "peer.jsonl.gz").read_bytes()).splitlines()]
LISTED = dict(re.findall(r"^\| (peer-\d{3}) \| (.+) \|$", PAGE, re.MULTILINE))
LEAST_EQUAL = 0.995


def expected(case: Case) -> list[dict[str, Any]]:
    return [
        {
            "admitted": {
                full(name): {pod_set: (each.get("count", 1), each["flavors"]) for pod_set, each in pod_sets.items()}
                for name, pod_sets in cycle.get("admitted", {}).items()
            },
            "preempted": {full(name): (full(by), why) for name, (by, why) in cycle.get("preempted", {}).items()},
            "parked": sorted(map(full, cycle.get("parked", ()))),
        }
        for cycle in case["expect"]
    ]


def seen(case: Case) -> list[dict[str, Any]]:
    answer = simulated(manifests.text(case), systems.settings(case), len(case["expect"]))
    return [
        {
            "admitted": {
                each["workload"]: {pods["name"]: (pods["count"], pods["flavors"]) for pods in each["pod_sets"]}
                for each in cycle["admitted"]
            },
            "preempted": {each["workload"]: (each["by"], each["reason"]) for each in cycle["preempted"]},
            "parked": sorted(each["workload"] for each in cycle["pending"] if each["parked"]),
        }
        for cycle in answer["cycles"]
    ]


@pytest.mark.parametrize("case", params(SYSTEMS, LISTED))
def test_decisions_equal_those_of_the_peer(case: Case) -> None:
    assert seen(case) == expected(case)


def test_systems_are_those_counted_on_the_page() -> None:
    assert [case["id"] for case in SYSTEMS] == [f"peer-{number:03d}" for number in range(1, len(SYSTEMS) + 1)]
    assert re.findall(r"We decide (\d+) of (\d+) random systems", PAGE) == [
        (str(len(SYSTEMS) - len(LISTED)), str(len(SYSTEMS)))
    ]
    assert len(SYSTEMS) - len(LISTED) >= LEAST_EQUAL * len(SYSTEMS)
