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


def lost(here: Rig, *ids: str) -> None:
    """Deletes the only pod of each: gently, then by force, and so on."""
    for at, id in enumerate(ids):
        pod = here.pods(id)[f"{id}/main-0/0"]
        take_by_force(here, pod) if at % 2 else here.world.api.delete(pod)


def have_failed(here: Rig, *ids: str) -> None:
    for id in ids:
        here.until(lambda id=id: here.status(id).startswith("FAILED"), f"{id} has failed")  # type: ignore[misc]
        assert spoken(here, id) == {("FAILED_BACKEND_ERROR", 3001)}
    agree(here)


def test_running_pods_that_are_deleted_have_failed_and_do_not_return(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here, witness(here) as seen:
        ids, other = [submit(here, gang(name, 1)) for name in ("gently", "forced")], submit(here, gang("other", 2))
        for id in (*ids, other):
            here.runs(id)
        lost(here, *ids)
        have_failed(here, *ids)
        assert here.status(other) == "RUNNING"
        seen.check_nothing_was_made_twice()


def test_pods_deleted_before_they_are_bound_have_failed(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here, witness(here) as seen:
        with stopped(world.plane.scheduler):
            ids = [submit(here, gang(name, 1)) for name in ("gently", "forced")]
            here.until(lambda: len(here.pods()) == 2, "their pods are there")
            lost(here, *ids)
            have_failed(here, *ids)
        seen.check_nothing_was_made_twice()


def test_pods_deleted_while_the_server_is_down_are_missed_later(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here, witness(here) as seen:
        ids = [submit(here, gang(name, 1)) for name in ("gently", "forced")]
        for id in ids:
            here.runs(id)
        here.kill()
        lost(here, *ids)
        here.start()
        have_failed(here, *ids)
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
def test_changed_labels_are_repaired_and_the_pods_keep_running(world: World, tmp_path: Path, down: bool) -> None:
    """*down*: while no server runs; one that begins has nothing to know the last pod by."""
    changes = [*CHANGES][: -1 if down else None]
    with rig(world, tmp_path, CLUSTER) as here, witness(here) as seen:
        ids = [submit(here, gang(f"w{at}", 1)) for at in range(len(changes))]
        for id in ids:
            here.runs(id)
        before = [here.pods(id)[f"{id}/main-0/0"] for id in ids]
        if down:
            here.kill()
        for change, pod in zip(changes, before, strict=True):
            patch(here, pod, {"metadata": CHANGES[change]})
        if down:
            here.start()

        def now() -> list[Object]:
            return [world.api.read(pod) or pod for pod in before]

        marks = dict(zip(changes, map(_marks, before), strict=True))
        with suppress(TimeoutError):
            world.plane.until(
                lambda: [*map(_marks, now())] == [*marks.values()], "their marks are as they were", timeout_s=20
            )
        assert dict(zip(changes, map(_marks, now()), strict=True)) == marks
        agree(here)
        assert [pod["metadata"]["uid"] for pod in now()] == [pod["metadata"]["uid"] for pod in before]
        assert {here.status(id) for id in ids} == {"RUNNING"}
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
def test_objects_around_pods_are_repaired_and_no_pod_is_affected(
    world: World, tmp_path: Path, how: Callable[[Rig, Object], None]
) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        here.runs(submit(here, gang("w", 3)))
        agree(here)
        uids = here.uids()
        for version, kind, name in _names(world.namespace):
            if how is _says_something_else and kind in ("Topology", "Secret", "PriorityClass"):
                continue  # It cannot be changed.
            before = {each: _said(found) for each, found in live(here, version, kind).items()}
            how(here, live(here, version, kind)[name or next(iter(before))])
            here.until(
                lambda version=version, kind=kind, before=before: (  # type: ignore[misc]
                    {each: _said(found) for each, found in live(here, version, kind).items()} == before
                ),
                f"{kind} {name} is as it was",
                timeout_s=20,
            )
            agree(here)
            assert here.uids() == uids, (kind, name)


def _said(each: Object) -> Object:
    labels = each["metadata"].get("labels")
    kept = {part: each.get(part) for part in ("spec", "data", "value")}
    if each["kind"] == "Service":
        kept["spec"] = {part: each["spec"].get(part) for part in ("selector", "publishNotReadyAddresses")}
    return {"labels": labels, **kept}
