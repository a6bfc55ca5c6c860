"""One runrig, one namespace: a second one does nothing there and says why."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.api import Object, path_of
from e2e.objects import namespace_object
from runrig.backends.kubernetes.cluster import connect
from runrig.backends.kubernetes.namespace_claim import NamespaceClaim
from runrig.domain.errors import Unavailable
from runrig.service.runtime.leadership import UNREACHABLE
from tests.failover.servers import Server
from tests.kubernetes.comparing import agree
from tests.kubernetes.faults import CLUSTER, gang, submit
from tests.kubernetes.runrigs import Rig, rig, stopped
from tests.kubernetes.world import OURS, World, bare_pod

KINDS = (
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("scheduling.run.ai/v2alpha2", "PodGroup"),
    ("scheduling.run.ai/v2", "Queue"),
    ("kai.scheduler/v1alpha1", "Topology"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
)
MERGE = "application/merge-patch+json"
REFUSED = re.compile(r"namespace \S+ belongs to another runrig.*?--namespace [\w-]+")


@contextmanager
def another(here: Rig, name: str = "another") -> Iterator[Rig]:
    """With a database of its own, on the same cluster and namespace; it is started, and may never be ready."""
    folder = here.folder / name
    folder.mkdir()
    found = Rig(here.world, folder, (here.folder / "cluster.yaml").read_text(), "")
    found.server = Server(found.arguments, found.log)
    try:
        found.server.wait_until_up()
        yield found
    finally:
        found.kill()


def config_map(world: World) -> Object:
    metadata = {"name": "runrig-claim", "namespace": world.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def claim(world: World) -> Object:
    return world.api.read(config_map(world)) or {}


def identity(here: Rig) -> str:
    return str(claim(here.world)["data"]["identity"])


def there(world: World) -> dict[tuple[str, str], str]:
    """All that a runrig made: (kind, name) → uid."""
    found = {}
    for version, kind in KINDS:
        namespace = None if kind in ("Queue", "Topology", "PriorityClass") else world.namespace
        for each in world.api.listed(version, kind, namespace, labelSelector=OURS):
            found[kind, each["metadata"]["name"]] = each["metadata"]["uid"]
    return found


def refusals(here: Rig) -> list[str]:
    """As its log has them."""
    return REFUSED.findall(here.log.read_text()) if here.log.exists() else []


def touched(here: Rig) -> bool:
    """A node, which is reason enough to look again whether all is as it should be."""
    marks = {"metadata": {"annotations": {"e2e.runrig/touched": here.now()}}}
    here.world.api.call("PATCH", "/api/v1/nodes/a0", marks, kind=MERGE)
    return True


def is_refused(here: Rig, times: int = 1) -> None:
    """Returns when it has been, so many times more; it is not ready then."""
    before = len(refusals(here))
    here.until(lambda: len(refusals(here)) >= before + times, "it is refused")
    assert here.server is not None
    assert here.server.says("/readyz")[0] == 503


def test_second_runrig_changes_nothing_and_says_why_and_the_first_continues(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        id = submit(here, gang("w", 3))
        here.runs(id)
        agree(here)
        before, mine = there(world), claim(world)
        with another(here) as second:
            is_refused(second, times=3)
            assert second.server is not None
            body = {"message": f"this server cannot answer: {UNREACHABLE}", "error_code": "UNAVAILABLE", "details": {}}
            assert second.server.says("/readyz") == (503, body)
            said = mine["data"]
            assert sorted(said) == ["claimed_at", "claimed_by", "epoch", "identity", "term"]
            assert set(refusals(second)) == {
                f"namespace {world.namespace} belongs to another runrig with its own database (claimed at "
                f"{said['claimed_at']} by {said['claimed_by']}). Use another backend.namespace. If that "
                f"runrig no longer exists, run kubectl delete configmap runrig-claim --namespace {world.namespace}"
            }
            assert (there(world), claim(world)) == (before, mine)
            after = submit(here, gang("after", 2))
            here.runs(after)
            assert here.status(id) == "RUNNING"
            agree(here)


def test_deleting_the_config_map_of_a_former_owner_frees_the_namespace(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        id = submit(here, gang("w", 3))
        here.runs(id)
        first = identity(here)
        with another(here) as second:
            is_refused(second)
            here.kill()
            world.api.delete(config_map(world))
            second.kill()
            second.start()
            assert identity(second) != first
            second.until(lambda: not second.pods(), "what the other one left is gone")
            second.runs(submit(second, gang("mine", 2)))
            agree(second)
            here.server = Server(here.arguments, here.log)  # which was still running
            here.server.wait_until_up()
            is_refused(here)
            agree(second)


def test_restart_finds_its_claim_and_recreates_a_deleted_one(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        id = submit(here, gang("w", 2))
        here.runs(id)
        mine, pods = claim(world), here.uids()
        here.restart()
        here.runs(submit(here, gang("later", 1)))
        assert claim(world) == mine
        world.api.delete(config_map(world))
        here.runs(submit(here, gang("last", 1)))
        here.until(lambda: touched(here) and claim(world), "it is made anew")
        assert identity(here) == mine["data"]["identity"]
        assert pods.items() <= here.uids().items()


def test_server_whose_namespace_was_reassigned_changes_nothing_more(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        here.runs(submit(here, gang("w", 2)))
        agree(here)
        mine = claim(world) | {"apiVersion": "v1", "kind": "ConfigMap"}
        with stopped(here):  # else it may make its own again in between
            world.api.delete(mine)
            world.api.create(config_map(world) | {"data": {"identity": "of another"}})
        here.until(lambda: touched(here) and refusals(here), "it is seen whose it is")
        before = there(world)
        id = submit(here, gang("later", 2))
        is_refused(here)
        assert "claimed at an unknown time by an unknown server" in refusals(here)[-1]
        assert there(world) == before
        world.api.delete(config_map(world))
        here.runs(id)
        assert identity(here) == mine["data"]["identity"]


def test_one_of_two_servers_started_together_gets_the_namespace(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        here.kill()
        world.api.delete(config_map(world))
        with another(here, "one") as one, another(here, "two") as two:
            both = (one, two)
            here.until(lambda: any(each.server is not None and each.server.ready for each in both), "one is ready")
            (winner,) = [each for each in both if each.server is not None and each.server.ready]
            (loser,) = {*both} - {winner}
            is_refused(loser)
            assert refusals(winner) == []


def test_new_database_with_lower_epochs_takes_over_existing_objects(world: World, tmp_path: Path) -> None:
    """A backup restored elsewhere: what a leader of a later epoch made, and nobody knows any more, goes."""
    with rig(world, tmp_path, CLUSTER) as here:
        submit_and_run(here, "w")
        here.kill()
        world.api.call("PATCH", path_of(config_map(world)), {"data": {"epoch": "9", "term": "40"}}, kind=MERGE)
        stranger = bare_pod(world.namespace, "stranger", annotations={"runrig/key": "gone-1/main/0"})
        stranger["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "runrig", "runrig/epoch": "40"}
        world.api.create(stranger)
        here.start()
        said = claim(world)["data"]
        assert (said["epoch"], said["term"]) == ("0", "41")
        here.until(lambda: len(here.pods()) == 2, "what nobody knows is gone")
        agree(here)
        assert labels(here.pods(submit_and_run(here, "next"))) == {"41"}


def test_config_map_without_a_count_starts_above_all_existing_terms(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        id = submit_and_run(here, "w")
        here.kill()
        world.api.delete(config_map(world))
        for pod in here.pods(id).values():
            world.api.call("PATCH", path_of(pod), {"metadata": {"labels": {"runrig/epoch": "12"}}}, kind=MERGE)
        here.start()
        assert claim(world)["data"]["term"] == "13"
        here.restart()
        assert claim(world)["data"]["term"] == "13", "the same leader of the same database"
        agree(here)


def test_leader_of_a_later_term_is_left_alone_and_the_number_is_repaired(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        submit_and_run(here, "w")
        mine = claim(world)["data"]
        world.api.call("PATCH", path_of(config_map(world)), {"data": {"term": None}}, kind=MERGE)
        here.until(lambda: touched(here) and claim(world)["data"] == mine, "it is put right")
        world.api.call("PATCH", path_of(config_map(world)), {"data": {"term": "9"}}, kind=MERGE)
        here.until(
            lambda: touched(here) and "another server with the same database has become the leader" in said_by(here),
            "it is seen",
        )
        assert here.server is not None
        assert here.server.says("/readyz")[0] == 503
        before = there(world)
        submit(here, gang("later", 2))
        here.until(lambda: touched(here) and said_by(here).count("another server with the same") >= 3, "and again")
        assert there(world) == before


def test_leader_that_slept_before_it_began_takes_no_term(world: World) -> None:
    """It was told that it leads, and another was elected and has begun meanwhile; or the database says that it leads no more."""
    cluster = connect(world.plane.kubeconfig)

    def term(epoch: int, leads: Callable[[], bool]) -> int:
        made = NamespaceClaim(cluster, world.namespace, "ours", epoch, leads)
        made.hold()
        return made.term

    def overtaken() -> bool:
        assert term(6, lambda: True) == 2
        return True

    try:
        assert term(4, lambda: True) == 1
        with pytest.raises(Unavailable, match="409 Conflict"):
            term(5, overtaken)
        with pytest.raises(Unavailable, match="no longer the leader, so it does not claim"):
            term(5, lambda: False)
        said = claim(world)["data"]
        assert (said["epoch"], said["term"]) == ("6", "2")
        world.api.delete(config_map(world))
        with pytest.raises(Unavailable, match="no longer the leader, so it does not claim"):
            term(5, lambda: False)
        assert claim(world) == {}
    finally:
        cluster.close()


def test_deleted_namespace_is_created_and_claimed_again(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        mine = claim(world)["data"]
        world.api.delete(namespace_object(world.namespace))
        here.until(lambda: touched(here) and not _leaving(world) and claim(world), "it is made again", timeout_s=90)
        assert claim(world)["data"] | {"claimed_at": ""} == mine | {"claimed_at": ""}
        submit_and_run(here, "w")


def _leaving(world: World) -> bool:
    found = world.api.read(namespace_object(world.namespace))
    return found is None or "deletionTimestamp" in found["metadata"]


def submit_and_run(here: Rig, name: str) -> str:
    id = submit(here, gang(name, 2))
    here.runs(id)
    return id


def labels(pods: dict[str, Object]) -> set[str]:
    return {pod["metadata"]["labels"]["runrig/epoch"] for pod in pods.values()}


def said_by(here: Rig) -> str:
    return here.log.read_text()
