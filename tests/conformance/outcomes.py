"""What a case expects and what `simulate` answered, in one shape, so that they can be compared whole."""

from collections.abc import Mapping
from typing import Any

from tests.conformance.cases import Case
from tests.conformance.manifests import full
from tests.conformance.run import Answer

Outcome = dict[str, Any]
NUMBERS = ("subtree", "local", "usage", "balance", "available", "potential")


def expected(case: Case) -> Outcome:
    """Returns the expected outcome of an admission case, with what the case leaves out."""
    said: Mapping[str, Any] = case["expect"]
    admitted = said.get("admitted", {})
    parked = {full(name) for name in said.get("parked", ())}
    waiting = {full(name): each["queue"] for name, each in case["pending"].items()}
    if case.get("cycles", 1) > 1:  # a workload preempted in a cycle is pending again before the next one
        waiting |= {full(name): case["running"][name]["queue"] for name in said.get("preempted", ())}
    return {
        "admitted": {full(name): _started(pod_sets) for name, pod_sets in admitted.items()},
        "reserved_only": sorted(map(full, said.get("reserved_only", ()))),
        "preempted": {full(name): reason for name, reason in said.get("preempted", {}).items()},
        "reasons": {full(name): reason for name, reason in said.get("reasons", {}).items()},
        "parked": sorted(parked),
        "active": sorted(waiting.keys() - parked - {full(name) for name in admitted}),
        "skipped": said.get("skipped", {}),
        "queues": waiting,
    }


def _started(pod_sets: Mapping[str, Any]) -> Outcome:
    return {name: (each.get("count", 1), each["flavors"]) for name, each in pod_sets.items()}


def seen(answer: Answer) -> Outcome:
    """The same of an answer: admissions and preemptions of all cycles, what waits after the last."""
    cycles = answer["cycles"]
    admitted = [each for cycle in cycles for each in cycle["admitted"]]
    pending = cycles[-1]["pending"]
    return {
        "admitted": {
            each["workload"]: {pods["name"]: (pods["count"], pods["flavors"]) for pods in each["pod_sets"]}
            for each in admitted
        },
        "reserved_only": sorted(each["workload"] for each in admitted if each.get("reserved_only")),
        "preempted": preempted(answer),
        "reasons": {each["workload"]: each["reason"] for each in pending if each["considered"]},
        "parked": sorted(each["workload"] for each in pending if each["parked"]),
        "active": sorted(each["workload"] for each in pending if not each["parked"]),
        "skipped": cycles[-1]["skipped_preemptions"],
        "queues": {
            each["workload"]: each["queue"] for each in sorted((*admitted, *pending), key=lambda x: x["workload"])
        },
    }


def preempted(answer: Answer) -> dict[str, str]:
    """Reason by workload, over all cycles."""
    return {each["workload"]: each["reason"] for cycle in answer["cycles"] for each in cycle["preempted"]}


def expected_quota(case: Case) -> Outcome:
    """Returns the expected numbers of every node of a quota case."""
    nodes = {**case.get("cohorts", {}), **case["queues"]}
    return {
        name: {
            key: {"nominal": _nominal(nodes.get(name, {}), key), **dict(zip(NUMBERS, numbers, strict=True))}
            for key, numbers in amounts.items()
        }
        for name, amounts in case["expect"].get("nodes", {}).items()
    }


def _nominal(node: Mapping[str, Any], key: str) -> int:
    flavor, resource = key.split("/", 1)
    quotas = (group.get(flavor, {}).get(resource) for group in node.get("groups", ()))
    quota = next((each for each in quotas if each is not None), 0)
    return quota if isinstance(quota, int) else int(quota["nominal"])


def expected_shares(case: Case) -> Outcome:
    """Returns the expected share of every node: as listed, nothing borrowed for the rest."""
    said = case["expect"].get("shares", {})
    nothing = (0, "", False)
    return {
        name: dict(zip(("value", "resource", "borrowing"), said.get(name, nothing), strict=True))
        for name in case["expect"].get("nodes", {})
    }
