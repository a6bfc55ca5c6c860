"""What pods and pod groups say: every case of the table in docs/kubernetes.md, and those that are easily got wrong."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from runrig.backends.kubernetes import names, status
from runrig.domain.observed import Phase, TaskFact

Case = dict[str, Any]

CASES: list[Case] = yaml.load((Path(__file__).parent / "data" / "facts.yaml").read_text(), yaml.CSafeLoader)
NOON, LATER = "2026-03-01T12:00:00Z", "2026-03-01T12:05:00Z"


def told(states: Case | None) -> list[Case]:
    return [{"name": name, "image": f"reg/{name}:1", "state": state} for name, state in (states or {}).items()]


def pod(case: Case) -> names.Object:
    main = {"main": case["main"]} if "main" in case else {}
    sidecars = case.get("sidecars", {})
    inits = {**sidecars, **case.get("inits", {})}
    statuses: dict[str, Any] = {
        "phase": "Pending",
        "containerStatuses": told(main | case.get("others", {})),
        "initContainerStatuses": told(inits),
    }
    for each in statuses["containerStatuses"]:
        each["image"] = "reg/train:1" if each["name"] == "main" else each["image"]
    metadata = {"name": "train-0-6a", "creationTimestamp": NOON, "annotations": {names.KEY: "w-1/train-0/0"}}
    restarts = {name: {"restartPolicy": "Always"} for name in sidecars}
    spec: Case = {
        "containers": [{"name": "main"}, *({"name": name} for name in case.get("others", {}))],
        "initContainers": [{"name": name} | restarts.get(name, {}) for name in inits],
    }
    if case.get("node", "n1"):
        spec["nodeName"] = "n1"
    return {"metadata": metadata | case.get("metadata", {}), "spec": spec, "status": statuses | case.get("status", {})}


def fact(phase: str, *end: Any) -> TaskFact:
    return TaskFact(Phase(phase), *end)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_attempt_is_described_by_its_pod(case: Case) -> None:
    now = datetime.fromisoformat(case.get("now", LATER)).timestamp()
    it = pod(case)
    found = (
        status.fact_of(it, now, stopping=case.get("stopping", False)),
        status.says(it) if case["fact"][0] != "ENDED" else None,
        status.refusal(it),
        status.bound(it),
    )
    assert found == (fact(*case["fact"]), case.get("says"), case.get("refusal"), case.get("node", "n1") is not None)


def test_pod_without_a_status() -> None:
    it = {"metadata": {"name": "p"}, "spec": {}}
    assert (status.fact_of(it, 0.0), status.says(it), status.refusal(it)) == (TaskFact(Phase.STARTING), None, None)


def test_endless_message_is_truncated_and_stays_on_one_line() -> None:
    ended = {"exitCode": 1, "reason": "Error", "message": "a line\n" * 1000}
    found = status.fact_of(pod({"main": {"terminated": ended}, "status": {"phase": "Failed"}}), 0.0)
    assert found.message == "exit code 1: " + ("a line " * 100)[:499] + "…"


def test_pod_without_runrigs_annotation_is_identified_by_its_name() -> None:
    it = pod({"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}})
    it["metadata"]["annotations"] = {}
    assert status.says(it) == "train-0-6a is placed on n1, which has not started it yet"


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        (None, None),
        ([], None),
        ([{"type": "Scheduled", "status": "True", "message": "bound"}], None),
        ([{"type": "UnschedulableOnNodePool", "status": "False", "message": "it was"}], None),
        ([{"type": "UnschedulableOnNodePool", "status": "True", "message": "no rack\nhas 4"}], "no rack has 4"),
        ([{"type": "UnschedulableOnNodePool", "message": "no word of a status"}], "no word of a status"),
        ([{"type": "UnschedulableOnNodePool", "status": "True", "reason": "OverLimit"}], "OverLimit"),
        (
            [
                {"type": "UnschedulableOnNodePool", "status": "True", "message": "first"},
                {"type": "UnschedulableOnNodePool", "status": "True", "message": "last"},
            ],
            "last",
        ),
        (
            [
                {
                    "type": "UnschedulableOnNodePool",
                    "status": "True",
                    "reasons": [{"message": "over quota"}, {"reason": "X"}, {"message": "no room"}],
                }
            ],
            "over quota; no room",
        ),
    ],
)
def test_message_of_kai_about_an_unplaced_group(conditions: list[Case] | None, said: str | None) -> None:
    group = {"metadata": {"name": "g"}, "status": {"schedulingConditions": conditions}}
    assert status.refusal_of_group(group, 0.0) == said


@pytest.mark.parametrize(("time", "said"), [("11:59:59", None), ("12:00:00", "full"), ("12:00:01", "full")])
def test_message_of_kai_before_the_creation_of_the_waiting_pod_is_about_other_pods(time: str, said: str | None) -> None:
    """A task starts again in a running gang: what was said of the gang's beginning stays for ever."""
    when = f"2026-03-01T{time}Z"
    told = {"type": "UnschedulableOnNodePool", "status": "True", "message": "full", "lastTransitionTime": when}
    group = {"metadata": {"name": "g"}, "status": {"schedulingConditions": [told]}}
    assert status.refusal_of_group(group, status.made_at(pod({}))) == said


def test_unprocessed_group_has_no_message() -> None:
    assert status.refusal_of_group({"metadata": {"name": "g"}}, 0.0) is None
