"""The harness itself: what it starts answers, what it plays is told by tests, and nothing is left of it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psutil
import pytest

from e2e import programs
from e2e.api import Object, path_of, until
from e2e.harness import _RUNS_KEPT, ControlPlane, _folder, control_plane
from e2e.objects import namespace_object
from e2e.processes import Died, Process
from tests.kubernetes.world import EXAMPLES, World, bare_pod, stand_in_only

CLUSTER = EXAMPLES / "01-cluster.yaml"


def test_server_reports_the_pinned_version(plane: ControlPlane) -> None:
    assert plane.api.call("GET", "/version")["gitVersion"] == programs.version("kube", "k8s.io/kubernetes")


def test_nodes_are_those_of_the_cluster_file(world: World) -> None:
    labels = world.nodes(CLUSTER)
    found = {each["metadata"]["name"]: each for each in world.api.listed("v1", "Node")}
    assert {name: node["metadata"]["labels"]["nvidia.com/gpu-clique"] for name, node in found.items()} == {
        name: each["nvidia.com/gpu-clique"] for name, each in labels.items()
    }
    assert [node["status"]["allocatable"]["nvidia.com/gpu"] for node in found.values()] == ["4"] * 8


def test_rendered_pods_that_are_pinned_run_on_their_nodes(world: World) -> None:
    """The placement is ours; the scheduler only binds."""
    world.nodes(CLUSTER)
    objects = world.rendered(EXAMPLES / "01-single-rack.yaml", CLUSTER)
    pods = [each for each in objects if each["kind"] == "Pod"]
    nodes = ["node8", "node6", "node7", "node5"]
    world.create([each for each in objects if each["kind"] != "Pod"])
    world.create([pinned(pod, node) for pod, node in zip(pods, nodes, strict=True)])
    assert world.all_run() == {f"model1-shard{number}": node for number, node in enumerate(nodes, start=1)}


def test_pod_pinned_to_a_full_node_waits_and_the_scheduler_says_why(world: World) -> None:
    stand_in_only(world)
    world.nodes(CLUSTER)
    for name, said in (("first", "True"), ("second", "False")):
        world.create([pinned(bare_pod(world.namespace, name, gpus=4), "node1")])
        world.plane.until(lambda name=name, said=said: _scheduled(world, name) == said, f"of {name} it says {said}")  # type: ignore[misc]
    assert world.nodes_of_pods() == {"first": "node1", "second": None}


def test_pods_end_as_their_annotations_say(world: World) -> None:
    world.nodes(CLUSTER)
    ends, codes = {"e2e.runrig/ends-after": "100ms"}, {"good": 0, "bad": 7}
    for name, code in codes.items():
        said = ends | {"e2e.runrig/exit-code": str(code)}
        world.create([bare_pod(world.namespace, name, node="node1", annotations=said)])
    world.plane.until(lambda: world.phases() == {"good": "Succeeded", "bad": "Failed"}, "the pods have ended")
    for name, code in codes.items():
        (status,) = world.pods()[name]["status"]["containerStatuses"]
        assert status["state"]["terminated"]["exitCode"] == code


def test_pod_ends_when_a_test_writes_its_status(world: World) -> None:
    world.nodes(CLUSTER)
    (pod,) = world.create([bare_pod(world.namespace, "p", node="node1")])
    world.all_run()
    ended = {"exitCode": 137, "reason": "OOMKilled"}
    states = [{"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0}]
    world.api.set_status(pod, {"phase": "Failed", "containerStatuses": [states[0] | {"state": {"terminated": ended}}]})
    kept = world.pods()["p"]["status"]
    assert (kept["phase"], kept["containerStatuses"][0]["state"]["terminated"]["exitCode"]) == ("Failed", 137)


def test_deleted_pod_disappears(world: World) -> None:
    world.nodes(CLUSTER)
    (pod,) = world.create([bare_pod(world.namespace, "p", node="node1")])
    world.all_run()
    world.api.delete(pod)
    world.plane.until(lambda: world.api.read(pod) is None, "the pod is gone")


def test_finalizer_keeps_a_stopped_pod_until_it_is_removed(world: World) -> None:
    world.nodes(CLUSTER)
    (pod,) = world.create([kept_pod(world, "p", {})])
    world.all_run()
    world.api.delete(pod)
    stopped = world.plane.until(
        lambda: _stopped_for_good(world, pod), "it is stopped, and deleted but for the finalizer"
    )
    assert ended(stopped) == ("Failed", {"exitCode": 143, "reason": "Error"})
    let_go(world, pod)


def test_pod_can_ignore_a_stop_during_its_grace_period(world: World) -> None:
    world.nodes(CLUSTER)
    ignores = {"told": "2s", "forced": "300s"}
    pods = world.create([kept_pod(world, name, {"e2e.runrig/ignores-stop": span}) for name, span in ignores.items()])
    world.all_run()
    for pod, grace_s, least_s in zip(pods, (None, 0), (1.5, 0), strict=True):
        asked = time.monotonic()
        world.api.delete(pod, grace_s=grace_s)
        stopped = world.plane.until(partial(_stopped_for_good, world, pod), "it is stopped")
        assert (ended(stopped)[0], time.monotonic() - asked > least_s) == ("Failed", True)
        let_go(world, pod)


def test_finished_pod_keeps_its_exit_code_when_it_is_deleted(world: World) -> None:
    world.nodes(CLUSTER)
    (pod,) = world.create([kept_pod(world, "p", {"e2e.runrig/ends-after": "1ms", "e2e.runrig/exit-code": "7"})])
    world.plane.until(lambda: world.phases() == {"p": "Failed"}, "it has ended")
    world.api.delete(pod)
    stopped = world.plane.until(lambda: _stopped_for_good(world, pod), "it is deleted but for the finalizer")
    assert ended(stopped) == ("Failed", {"exitCode": 7, "reason": "Error"})
    let_go(world, pod)


def test_pod_that_never_ran_ends_without_an_exit_code(world: World) -> None:
    world.nodes(CLUSTER)
    (pod,) = world.create([kept_pod(world, "p", {})])
    world.all_run()
    waits = {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0}
    waits["state"] = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    world.api.set_status(pod, {"phase": "Pending", "containerStatuses": [waits]})
    world.api.delete(pod)
    stopped = world.plane.until(lambda: _stopped_for_good(world, pod), "it is deleted but for the finalizer")
    (status,) = stopped["status"]["containerStatuses"]
    assert (stopped["status"]["phase"], status["state"]) == ("Failed", waits["state"])
    let_go(world, pod)


def test_log_of_a_pod_is_served_by_the_api_server(world: World) -> None:
    world.nodes(CLUSTER)
    world.create([bare_pod(world.namespace, "p", node="node1")])
    world.all_run()
    world.plane.pod_log.write_text("".join(f"2026-01-01T00:00:0{n}.000000000Z stdout F line {n}\n" for n in range(4)))
    log = f"/api/v1/namespaces/{world.namespace}/pods/p/log"
    assert world.api.call("GET", log, tailLines="2") == "line 2\nline 3\n"


def test_killed_server_returns_with_all_its_objects(plane: ControlPlane) -> None:
    kept = namespace_object("kept")
    made = plane.api.create(kept)
    server = plane.processes["kube-apiserver"]
    server.kill()
    assert not plane.ready()
    server.start()
    plane.until(plane.ready, "the API server is ready again", timeout_s=90)
    found = plane.api.read(kept)
    assert found is not None
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    plane.api.delete(kept)


def test_program_that_ends_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    process = Process("p", ["/bin/sh", "-c", "echo out of luck; exit 3"], tmp_path / "p.log", {})
    process.start()
    until(lambda: _ended(process), "it ended")
    with pytest.raises(Died, match=r"p ended with 3; .*p\.log ends with:\nout of luck"):
        process.check()


def test_killed_harness_ends_its_programs_and_the_next_one_cleans_up(plane: ControlPlane, tmp_path: Path) -> None:
    environment = os.environ | {programs.CACHE: str(tmp_path), programs.GIVEN: str(_all_programs(tmp_path))}
    started = [sys.executable, "-m", "e2e.harness", str(CLUSTER)]
    with subprocess.Popen(started, env=environment, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        said = [harness.stdout.readline() for _ in range(2)]
        programs_of_it = psutil.Process(harness.pid).children(recursive=True)
        harness.send_signal(signal.SIGKILL)
    assert re.match(r"https://127\.0\.0\.1:\d+, 8 nodes; ", said[0]), said
    assert len(programs_of_it) >= 5
    until(lambda: not any(each.is_running() for each in programs_of_it), "no program of it is left")
    (left,) = (tmp_path / "runs").iterdir()
    assert (left / "state").exists()
    with control_plane(root=tmp_path / "runs"):
        assert not (left / "state").exists()
        assert (left / "logs" / "etcd.log").exists()


def pinned(pod: Object, node: str) -> Object:
    """*pod*, allowed on *node* alone."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return pod | {"spec": pod["spec"] | {"affinity": {"nodeAffinity": required}}}


def kept_pod(world: World, name: str, annotations: Mapping[str, str]) -> Object:
    """One with a finalizer: it stays until that is taken away, whoever deletes it."""
    pod = bare_pod(world.namespace, name, node="node1", annotations=annotations)
    return pod | {"metadata": pod["metadata"] | {"finalizers": ["runrig/e2e"]}}


def let_go(world: World, pod: Object) -> None:
    """Takes the finalizer away: the pod goes with it, at once."""
    world.api.call("PATCH", path_of(pod), {"metadata": {"finalizers": None}}, kind="application/merge-patch+json")
    assert world.api.read(pod) is None


def ended(pod: Object) -> tuple[str, Object]:
    """Its phase, and how its container ended."""
    (status,) = pod["status"]["containerStatuses"]
    return pod["status"]["phase"], {key: status["state"]["terminated"][key] for key in ("exitCode", "reason")}


def _stopped_for_good(world: World, pod: Object) -> Object | None:
    """As it is once a kubelet would have done with it."""
    found = world.api.read(pod)
    assert found is not None, "the finalizer keeps it"
    return found if found["metadata"].get("deletionGracePeriodSeconds") == 0 and _over(found) else None


def _over(pod: Object) -> bool:
    return pod["status"]["phase"] in ("Succeeded", "Failed")


def _scheduled(world: World, pod: str) -> str | None:
    conditions = world.pods()[pod]["status"].get("conditions", ())
    return next((each["status"] for each in conditions if each["type"] == "PodScheduled"), None)


def _ended(process: Process) -> bool:
    try:
        process.check()
    except Died:
        return True
    return False


def _all_programs(folder: Path) -> Path:
    """A folder of links to them, so that another cache builds nothing."""
    place = folder / "given"
    place.mkdir()
    for name in (*programs.BUILT, *programs.KAI):
        if found := programs.find(name):
            (place / name).symlink_to(found)
    return place


def test_concurrent_runs_keep_their_own_folders(tmp_path: Path) -> None:
    def run(_: int) -> bool:
        with _folder(tmp_path / "runs") as folder:
            (folder / "state/key").write_text("k")
            time.sleep(0.01)
            return (folder / "state/key").is_file()

    with ThreadPoolExecutor(6) as several:
        assert all(several.map(run, range(60)))
    assert len(list((tmp_path / "runs").iterdir())) <= _RUNS_KEPT + 6
