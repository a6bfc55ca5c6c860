"""The three examples of scheduling.md, preemption, how pods end, and what they said: on a real API server, pods in and pods out."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.api import path_of
from tests.kubernetes.runrigs import Rig, Seen, node_of, one_task, rig, stopped
from tests.kubernetes.world import EXAMPLES, World

HIGH, NORMAL, LOW = "HIGH", "NORMAL", "LOW"
ONE_POOL = "nodes: [{name: n0, resources: {gpu: 2}}]\npools: [{name: pool, quota: 2}]\n"
TWO_POOLS = "nodes: [{name: n0, resources: {gpu: 4}}]\npools: [{name: pool1, quota: 2}, {name: pool2, quota: 2}]\n"
SUBGROUP = "kai.scheduler/subgroup-name"


def submitted(here: Rig, name: str, pool: str, priority: str) -> str:
    return here.submit(one_task(name), pool, priority)


def started(here: Rig, since: str) -> list[str]:
    """Names of the workflows in the order in which their pods came."""
    return [key.partition("-")[0] for key in here.created(since)]


def statuses(here: Rig, id: str) -> list[str]:
    return [status for _, _, status in here.attempts(id)]


# ---------------------------------------------------------------- the examples


def test_the_queue_is_ordered_by_priority_and_then_by_submit_time(world: World, tmp_path: Path) -> None:
    """P4: example 1."""
    with rig(world, tmp_path, ONE_POOL) as here:
        start = here.now()
        wf1 = submitted(here, "wf1", "pool", NORMAL)
        here.runs(wf1)
        wf2 = submitted(here, "wf2", "pool", NORMAL)
        here.runs(wf2)
        wf3, wf4, wf5, wf6 = (
            submitted(here, name, "pool", priority)
            for name, priority in (("wf3", LOW), ("wf4", NORMAL), ("wf5", HIGH), ("wf6", NORMAL))
        )
        for ends, starts in ((wf1, wf5), (wf2, wf4), (wf5, wf6), (wf4, wf3)):
            here.finish(ends)
            assert here.runs(starts) == {"main": "n0"}
        assert started(here, start) == ["wf1", "wf2", "wf5", "wf4", "wf6", "wf3"]
        assert world.events("Evict", "Preempted") == []


def test_a_preempted_workflow_is_requeued_ahead_of_later_ones(world: World, tmp_path: Path) -> None:
    """R1, R6: example 2."""
    with rig(world, tmp_path, ONE_POOL) as here:
        start = here.now()
        wf1, wf2 = submitted(here, "wf1", "pool", LOW), submitted(here, "wf2", "pool", NORMAL)
        here.runs(wf1)
        here.runs(wf2)
        wf3, wf4 = submitted(here, "wf3", "pool", LOW), submitted(here, "wf4", "pool", LOW)
        wf5 = submitted(here, "wf5", "pool", NORMAL)
        here.runs(wf5)
        assert (here.status(wf1), statuses(here, wf1)) == ("PENDING", ["FAILED_PREEMPTED", "SCHEDULING"])
        for ends, starts in ((wf2, wf1), (wf5, wf3), (wf1, wf4)):
            here.finish(ends)
            here.runs(starts)
        assert started(here, start)[2:] == ["wf5", "wf1", "wf3", "wf4"]
        assert statuses(here, wf1) == ["FAILED_PREEMPTED", "COMPLETED"]
        assert world.events("Evict", "Preempted") == []


def test_a_pool_reclaims_exactly_what_it_lent(world: World, tmp_path: Path) -> None:
    """R2: example 3."""
    with rig(world, tmp_path, TWO_POOLS) as here:
        wf1, wf2 = submitted(here, "wf1", "pool1", NORMAL), submitted(here, "wf2", "pool1", LOW)
        wf4 = submitted(here, "wf4", "pool2", NORMAL)
        for workflow in (wf1, wf2, wf4):
            here.runs(workflow)
        wf3 = submitted(here, "wf3", "pool1", LOW)
        here.runs(wf3)
        kept = {key: uid for key, uid in here.uids().items() if not key.startswith("wf3")}
        wf5 = submitted(here, "wf5", "pool2", NORMAL)
        here.runs(wf5)
        assert statuses(here, wf3) == ["FAILED_PREEMPTED", "SCHEDULING"]
        assert {key: uid for key, uid in here.uids().items() if not key.startswith("wf5")} == kept
        here.finish(wf4)
        assert here.runs(wf3) == {"main": "n0"}
        assert world.events("Evict", "Preempted") == []


# ---------------------------------------------------------------- preemption


def test_preempted_pods_are_gone_before_their_preemptor_starts_and_return_later(world: World, tmp_path: Path) -> None:
    """R4, R6: a gang of two subgroups that takes its time to stop, for one that needs half of its nodes."""
    with rig(world, tmp_path, EXAMPLES / "02-cluster.yaml") as here:
        low = here.submit(EXAMPLES / "02-two-racks.yaml", "research", LOW)
        assert len(here.runs(low)) == 8
        first = subgroups(here, low)
        assert len(set(first.values())) == 2
        for pod in here.pods(low).values():
            here.annotate(pod, {"e2e.runrig/ignores-stop": "2s"})
        start = here.now()
        high = here.submit(EXAMPLES / "01-single-rack.yaml", "research", HIGH)
        assert len(here.runs(high)) == 4
        check_order(here.history(start), low, high)
        assert here.status(low) == "PENDING"
        assert set(statuses(here, low)) == {"FAILED_PREEMPTED", "SCHEDULING"}
        assert {task["exit_code"] for task in of_attempt(here, low, 0)} == {3006}
        here.until(lambda: not here.pods(low), "no pod of the first attempt is left")
        here.finish(high)
        assert len(here.runs(low)) == 8
        assert set(here.pods(low)) == {f"{key.rpartition('/')[0]}/1" for key in first}
        assert subgroups(here, low) == {f"{key.rpartition('/')[0]}/1": name for key, name in first.items()}
        assert world.events("Evict", "Preempted") == []


def subgroups(here: Rig, id: str) -> dict[str, str]:
    return {key: pod["metadata"]["labels"][SUBGROUP] for key, pod in here.pods(id).items()}


def check_order(seen: list[Seen], low: str, high: str) -> None:
    """None of *high* came before all of *low* had ended."""
    came = [index for index, each in enumerate(seen) if each.key.startswith(f"{high}/") and each.type == "ADDED"]
    ends: dict[str, int] = {}
    for index, each in enumerate(seen):
        if each.key.startswith(f"{low}/") and each.ended:
            ends.setdefault(each.key, index)
    assert (len(came), len(ends)) == (4, 8)
    assert max(ends.values()) < min(came)


def of_attempt(here: Rig, id: str, retry: int) -> list[Mapping[str, Any]]:
    tasks = [task for group in here.workflow(id)["groups"] for task in group["tasks"]]
    return [task for task in tasks if task["retry_id"] == retry]


def evicted_by_api(here: Rig, key: str) -> str:
    """As `kubectl drain` does; what is said about it."""
    pod = here.pods()[key]
    named = {"name": pod["metadata"]["name"], "namespace": here.world.namespace}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": named}
    here.world.api.call("POST", f"{path_of(pod)}/eviction", eviction)
    return "EvictionByEvictionAPI"


def evicted_because(reason: str, status: Mapping[str, str] = {}) -> Callable[[Rig, str], str]:
    """As a program of the cluster does that sets the condition and stops the pod; what is said about it."""

    def evict(here: Rig, key: str) -> str:
        words = f"because of {reason}"
        condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": words}
        ended = {"phase": "Failed", "conditions": [condition], **status}
        here.set_status(key, ended, exitCode=143, reason="Error")
        return status.get("message", words)

    return evict


LOW_ON_MEMORY = {"reason": "Evicted", "message": "The node was low on resource: memory"}
EVICTIONS = {
    "api": (evicted_by_api, "FAILED_EVICTED"),
    "taint": (evicted_because("DeletionByTaintManager"), "FAILED_EVICTED"),
    "kubelet": (evicted_because("TerminationByKubelet", LOW_ON_MEMORY), "FAILED_EVICTED"),
    "scheduler": (evicted_because("PreemptionByScheduler"), "FAILED_PREEMPTED"),
}


@pytest.mark.parametrize(("evict", "status"), EVICTIONS.values(), ids=EVICTIONS)
def test_what_the_cluster_evicts_is_queued_again_and_waits_for_a_change_of_nodes(
    world: World, tmp_path: Path, evict: Callable[[Rig, str], str], status: str
) -> None:
    """R6, T7: the cluster would do the same again."""
    with rig(world, tmp_path, ONE_POOL) as here:
        id = here.submit(one_task("w", count=2), "pool", LOW)
        here.runs(id)
        words = evict(here, f"{id}/main-0/0")
        here.wait(id, "PENDING")
        assert statuses(here, id) == [status, "SCHEDULING"] * 2
        said = here.until(lambda: said if "KaiNotPlaced" in (said := codes(here, id)) else None, "it waits")
        assert (said, words in here.why(id)) == (["KaiNotPlaced"], True)
        here.until(lambda: not here.pods(), "both pods are gone")
        node = {"metadata": {"labels": {"repaired": "yes"}}}
        world.api.call("PATCH", "/api/v1/nodes/n0", node, kind="application/merge-patch+json")
        assert here.runs(id) == {"main-0": "n0", "main-1": "n0"}


def codes(here: Rig, id: str) -> list[str]:
    """Returns the codes of the reasons why its only group waits."""
    (group,) = here.get(f"/api/v1/workflows/{id}/why")["groups"]
    return [str(reason["code"]) for reason in group["reasons"]]


# ---------------------------------------------------------------- how pods end

ENDS: Mapping[str, Mapping[str, Any]] = {
    "well": {"phase": "Succeeded", "exitCode": 0, "reason": "Completed"},
    "seven": {"phase": "Failed", "exitCode": 7, "reason": "Error"},
    "killed": {"phase": "Failed", "exitCode": 139, "reason": "Error"},
    "memory": {"phase": "Failed", "exitCode": 137, "reason": "OOMKilled"},
    "silent": {"phase": "Failed"},
    "evicted": {"phase": "Failed", "because": "Evicted", "message": "The node was low on resource: memory."},
    "entry": {"phase": "Failed", "exitCode": 128, "reason": "StartError", "said": "exec: train: not found"},
    "unfit": {"phase": "Failed", "because": "UnexpectedAdmissionError", "message": "no such device"},
}
"""Status of a pod; `exitCode`, `reason` and `said` are the container's, `because` and `message` the pod's own."""

WAITS = {"nopull": ("ErrImagePull", "train:1: not found"), "backoff": ("ImagePullBackOff", "Back-off pulling image")}
"""Why a container does not start: reason and message."""

EXPECTED = {
    "well": ("COMPLETED", 0, ""),
    "seven": ("FAILED", 7, ""),
    "killed": ("FAILED", 139, ""),
    "memory": ("FAILED_EVICTED", 3004, "OOMKilled"),
    "silent": ("FAILED", 4000, ""),
    "evicted": ("FAILED_EVICTED", 3004, "The node was low on resource: memory"),
    "entry": ("FAILED_START_ERROR", 3003, "exec: train: not found"),
    "unfit": ("FAILED_BACKEND_ERROR", 3001, "no such device"),
    "nopull": ("FAILED_IMAGE_PULL", 302, "train:1: not found"),
    "backoff": ("FAILED_IMAGE_PULL", 301, "Back-off pulling image"),
}
"""Status and exit code of the task, and what its message must say."""


def test_status_of_a_pod_becomes_status_exit_code_and_message_of_its_task(world: World, tmp_path: Path) -> None:
    """W1."""
    cluster = "nodes: [{name: n0, resources: {gpu: 16}}]\npools: [{name: pool, quota: 16}]\n"
    with rig(world, tmp_path, cluster) as here:
        ids = {name: here.submit(one_task(name), "pool") for name in ENDS}
        for name, id in ids.items():
            here.runs(id)
            end(here, f"{id}/main/0", ENDS[name])
        told = {name: how_it_ended(here, id) for name, id in ids.items()} | wait_for_images(here)
        assert {name: each[:2] for name, each in told.items()} == {name: each[:2] for name, each in EXPECTED.items()}
        for name, (_, _, says) in EXPECTED.items():
            assert says in told[name][2], (name, told[name])
        here.until(lambda: not here.pods(), "their pods are let go")


def end(here: Rig, key: str, how: Mapping[str, Any]) -> None:
    pod = {"phase": "phase", "because": "reason", "message": "message"}
    container = {"exitCode": "exitCode", "reason": "reason", "said": "message"}
    of_pod, of_container = ({to: how[name] for name, to in names.items() if name in how} for names in (pod, container))
    here.set_status(key, of_pod, **of_container)


def wait_for_images(here: Rig) -> dict[str, tuple[str, int, str]]:
    """They are bound, and no kubelet gets them to run: how that ends."""
    with stopped(here.world.plane.processes["kwok"]):
        ids = {name: here.submit(one_task(name), "pool") for name in WAITS}
        for name, id in ids.items():
            key = f"{id}/main/0"
            here.until(partial(bound, here, key), f"{key} is bound")
            reason, message = WAITS[name]
            here.set_waiting(key, reason=reason, message=message)
        return {name: how_it_ended(here, id) for name, id in ids.items()}


def bound(here: Rig, key: str) -> bool:
    pod = here.pods().get(key)
    return pod is not None and node_of(pod) is not None


def how_it_ended(here: Rig, id: str) -> tuple[str, int, str]:
    """Status, exit code and message of its task, once it has."""
    here.until(lambda: of_attempt(here, id, 0)[0]["end_time"], f"{id} has ended")
    (task,) = of_attempt(here, id, 0)
    return task["status"], task["exit_code"], task["failure_message"] or ""


def test_pod_that_does_not_start_in_time_has_failed_and_its_gpus_are_free(world: World, tmp_path: Path) -> None:
    cluster = "nodes: [{name: n0, resources: {gpu: 4}}]\npools: [{name: pool, quota: 4}]\n"
    with rig(world, tmp_path, cluster) as here:
        usual = here.file.read_text()
        with stopped(here.world.plane.processes["kwok"]):
            late = here.submit(one_task("late", 2), "pool")
            again = here.submit(one_task("again", 2, exitActions={"RESCHEDULE": "3005"}), "pool")
            for id in (late, again):
                here.until(partial(bound, here, f"{id}/main/0"), f"{id} is bound")
            kubelet_notes(here, f"{late}/main/0", "FailedMount", "MountVolume.SetUp failed: timed out")
            here.file.write_text(f"{usual}start_timeout_s: 3\n")
            here.restart()
            assert how_it_ended(here, late) == (
                "FAILED_START_TIMEOUT",
                3005,
                "not started within 3 s of placement: main is placed on n0, which has not started it yet; "
                "FailedMount: MountVolume.SetUp failed: timed out",
            )
            here.wait(late, "FAILED")
            here.until(lambda: here.attempts(again)[0][2] == "RESCHEDULED", "the other one is too late too")
            here.file.write_text(usual)
            here.restart()
        after = here.submit(one_task("after", 2), "pool")
        here.runs(after)
        here.until(lambda: here.attempts(again)[-1][2] == "RUNNING", "the other one runs at last")
        assert here.attempts(again)[0] == ("main", 0, "RESCHEDULED")
        here.until(lambda: not here.pods(late), "its pod is let go")


def kubelet_notes(here: Rig, key: str, reason: str, message: str) -> None:
    pod, now = here.pods()[key]["metadata"], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {"apiVersion": "v1", "kind": "Pod", **{name: pod[name] for name in ("name", "namespace", "uid")}}
    metadata = {"generateName": "e2e-", "namespace": pod["namespace"]}
    event: dict[str, Any] = {
        "metadata": metadata,
        "involvedObject": about,
        "source": {"component": "kubelet"},
        "type": "Warning",
    }
    event |= {"reason": reason, "message": message, "firstTimestamp": now, "lastTimestamp": now, "count": 1}
    here.world.api.create({"apiVersion": "v1", "kind": "Event"} | event)


def test_pod_deleted_by_others_has_ended_and_is_not_created_again(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, ONE_POOL) as here:
        start = here.now()
        id = here.submit(one_task("w"), "pool")
        here.runs(id)
        here.world.api.delete(here.pods()[f"{id}/main/0"])
        status, code, message = how_it_ended(here, id)
        assert (status, code) == ("FAILED_BACKEND_ERROR", 3001)
        assert "deleted" in message, message
        here.wait(id, "FAILED")
        here.until(lambda: not here.pods(), "its pod is let go")
        assert here.created(start) == [f"{id}/main/0"]


def test_gang_whose_node_is_deleted_restarts_elsewhere(world: World, tmp_path: Path) -> None:
    """T1: a rule of its own lets it start again after 3001."""
    cluster = "nodes: [{name: 'n{0..1}', resources: {gpu: 2}}]\npools: [{name: pool, quota: 4}]\n"
    with rig(world, tmp_path, cluster) as here:
        id = here.submit(one_task("w", 2, exitActions={"RESCHEDULE": "3001"}), "pool")
        (first,) = here.runs(id).values()
        (other,) = {"n0", "n1"} - {first}
        world.api.delete({"apiVersion": "v1", "kind": "Node", "metadata": {"name": first}})
        here.until(lambda: here.nodes(id) == {"main": other}, "it is on the other node")
        here.runs(id)
        assert here.attempts(id) == [("main", 0, "RESCHEDULED"), ("main", 1, "RUNNING")]


def test_gang_whose_only_node_is_deleted_has_failed_and_says_so(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, ONE_POOL) as here:
        id = here.submit(one_task("w"), "pool")
        here.runs(id)
        world.api.delete({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}})
        status, code, message = how_it_ended(here, id)
        assert (status, code, message) == ("FAILED_BACKEND_ERROR", 3001, "lost: n0 is gone")


# ---------------------------------------------------------------- output of pods

SAID = [f"epoch {number}" for number in range(5)]


def test_output_of_a_pod_can_be_read_while_it_runs_and_after_it_is_gone(world: World, tmp_path: Path) -> None:
    lines = "".join(f"2026-01-01T00:00:0{n}.000000000Z stdout F {text}\n" for n, text in enumerate(SAID))
    world.plane.pod_log.write_text(lines)
    try:
        with rig(world, tmp_path, ONE_POOL) as here:
            id = here.submit(one_task("w"), "pool")
            here.runs(id)
            here.until(lambda: here.say("workflow", "logs", id).splitlines() == SAID, "its log is read")
            here.finish(id)
            here.until(lambda: not here.pods(), "its pod is gone")
            world.plane.pod_log.write_text("")
            assert here.say("workflow", "logs", id).splitlines() == SAID
            assert here.say("workflow", "logs", id, "-n", "2").splitlines() == SAID[-2:]
            here.restart()
            assert here.say("workflow", "logs", id, "--task", "main").splitlines() == SAID
    finally:
        world.plane.pod_log.write_text("")
