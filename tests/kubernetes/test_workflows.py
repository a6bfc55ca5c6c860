"""What workflow files promise, on a real API server: the examples, files, leads, retries in place, fewer pods, kinds of nodes."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path

import yaml

from e2e.api import Object
from runrig.domain.credentials import written_keys
from tests.kubernetes.faults import end
from tests.kubernetes.runrigs import Rig, annotations, lives, one_task, rig, stopped
from tests.kubernetes.world import EXAMPLES, World

WORKFLOWS = EXAMPLES.parent / "workflows"
CLUSTER = "nodes: [{name: 'n{0..1}', resources: {gpu: 2, storage: 100Gi}}]\npools: [{name: pool, quota: 4}]\n"
GROUP = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}

CODES = {"retries-1/worker-0/0": 42, "retries-1/worker-0/1": 7}
"""How attempts end that do not end with 0."""
WITH_INPUTS = "10-pipeline"
LEAD_ENDS = "03-lead"


def environment(pod: Object) -> Mapping[str, str]:
    (container,) = pod["spec"]["containers"]
    return {each["name"]: each.get("value", "") for each in container["env"]}


def play(here: Rig, id: str, *, only: str | None = None) -> str:
    """Ends each pod that runs, as `CODES` says, until the workflow has ended: its status.  *only*: just those of this task."""

    def step() -> str | None:
        for key, pod in here.pods(id).items():
            if lives(pod) and pod["status"]["phase"] == "Running" and only in (None, key.split("/")[1]):
                end(here, pod, CODES.get(key, 0))
        status = here.status(id)
        return status if status not in ("PENDING", "RUNNING") else None

    return here.until(step, f"{id} has ended")


# ---------------------------------------------------------------- the examples


def test_each_example_completes_except_the_one_that_passes_files(world: World, tmp_path: Path) -> None:
    """There is no storage for outputs: a workflow with inputs is refused, and nothing of it comes to the cluster."""
    with rig(world, tmp_path, CLUSTER) as here:
        for file in sorted(WORKFLOWS.glob("*.yaml")):
            if file.stem == WITH_INPUTS:
                done = here.cli("workflow", "submit", str(file), "--pool", "pool")
                assert (done.code, "does not keep outputs" in done.err) == (2, True), done
            elif file.stem != LEAD_ENDS:
                id = here.submit(file, "pool")
                assert play(here, id) == "COMPLETED", here.events(id)
        here.until(lambda: not left(here), "nothing of them is left")


def left(here: Rig) -> list[str]:
    """Pods, pod groups, services and secrets of the namespace."""
    kinds = (("v1", "Pod"), ("v1", "Service"), ("v1", "Secret"), (GROUP["apiVersion"], GROUP["kind"]))
    return [
        f"{kind} {each['metadata']['name']}"
        for version, kind in kinds
        for each in here.world.api.listed(version, kind, here.world.namespace)
    ]


def test_when_the_lead_ends_the_others_are_stopped_and_the_group_has_completed(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        id = here.submit(WORKFLOWS / f"{LEAD_ENDS}.yaml", "pool")
        here.runs(id)
        start = here.now()
        assert play(here, id, only="trainer") == "COMPLETED"
        assert [(task, status) for task, _, status in here.attempts(id)] == [
            ("dashboard", "COMPLETED"),
            ("metrics", "COMPLETED"),
            ("trainer", "COMPLETED"),
        ]
        here.until(lambda: not left(here), "nothing of it is left")
        assert {each.key for each in here.history(start) if each.type == "DELETED"} == {
            f"{id}/{task}/0" for task in ("dashboard", "metrics", "trainer")
        }


# ---------------------------------------------------------------- what a pod receives


def test_pods_find_each_other_and_their_files(world: World, tmp_path: Path) -> None:
    """Names that a cluster's DNS would know: of the service of the gang, which is there, and of each pod in it."""
    with rig(world, tmp_path, CLUSTER) as here:
        id = here.submit(WORKFLOWS / "07-simulation.yaml", "pool")
        assert set(here.runs(id)) == {"referee", "walker", "flyer"}
        pods = here.pods(id)
        for pod in pods.values():
            service = {"metadata": {"name": pod["spec"]["subdomain"], "namespace": world.namespace}}
            found = world.api.read(service | {"apiVersion": "v1", "kind": "Service"})
            assert found is not None
            assert found["spec"]["clusterIP"] == "None"
            assert found["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        referee = pods[f"{id}/referee/0"]["spec"]
        host = f"{referee['hostname']}.{referee['subdomain']}.{world.namespace}.svc"
        script = yaml.safe_load((WORKFLOWS / "07-simulation.yaml").read_text())["workflow"]["groups"][0]["tasks"][1]
        wanted = script["files"][0]["contents"].replace("{{host:referee}}", host)
        assert file_of(here, pods[f"{id}/walker/0"], "/app/robot.py") == wanted


def file_of(here: Rig, pod: Object, path: str) -> str:
    """Its contents, from the secret that is mounted there."""
    (container,) = pod["spec"]["containers"]
    (mount,) = (each for each in container["volumeMounts"] if each["mountPath"] == path)
    (volume,) = (each["secret"] for each in pod["spec"]["volumes"] if each["name"] == mount["name"])
    metadata = {"name": volume["secretName"], "namespace": here.world.namespace}
    secret = here.world.api.read({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    assert secret is not None
    keys = {each["path"]: each["key"] for each in volume.get("items", ())}
    return base64.b64decode(secret["data"][keys.get(mount["subPath"], mount["subPath"])]).decode()


def test_images_are_pulled_with_the_credentials_of_the_submitter(world: World, tmp_path: Path) -> None:
    """In one secret, which comes again if somebody deletes it, and goes with the group."""
    (tmp_path / "key").write_text(written_keys((bytes(32),)))
    (tmp_path / "key").chmod(0o600)
    with rig(world, tmp_path, CLUSTER, more="credential_key: key\n") as here:
        for name, registry in (("ngc", "nvcr.io"), ("other", "ghcr.io")):
            values = f"registry: {registry}\nusername: ada\nauth: s3cr3t-{name}\n"
            here.say("credential", "set", name, "--type", "REGISTRY", "-f", "-", stdin=values)
        id = here.submit(one_task("w", image="nvcr.io/team/train:1"), "pool")
        here.runs(id)
        (pod,) = here.pods(id).values()
        (named,) = pod["spec"]["imagePullSecrets"]
        metadata = {"name": named["name"], "namespace": world.namespace}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}

        def auths() -> object:
            found = world.api.read(secret)
            return found and json.loads(base64.b64decode(found["data"][".dockerconfigjson"]))

        wanted = {"auths": {"nvcr.io": {"auth": base64.b64encode(b"ada:s3cr3t-ngc").decode()}}}
        assert auths() == wanted
        world.api.delete(secret)
        here.until(lambda: auths() == wanted, "it is there again", timeout_s=20)
        here.finish(id)
        here.until(lambda: not left(here), "nothing of it is left")
        assert "s3cr3t" not in here.log.read_text()


def test_partially_admitted_gang_learns_its_size_and_so_does_the_scheduler(world: World, tmp_path: Path) -> None:
    """A1-A3: three of four GPUs are free."""
    with rig(world, tmp_path, CLUSTER) as here:
        here.runs(here.submit(one_task("first"), "pool"))
        id = here.submit(one_task("many", count=4, minCount=2), "pool")
        assert len(here.runs(id)) == 3
        pods = here.pods(id)
        assert sorted(environment(pod)["RUNRIG_INDEX"] for pod in pods.values()) == ["0", "1", "2"]
        assert {(environment(pod)["RUNRIG_COUNT"], environment(pod)["RUNRIG_MAX_COUNT"]) for pod in pods.values()} == {
            ("3", "4")
        }
        (name,) = {annotations(pod)["pod-group-name"] for pod in pods.values()}
        group = world.api.read(GROUP | {"metadata": {"name": name, "namespace": world.namespace}})
        assert group is not None
        assert group["spec"]["minMember"] == 3


def test_each_kind_of_node_accepts_the_pods_that_name_it(world: World, tmp_path: Path) -> None:
    """Its label is asked for, and its taint is borne."""
    text = """
flavors:
  - {name: h100, node_labels: {gpu: h100}, taints: [{key: reserved, value: "yes", effect: NoSchedule}]}
  - {name: l4, node_labels: {gpu: l4}}
nodes:
  - {name: big, resources: {gpu: 8}, labels: {gpu: h100}, taints: [{key: reserved, value: "yes", effect: NoSchedule}]}
  - {name: small, resources: {gpu: 8}, labels: {gpu: l4}}
pools: [{name: pool, quota: {h100: {gpu: 8}, l4: {gpu: 8}}}]
"""
    with rig(world, tmp_path, text) as here:
        file = {"workflow": {"name": "w", "resources": kinds(), "tasks": [task("a", "big"), task("b", "small")]}}
        id = here.submit(file, "pool")
        here.until(lambda: here.nodes(id) == {"a": "big", "b": "small"}, "each is on its node")
        here.runs(id)


def kinds() -> Object:
    return {"big": {"gpu": 8, "platform": "h100"}, "small": {"gpu": 8, "platform": "l4"}}


def task(name: str, resource: str) -> Object:
    return {"name": name, "resource": resource, "image": "train:1", "command": ["train"]}


# ---------------------------------------------------------------- limited retries


def test_restarted_task_gets_a_new_pod_in_the_same_place(world: World, tmp_path: Path) -> None:
    """W1: the group goes on; the subgroup, by which the scheduler knows its place, too."""
    with rig(world, tmp_path, EXAMPLES / "02-cluster.yaml") as here:
        id = two_racks(here)
        first = here.pods(id)
        again = f"{id}/model2-shard1"
        here.ends(f"{again}/0", 9)
        here.until(lambda: here.attempts(id)[4:6] == expected_attempts(), "it runs again")
        here.until(lambda: f"{again}/0" not in here.pods(id), "the old pod is let go")
        now = here.pods(id)
        assert place(now[f"{again}/1"]) == place(first[f"{again}/0"])
        assert now[f"{again}/1"]["metadata"]["name"] != first[f"{again}/0"]["metadata"]["name"]
        others = {key: pod["metadata"]["uid"] for key, pod in first.items() if key != f"{again}/0"}
        assert {key: pod["metadata"]["uid"] for key, pod in now.items() if key != f"{again}/1"} == others


def test_restarted_task_next_to_a_finished_one_is_bound(world: World, tmp_path: Path) -> None:
    """KAI counts no pod that has ended, and binds nobody of a gang, or of a subgroup, that has fewer than it asks for."""
    with rig(world, tmp_path, EXAMPLES / "02-cluster.yaml") as here:
        id = two_racks(here)
        assert asked(here, id) == [4, 4]
        here.ends(f"{id}/model2-shard2/0")
        here.until(lambda: asked(here, id) == [3, 4], "it asks for those that are left")
        here.ends(f"{id}/model2-shard1/0", 9)
        again = here.until(lambda: here.pods(id).get(f"{id}/model2-shard1/1"), "it starts again")
        assert asked(here, id) == [3, 4]
        here.until(lambda: here.attempts(id)[4:6] == expected_attempts(), "it runs again")
        assert again["metadata"]["labels"]["kai.scheduler/subgroup-name"] in leaves(here, id)
        for shard in (3, 4):
            here.ends(f"{id}/model2-shard{shard}/0")
        here.ends(f"{id}/model2-shard1/1")
        here.until(lambda: asked(here, id) == [4], "a subgroup in which nobody is left is not asked for")


def leaves(here: Rig, id: str) -> dict[str, int]:
    """Returns how many pods each subgroup of its only gang's pod group asks for."""
    (name,) = {annotations(pod)["pod-group-name"] for pod in here.pods(id).values()}
    group = here.world.api.read(GROUP | {"metadata": {"name": name, "namespace": here.world.namespace}})
    assert group is not None
    return {each["name"]: each["minMember"] for each in group["spec"]["subGroups"]}


def asked(here: Rig, id: str) -> list[int]:
    return sorted(leaves(here, id).values())


def two_racks(here: Rig) -> str:
    """Eight tasks in two subgroups, which run; each starts again if it ends with 9."""
    spec = yaml.safe_load((EXAMPLES / "02-two-racks.yaml").read_text())
    for each in spec["workflow"]["groups"][0]["tasks"]:
        each["exitActions"] = {"RESCHEDULE": "9"}
    id = here.submit(spec, "research")
    here.runs(id)
    return id


def expected_attempts() -> list[tuple[str, int, str]]:
    return [("model2-shard1", 0, "RESCHEDULED"), ("model2-shard1", 1, "RUNNING")]


def place(pod: Object) -> Object:
    """Where it belongs, and where it is."""
    labels = pod["metadata"]["labels"]
    return {
        "node": pod["spec"]["nodeName"],
        "hostname": pod["spec"]["hostname"],
        "pod group": annotations(pod)["pod-group-name"],
        "subgroup": labels["kai.scheduler/subgroup-name"],
        "queue": labels["kai.scheduler/queue"],
    }


def test_cancelled_workflow_leaves_nothing_and_affects_no_other(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        other, id = here.submit(one_task("other"), "pool"), here.submit(one_task("w", count=2), "pool")
        here.runs(other)
        here.runs(id)
        kept = {key: uid for key, uid in here.uids().items() if key.startswith(other)}
        here.say("workflow", "cancel", id)
        here.wait(id, "FAILED_CANCELED")
        here.until(lambda: not here.pods(id), "its pods are gone")
        assert here.uids() == kept


def test_workflow_that_runs_too_long_is_stopped_with_all_its_pods(world: World, tmp_path: Path) -> None:
    """W1: one of them takes its time to stop, and is waited for."""
    with rig(world, tmp_path, CLUSTER) as here:
        file = {"workflow": {**one_task("w", count=2)["workflow"], "timeout": {"exec_timeout": "3s"}}}
        start = here.now()
        with stopped(world.plane.processes["kwok"]):
            id = here.submit(file, "pool")
            pods = here.until(lambda: found if len(found := here.pods(id)) == 2 else None, "its pods are there")
            here.annotate(pods[f"{id}/main-1/0"], {"e2e.runrig/ignores-stop": "2s"})
        here.wait(id, "FAILED_EXEC_TIMEOUT")
        seen = here.history(start)
        for each in (
            [each for each in seen if each.pod["status"]["phase"] == "Running"],
            [each for each in seen if each.ended],
        ):
            assert {one.key for one in each} == {f"{id}/main-0/0", f"{id}/main-1/0"}
        assert here.attempts(id) == [(f"main-{index}", 0, "FAILED_EXEC_TIMEOUT") for index in range(2)]
        here.until(lambda: not left(here), "nothing of it is left")
