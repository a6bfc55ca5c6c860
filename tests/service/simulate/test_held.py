"""What the status of a dump keeps from starting: held work, checks that are open, queues that are not active."""

import copy
from typing import Any

import pytest

from runrig.service.simulate.simulate import Options, parse_gates
from tests.service.simulate.simulations import FLAVOR, job, kueue, line, manifests, outcome, queue, stamp, workload

TO_THE_END = Options(cycles=0)


def condition(kind: str, status: str, reason: str, **more: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": stamp(2), **more}


def with_status(made: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {**made, "status": {**made.get("status", {}), **status}}


def starts(*documents: dict[str, Any], options: Options = TO_THE_END) -> dict[str, bool]:
    """Workload → whether it only has its quota, of all that start."""
    found = line(manifests(FLAVOR, *documents), options)
    return {
        each["workload"].removeprefix("default/"): each.get("reserved_only", False)
        for cycle in found["cycles"]
        for each in cycle["admitted"]
    }


def note(*documents: dict[str, Any]) -> str:
    """Why the workload ``w`` is held back, as people are told."""
    (cycle, *_) = outcome(manifests(FLAVOR, *documents), "test.yaml", TO_THE_END).cycles
    (one,) = [each for each in cycle.pending if each.workload == "default/w"]
    return one.note


HELD = [
    ({"conditions": [condition("QuotaReserved", "False", "OnHold")]}, "it is on hold (OnHold)"),
    (
        {"conditions": [condition("WaitingForReplacementPods", "True", "Some")]},
        "it waits for replacement pods (WaitingForReplacementPods)",
    ),
    (
        {"conditions": [condition("Requeued", "False", "PodsReadyTimeout")]},
        "it was evicted and is not requeued yet (PodsReadyTimeout)",
    ),
    ({"requeueState": {"count": 1, "requeueAt": stamp(42)}}, "it was evicted and can be requeued in 40 s"),
]


@pytest.mark.parametrize(("status", "why"), HELD)
def test_workload_held_by_its_status_is_not_queued(status: dict[str, Any], why: str) -> None:
    now = kueue("ResourceFlavor", "later", meta={"creationTimestamp": stamp(2)})
    documents = now, *queue("q", 4), with_status(workload("w", "q", 2), **status), workload("v", "q", 2)
    assert (starts(*documents), note(*documents)) == ({"v": False}, why)


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": [condition("QuotaReserved", "False", "Pending")]},
        {"conditions": [condition("WaitingForReplacementPods", "False", "None")]},
        {"conditions": [condition("Requeued", "True", "Preempted")]},
        {"requeueState": {"count": 1, "requeueAt": stamp(2)}},
        {"requeueState": {"count": 1}},
    ],
)
def test_workload_released_by_its_status_is_queued(status: dict[str, Any]) -> None:
    now = kueue("ResourceFlavor", "later", meta={"creationTimestamp": stamp(2)})
    assert starts(now, *queue("q", 4), with_status(workload("w", "q", 2), **status)) == {"w": False}


@pytest.mark.parametrize("made", [workload("w", "q", 2), job("w", 2, 1)], ids=lambda made: str(made["kind"]))
def test_foreign_gate_holds_a_workload_unless_gates_are_ignored(made: dict[str, Any]) -> None:
    gated = copy.deepcopy(made)
    gated["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    gated["metadata"]["annotations"] = {"kueue.x-k8s.io/admission-gated-by": "example.com/ready"}
    assert starts(*queue("q", 4), gated) == {}
    assert note(*queue("q", 4), gated) == "its admission is gated by example.com/ready"
    off = Options(0, TO_THE_END.settings.__class__(gates=parse_gates("AdmissionGatedBy=false")))
    assert starts(*queue("q", 4), gated, options=off) == {"w": False}


@pytest.mark.parametrize(
    ("spec", "states", "reserved_only"),
    [
        ({"admissionChecks": ["a"]}, {}, True),
        ({"admissionChecks": ["a"]}, {"a": "Pending"}, True),
        ({"admissionChecks": ["a"]}, {"a": "Ready"}, False),
        ({"admissionChecks": ["a", "b"]}, {"a": "Ready"}, True),
        ({"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}]}}, {}, True),
        ({"admissionChecksStrategy": {"admissionChecks": [{"name": "a", "onFlavors": ["default"]}]}}, {}, True),
        ({"admissionChecksStrategy": {"admissionChecks": [{"name": "a", "onFlavors": ["other"]}]}}, {}, False),
        ({}, {}, False),
    ],
)
def test_work_gets_quota_and_waits_for_the_checks_of_its_queue(
    spec: dict[str, Any], states: dict[str, str], reserved_only: bool
) -> None:
    checks = [{"name": name, "state": state, "message": ""} for name, state in states.items()]
    waits = with_status(workload("w", "q", 2), admissionChecks=checks)
    assert starts(*queue("q", 4, **spec), waits) == {"w": reserved_only}


@pytest.mark.parametrize(
    ("state", "expected"), [("Retry", ["next", "w"]), ("Rejected", ["next"]), ("Ready", []), ("Pending", [])]
)
def test_rejected_check_evicts_the_workload(state: str, expected: list[str]) -> None:
    """It queues from its eviction, which is now, behind who waits; after *next* there is room for it too."""
    holds = with_status(workload("w", "q", 1, 3, running=True), admissionChecks=[{"name": "a", "state": state}])
    holds["spec"]["podSets"][0]["minCount"] = 1
    assert list(starts(*queue("q", 4), holds, workload("next", "q", 2, at=5))) == expected


def test_check_that_retries_shows_the_time() -> None:
    """It is evicted, and 40 s later it may queue again; no time passes here."""
    check = {"name": "a", "state": "Retry", "lastTransitionTime": stamp(2), "requeueAfterSeconds": 40}
    holds = with_status(workload("w", "q", 3, running=True), admissionChecks=[check])
    documents = *queue("q", 4), holds
    assert starts(*documents) == {}
    last = outcome(manifests(FLAVOR, *documents), "test.yaml", TO_THE_END).cycles[-1]
    assert [each.note for each in last.pending] == ["it was evicted and can be requeued in 40 s"]
    check["requeueAfterSeconds"] = 0
    assert list(starts(*documents)) == ["w"]


@pytest.mark.parametrize("given_up", [True, False])
def test_workload_about_to_be_deactivated_stops_and_does_not_return(given_up: bool) -> None:
    """For reasons that only Kueue knows: too many retries, too long a run."""
    holds = workload("w", "q", 3, running=True)
    holds["status"]["conditions"].append(condition("DeactivationTarget", str(given_up), "RequeuingLimitExceeded"))
    assert list(starts(*queue("q", 4), holds, workload("next", "q", 2, at=5))) == ["next"] * given_up


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
@pytest.mark.parametrize(
    ("reason", "order"),
    [
        ("PodsReadyTimeout", ["new", "second"]),
        ("AdmissionCheck", ["new", "second"]),
        ("Preempted", ["first", "second"]),
    ],
)
def test_evicted_workload_queues_from_its_eviction_once_it_has_stopped(
    reason: str, order: list[str], strategy: str
) -> None:
    """Two were evicted, the one that came first later; there is room for two of three."""
    evicted = []
    for name, created, at in (("first", 1, 40), ("second", 2, 30)):
        made = workload(name, "q", 1, at=created, running=True)
        made["status"]["conditions"].append(condition("Evicted", "True", reason, lastTransitionTime=stamp(at)))
        evicted.append(made)
    new = workload("new", "q", 1, at=20)
    assert list(starts(*queue("q", 2, queueingStrategy=strategy), *evicted, new)) == order


def test_local_queue_being_deleted_starts_nothing_and_keeps_running_work() -> None:
    queued, local = queue("q", 4)
    local["metadata"]["deletionTimestamp"] = stamp(3)
    found = line(manifests(FLAVOR, queued, local, workload("runs", "q", 1, running=True), workload("w", "q", 2)))
    (cycle,) = found["cycles"]
    assert (cycle["admitted"], cycle["preempted"]) == ([], [])
    assert [each["message"] for each in found["warnings"]] == ["it is being deleted: nothing new starts"]


@pytest.mark.parametrize(
    "reason", ["AdmissionCheckNotFound", "AdmissionCheckInactive", "TopologyNotFound", "Terminating"]
)
def test_a_queue_that_is_not_active_starts_nothing(reason: str) -> None:
    closed, local = queue("q", 4)
    closed = with_status(closed, conditions=[condition("Active", "False", reason)])
    found = line(manifests(FLAVOR, closed, local, workload("w", "q", 2)), TO_THE_END)
    assert found["inactive"] == [{"node": "q", "kind": "ClusterQueue", "reason": reason}]
    assert [each["admitted"] for each in found["cycles"]] == [[]] * len(found["cycles"])
    assert [each["message"] for each in found["warnings"]] == [
        f"its status is inactive ({reason}), so nothing new starts; remove the condition to see what would start"
    ]


@pytest.mark.parametrize(("status", "reason"), [("False", "Stopped"), ("False", "FlavorNotFound"), ("True", "Ready")])
def test_status_that_other_objects_also_have_is_ignored(status: str, reason: str) -> None:
    """Somebody may have changed them since, to see what would happen."""
    changed, local = queue("q", 4)
    changed = with_status(changed, conditions=[condition("Active", status, reason)])
    assert starts(changed, local, workload("w", "q", 2)) == {"w": False}


def test_queue_being_deleted_starts_nothing_and_keeps_running_work() -> None:
    going, local = queue("q", 4)
    going["metadata"]["deletionTimestamp"] = stamp(3)
    runs = workload("runs", "q", 1, running=True)
    found = line(manifests(FLAVOR, going, local, runs, workload("w", "q", 2)), TO_THE_END)
    assert found["inactive"] == [{"node": "q", "kind": "ClusterQueue", "reason": "Terminating"}]
    assert [(each["admitted"], each["preempted"]) for each in found["cycles"]] == [([], [])] * len(found["cycles"])
    assert found["quota"]["after"]["q"]["default/cpu"]["usage"] == 1000
