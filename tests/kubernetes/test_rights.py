"""The account of `deploy/kubernetes/rbac.yaml` can do all that runrig does."""

from collections.abc import Callable
from pathlib import Path

from e2e.api import Object, path_of
from tests.failover.servers import Server
from tests.kubernetes.comparing import agree, its_log
from tests.kubernetes.faults import CLUSTER, gang, submit
from tests.kubernetes.rights import as_account, objects
from tests.kubernetes.runrigs import Rig, rig
from tests.kubernetes.test_claim import MERGE, claim, there
from tests.kubernetes.world import OURS, World


def test_whole_lifecycle_works_with_only_the_documented_permissions(world: World, tmp_path: Path) -> None:
    as_account(world, tmp_path)
    world.plane.pod_log.write_text("")
    with rig(world, tmp_path, CLUSTER) as here:
        here.say("pool", "subpool", "create", "team", "a", "--quota", "8")
        id = submit(here, gang("w", 3), "team--a")
        here.runs(id)
        assert sorted(kind for kind, _ in there(world) if kind in ("Pod", "PodGroup", "Secret", "Service")) == (
            ["Pod"] * 3 + ["PodGroup", "Secret", "Service"]
        )
        with world.plane.pod_log.open("a") as file:
            file.write("2026-01-01T00:00:00.000000000Z stdout F hello\n")
        here.until(lambda: "hello" in here.say("workflow", "logs", id), "its output can be read")
        here.until(lambda: "Scheduled" in here.say("workflow", "events", id), "what the cluster noted is told")
        _drift(here)
        agree(here)
        here.restart()
        here.post(f"/api/workflow/{id}/cancel")
        here.wait(id, "FAILED_CANCELED")
        here.say("pool", "subpool", "delete", "team", "a")
        done = submit(here, gang("v", 2))
        here.runs(done)
        here.finish(done)
        here.until(lambda: not _of_gangs(world), "all of both is gone")
        agree(here)
        assert claim(world)["data"]["term"] == "1"
        assert [line for line in its_log(here).splitlines() if "forbidden" in line or "not_removed" in line] == []


def test_missing_permission_is_named_with_the_way_out_and_work_continues_once_it_is_granted(
    world: World, tmp_path: Path
) -> None:
    as_account(world, tmp_path, without=["configmaps"])
    (role,) = [each for each in objects(world.namespace) if each["kind"] == "Role"]
    here = Rig(world, tmp_path, "pools: [{name: team, quota: 8}]", "")
    here.server = Server(here.arguments, here.log)
    try:
        here.server.wait_until_up()
        words = "Grant runrig the permissions in docs/kubernetes.md (deploy/kubernetes/rbac.yaml)"
        here.until(lambda: here.log.exists() and words in here.log.read_text(), "the way out is told")
        (first, *_) = [line for line in here.log.read_text().splitlines() if words in line]
        assert 'cannot get resource \\"configmaps\\"' in first or 'cannot get resource "configmaps"' in first
        assert "Traceback" not in here.log.read_text()
        world.api.call("PATCH", path_of(role), {"rules": role["rules"]}, kind=MERGE)
        here.until(lambda: here.server is not None and here.server.ready, "it is ready")
    finally:
        here.close()


def _drift(here: Rig) -> None:
    """Somebody deletes the service of the gang."""
    world = here.world
    (service,) = world.api.listed("v1", "Service", world.namespace, labelSelector=OURS)
    world.api.delete(service | {"apiVersion": "v1", "kind": "Service"})
    here.until(_other(world, "Service", service), "it is made again")


def _other(world: World, kind: str, than: Object) -> Callable[[], bool]:
    def other() -> bool:
        found = world.api.listed("v1", kind, world.namespace, labelSelector=OURS)
        return [each["metadata"]["uid"] for each in found] not in ([], [than["metadata"]["uid"]])

    return other


def _of_gangs(world: World) -> list[tuple[str, str]]:
    return [each for each in there(world) if each[0] in ("Pod", "PodGroup", "Secret", "Service")]
