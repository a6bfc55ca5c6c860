"""Objects of ours that somebody else deletes or changes: what can be repaired is, the rest is told, and nothing runs twice."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from e2e.api import Object
from tests.kubernetes.comparing import agree
from tests.kubernetes.faults import CLUSTER, gang, patch, submit, take_by_force, witness
from tests.kubernetes.runrigs import Rig, rig, stopped
from tests.kubernetes.world import OURS, World

QUEUE, TOPOLOGY, POD_GROUP = "scheduling.run.ai/v2", "kai.scheduler/v1alpha1", "scheduling.run.ai/v2alpha2"


def live(here: Rig, version: str, kind: str) -> dict[str, Object]:
    namespace = None if kind in ("Queue", "Topology", "PriorityClass") else here.world.namespace
    found = here.world.api.listed(version, kind, namespace, labelSelector=OURS)
    return {each["metadata"]["name"]: each | {"apiVersion": version, "kind": kind} for each in found}


def spoken(here: Rig, id: str) -> set[tuple[str, int | None]]:
    """(status, exit code) of its tasks."""
    return {(task["status"], task["exit_code"]) for task in here.workflow(id)["groups"][0]["tasks"]}


# ---------------------------------------------------------------- pods


@pytest.mark.parametrize("force", [False, True])
def test_running_pod_that_is_deleted_has_failed_and_does_not_return(world: World, tmp_path: Path, force: bool) -> None:
    with rig(world, tmp_path, CLUSTER) as here, witness(here) as seen:
        id, other = submit(here, gang("w", 1)), submit(here, gang("other", 2))
        here.runs(id)
        here.runs(other)
        pod = here.pods(id)[f"{id}/main-0/0"]
        take_by_force(here, pod) if force else world.api.delete(pod)
        here.until(lambda: here.status(id).startswith("FAILED"), "it has failed")
        assert spoken(here, id) == {("FAILED_BACKEND_ERROR", 3001)}
        agree(here)
        assert here.status(other) == "RUNNING"
        seen.check_nothing_was_made_twice()


@pytest.mark.parametrize("force", [False, True])
def test_pod_deleted_before_it_is_bound_has_failed(world: World, tmp_path: Path, force: bool) -> None:
    with rig(world, tmp_path, CLUSTER) as here, witness(here) as seen:
        with stopped(world.plane.scheduler):
            id = submit(here, gang("w", 1))
            here.until(lambda: len(here.pods(id)) == 1, "its pod is there")
            pod = here.pods(id)[f"{id}/main-0/0"]
            take_by_force(here, pod) if force else world.api.delete(pod)
            here.until(lambda: here.status(id).startswith("FAILED"), "it has failed")
            assert spoken(here, id) == {("FAILED_BACKEND_ERROR", 3001)}
            agree(here)
        seen.check_nothing_was_made_twice()


@pytest.mark.parametrize("force", [False, True])
def test_pod_deleted_while_the_server_is_down_is_missed_later(world: World, tmp_path: Path, force: bool) -> None:
    with rig(world, tmp_path, CLUSTER) as here, witness(here) as seen:
        id = submit(here, gang("w", 1))
        here.runs(id)
        here.kill()
        pod = here.pods(id)[f"{id}/main-0/0"]
        take_by_force(here, pod) if force else world.api.delete(pod)
        here.start()
        here.until(lambda: here.status(id).startswith("FAILED"), "it has failed")
        assert spoken(here, id) == {("FAILED_BACKEND_ERROR", 3001)}
        agree(here)
        seen.check_nothing_was_made_twice()


def test_pod_with_an_exit_rule_restarts_as_the_next_attempt_in_another_pod(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here, witness(here) as seen:
        id = submit(here, gang("w", 1, exitActions={"RESCHEDULE": "3001"}))
        here.runs(id)
        world.api.delete(here.pods(id)[f"{id}/main-0/0"])
        here.until(lambda: here.attempts(id)[1:] == [("main-0", 1, "RUNNING")], "it runs again")
        agree(here)
        seen.check_nothing_was_made_twice()


@pytest.mark.parametrize("before_s", [5, -5], ids=["before", "after"])
def test_late_report_of_an_end_before_a_drain_counts(world: World, tmp_path: Path, before_s: int) -> None:
    with rig(world, tmp_path, CLUSTER) as here, witness(here) as seen:
        id = submit(here, gang("w", 1), priority="LOW")
        (node,) = here.runs(id).values()
        key = f"{id}/main-0/0"
        with stopped(world.plane.processes["kwok"]):
            here.say("node", "drain", str(node))
            deleted = here.until(lambda: here.pods()[key]["metadata"].get("deletionTimestamp"), "its pod is deleted")
            grace_s = here.pods()[key]["metadata"]["deletionGracePeriodSeconds"]
            ended = datetime.fromisoformat(deleted) - timedelta(seconds=grace_s + before_s)
            at = ended.strftime("%Y-%m-%dT%H:%M:%SZ")
            here.set_status(key, {"phase": "Succeeded"}, exitCode=0, reason="Completed", finishedAt=at)
            status = "COMPLETED" if before_s > 0 else "FAILED_EVICTED"
            here.until(lambda: here.attempts(id)[0] == ("main-0", 0, status), f"it is {status}")
        again = [] if before_s > 0 else [("main-0", 1, "RUNNING")]
        here.until(lambda: here.attempts(id)[1:] == again, "it runs again, or does not")
        agree(here)
        seen.check_nothing_was_made_twice()


# ---------------------------------------------------------------- labels and annotations of pods


def _pod_of(here: Rig, id: str) -> Object:
    (found,) = (
        each | {"apiVersion": "v1", "kind": "Pod"}
        for each in here.world.api.listed("v1", "Pod", here.world.namespace)
        if each["spec"]["containers"][0]["image"] == "train:1"
    )
    return found


def _marks(pod: Object) -> Object:
    """Those of runrig: KAI adds an annotation of its own."""
    marks = {part: pod["metadata"].get(part) for part in ("labels", "annotations", "finalizers")}
    ours = {name: value for name, value in (marks["annotations"] or {}).items() if name != "received-resource-type"}
    return marks | {"annotations": ours}


CHANGES: dict[str, Object] = {
    "whose it is": {"labels": {"app.kubernetes.io/managed-by": None}},
    "whose it is, otherwise": {"labels": {"app.kubernetes.io/managed-by": "me"}},
    "its gang": {"labels": {"runrig/gang": "none"}},
    "all labels": {"labels": None},
    "all annotations": {"annotations": None},
    "its attempt": {"annotations": {"runrig/key": "other-1/main-0/0"}},
    "the finalizer": {"finalizers": None},
    "labels, annotations, finalizers": {"labels": None, "annotations": None, "finalizers": None},
}


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_labels_are_repaired_and_the_pod_keeps_running(
    world: World, tmp_path: Path, change: Object, down: bool
) -> None:
    if down and set(change) == {"labels", "annotations", "finalizers"}:
        pytest.skip("a server that begins has nothing to know it by")
    with rig(world, tmp_path, CLUSTER) as here, witness(here) as seen:
        id = submit(here, gang("w", 1))
        here.runs(id)
        before = _pod_of(here, id)
        if down:
            here.kill()
        patch(here, before, {"metadata": change})
        if down:
            here.start()

        marks = _marks(before)
        with suppress(TimeoutError):
            world.plane.until(lambda: _marks(_pod_of(here, id)) == marks, "its marks are as they were", timeout_s=10)
        assert _marks(_pod_of(here, id)) == marks
        agree(here)
        assert _pod_of(here, id)["metadata"]["uid"] == before["metadata"]["uid"]
        assert here.status(id) == "RUNNING"
        seen.done()


# ---------------------------------------------------------------- objects around pods


def _goes(here: Rig, each: Object) -> None:
    here.world.api.delete(each)


def _loses_its_label(here: Rig, each: Object) -> None:
    patch(here, each, {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}})


def _says_something_else(here: Rig, each: Object) -> None:
    others = {
        "Queue": {"resources": {"gpu": {"quota": 1, "limit": 1, "overQuotaWeight": 7}}},
        "PodGroup": {"queue": "elsewhere"},
        "Service": {"publishNotReadyAddresses": False},
    }
    patch(here, each, {"spec": others[each["kind"]]})


def _names(namespace: str) -> list[tuple[str, str, str | None]]:
    team = f"osmo-pool-{namespace}-team"
    return [
        (QUEUE, "Queue", f"{team}---shared"),
        (QUEUE, "Queue", team),
        (QUEUE, "Queue", f"osmo-default-{namespace}"),
        (TOPOLOGY, "Topology", f"{team}-topology"),
        (POD_GROUP, "PodGroup", None),
        ("v1", "Service", None),
        ("v1", "Secret", None),
        ("scheduling.k8s.io/v1", "PriorityClass", "osmo-low"),
    ]


@pytest.mark.parametrize("how", [_goes, _loses_its_label, _says_something_else])
@pytest.mark.parametrize(
    "at", range(8), ids=[f"{kind} {(name or '').rpartition('-')[2]}" for _, kind, name in _names("n")]
)
def test_objects_around_pods_are_repaired_and_no_pod_is_affected(
    world: World, tmp_path: Path, at: int, how: Callable[[Rig, Object], None]
) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        version, kind, name = _names(world.namespace)[at]
        if how is _says_something_else and kind in ("Topology", "Secret", "PriorityClass"):
            pytest.skip("it cannot be changed")
        id = submit(here, gang("w", 3))
        here.runs(id)
        agree(here)
        uids, all_before = here.uids(), live(here, version, kind)
        before = all_before[name] if name else next(iter(all_before.values()))
        how(here, before)

        def right() -> bool:
            now = live(here, version, kind)
            return now.keys() == all_before.keys() and all(_said(now[each]) == _said(all_before[each]) for each in now)

        here.until(right, "it is as it was", timeout_s=20)
        agree(here)
        assert here.uids() == uids


def _said(each: Object) -> Object:
    labels = each["metadata"].get("labels")
    kept = {part: each.get(part) for part in ("spec", "data", "value")}
    if each["kind"] == "Service":
        kept["spec"] = {part: each["spec"].get(part) for part in ("selector", "publishNotReadyAddresses")}
    return {"labels": labels, **kept}
