"""What is not seen any more, and what nobody will say any more: nothing is decided on what was so once, and work does not wait for ever."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.api import Object, Refusal
from e2e.objects import namespace_object
from runrig.backends.kubernetes import cluster_view
from runrig.backends.kubernetes.cluster import Timeouts, connect
from runrig.backends.kubernetes.cluster_view import ClusterView
from runrig.domain.errors import Unavailable
from tests.kubernetes.comparing import agree
from tests.kubernetes.faults import CLUSTER, gang, submit
from tests.kubernetes.runrigs import Rig, rig, stopped
from tests.kubernetes.test_claim import claim, touched
from tests.kubernetes.test_watching import token_of
from tests.kubernetes.wire import cable, kubeconfig
from tests.kubernetes.world import World

RBAC = "rbac.authorization.k8s.io"
PLURALS = ("nodes", "pods", "podgroups", "services", "secrets", "queues", "topologies", "priorityclasses")


@contextmanager
def looking(world: World, place: Path) -> Iterator[ClusterView]:
    """With watches that end every second."""
    cluster = connect(place, timeouts=Timeouts(watch=1))
    made = ClusterView(cluster, world.namespace, lambda: None)
    try:
        yield made
    finally:
        made.stop()
        cluster.close()


def trouble(found: ClusterView) -> str | None:
    try:
        found.start()
    except Unavailable as error:
        return error.message
    return None


@contextmanager
def reader(world: World, tmp_path: Path) -> Iterator[tuple[Path, Object]]:
    """A kubeconfig of one who may read everything, and the role that says so."""
    name, account = f"reader-{world.namespace}", {"name": "reader", "namespace": world.namespace}
    token = token_of(world, "reader")
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["list", "watch"]}]
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    subject = {"kind": "ServiceAccount", **account}
    binding = role | {
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [subject],
    }
    del binding["rules"]
    for each in (role, binding):
        world.api.create(each)
    try:
        yield kubeconfig(world.plane, tmp_path / "reader", token=token), role
    finally:
        for each in (role, binding):
            world.api.delete(each)


# ---------------------------------------------------------------- watches


@pytest.mark.parametrize(("kind", "plural"), [("Pod", "pods"), ("Secret", "secrets")])
def test_revoked_permission_is_reported_and_everything_works_again_after_it_is_granted(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, plural: str
) -> None:
    monkeypatch.setattr(cluster_view, "LOST_S", 1.0)
    with reader(world, tmp_path) as (place, role), looking(world, place) as found:
        world.plane.until(lambda: trouble(found) is None, "all is seen")
        left = [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]},
            {"apiGroups": ["*"], "resources": [each for each in PLURALS if each != plural], "verbs": ["watch"]},
        ]
        world.api.apply(role | {"rules": left})
        # The server ends the watch first, and may report it before it refuses another one.
        said = world.plane.until(lambda: told if "Forbidden" in (told := trouble(found) or "") else None, "it is told")
        assert said.startswith(
            f"lost the watch on {kind} objects of {world.plane.url}: the API server refused the request (403 Forbidden): "
            f'{plural} is forbidden: User "system:serviceaccount:{world.namespace}:reader" cannot watch resource "{plural}"'
        )
        world.api.apply(role)
        world.plane.until(lambda: trouble(found) is None, "all is seen again")


def test_short_outage_of_the_api_server_is_tolerated_and_a_longer_one_is_reported(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cable(world.plane) as line:
        place = kubeconfig(world.plane, tmp_path / "k", url=f"https://127.0.0.1:{line.port}")
        with looking(world, place) as found:
            found.start()
            line.cut()
            world.plane.until(lambda: found._watches["Pod"].lost_s > 1, "it is out of touch")
            assert trouble(found) is None
            monkeypatch.setattr(cluster_view, "LOST_S", 1.0)
            assert "lost the watch on Pod objects of" in (trouble(found) or "")
            line.mend()
            world.plane.until(lambda: trouble(found) is None, "all is seen again")


# ---------------------------------------------------------------- a node that does not report


@pytest.mark.parametrize(("cancelled", "ends"), [(False, "FAILED_BACKEND_ERROR"), (True, "FAILED_CANCELED")])
def test_pod_on_a_dead_node_has_ended_when_it_is_deleted_by_force(
    world: World, tmp_path: Path, cancelled: bool, ends: str
) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        id = submit(here, gang("w", 1))
        here.runs(id)
        with stopped(world.plane.processes["kwok"]):
            if cancelled:
                here.post(f"/api/workflow/{id}/cancel")
                here.until(lambda: "deletionTimestamp" in only(here)["metadata"], "it is told to stop")
            began = time.monotonic()
            world.api.delete(only(here), grace_s=0)
            here.until(lambda: touched(here) and here.attempts(id) != [("main-0", 0, "RUNNING")], "it has ended")
            assert here.attempts(id) == [("main-0", 0, ends)]
            assert time.monotonic() - began > 8, "a kubelet that lives would have had no time"
        agree(here)


def only(here: Rig) -> Object:
    (pod,) = here.pods().values()
    return pod


# ---------------------------------------------------------------- the namespace


def test_work_in_a_deleted_namespace_has_failed_and_later_work_runs_in_another(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        lost = submit(here, gang("lost", 2))
        here.runs(lost)
        before = claim(world)
        world.api.delete(namespace_object(world.namespace))
        here.until(lambda: touched(here) and is_another(here, before), "the namespace is there again")
        here.until(lambda: here.status(lost).startswith("FAILED"), "what ran there has failed")
        codes = [task["exit_code"] for task in here.workflow(lost)["groups"][0]["tasks"]]
        assert 3001 in codes, "the other one is stopped with it"
        here.runs(submit(here, gang("w", 2)))
        assert claim(world)["data"]["identity"] == before["data"]["identity"]
        assert here.server is not None
        assert here.server.says("/readyz")[0] == 200
        agree(here)


def is_another(here: Rig, before: Object) -> bool:
    try:
        now = claim(here.world)
    except Refusal:
        return False
    return bool(now) and now["metadata"]["uid"] != before["metadata"]["uid"]
