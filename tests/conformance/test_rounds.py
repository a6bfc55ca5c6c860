"""What a running Kueue decided next, asked of one dump alone with `--as-peer`: the same workloads, flavors, counts and preemptors.

A *round* is a state after a change from outside, and all that was decided until nothing moved.  Those that one dump cannot tell
are listed in docs/conformance.md with their reasons: their tests are expected to fail, and must.
"""

import gzip
import json
import re
from typing import Any

import pytest

from runrig.domain.kueue import FAIR, Settings
from tests.conformance.cases import DATA, Case, params
from tests.conformance.manifests import full
from tests.conformance.run import Answer, simulated
from tests.conformance.test_documentation import PAGE

ROUNDS: list[Case] = [
    json.loads(line) for line in gzip.decompress((DATA / "rounds.jsonl.gz").read_bytes()).splitlines()
]
LISTED = dict(re.findall(r"^\| (round-\d{3}) \| (.+) \|$", PAGE, re.MULTILINE))
LEAST_PREDICTED = 0.97
TO_THE_END = 0


def predicted(case: Case) -> list[Any]:
    """In no order.  *slow*: what was evicted stopped only after the round, so that the first preemption is the last thing to know."""
    text = "\n---\n".join(json.dumps(document) for document in case["objects"])
    answer = simulated(text, Settings(FAIR if case["fair"] else None, as_peer=True), TO_THE_END)
    return sorted(_decisions(answer, slow=case["slow"]), key=json.dumps)


def _decisions(answer: Answer, *, slow: bool) -> list[Any]:
    found: list[Any] = []
    for cycle in answer["cycles"]:
        for each in cycle["admitted"]:
            parts = {pods["name"]: [pods["count"], pods["flavors"]] for pods in each["pod_sets"]}
            found.append(["admitted", each["workload"], parts])
        found += [["preempted", each["workload"], each["by"], each["reason"]] for each in cycle["preempted"]]
        if slow and cycle["preempted"]:
            break
    return found


def decided(case: Case) -> list[Any]:
    did = [
        [what, full(name), *([full(rest[0]), rest[1]] if len(rest) > 1 else rest)] for what, name, *rest in case["did"]
    ]
    return sorted(did, key=json.dumps)


@pytest.mark.parametrize("case", params(ROUNDS, LISTED))
def test_next_decisions_are_predicted(case: Case) -> None:
    assert predicted(case) == decided(case)


def test_page_counts_the_rounds_and_decisions() -> None:
    missed = {
        case["id"]: len([each for each in decided(case) if each not in predicted(case)])
        for case in ROUNDS
        if case["id"] in LISTED
    }
    decisions = sum(len(case["did"]) for case in ROUNDS)
    told = decisions - sum(missed.values())
    assert re.findall(r"(\d+) rounds, (\d+) of (\d+) decisions", PAGE) == [
        (str(len(ROUNDS)), str(told), str(decisions))
    ]
    assert told >= LEAST_PREDICTED * decisions
