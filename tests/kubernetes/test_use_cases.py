"""The four use cases of topology-aware-scheduling.md on the clusters drawn there, and what becomes of a gang that fits nowhere, or that
only the cluster's scheduler refuses.  Where a pod is says the API server."""

from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.api import Object
from tests.kubernetes.runrigs import Rig, begun_anew, node_of, one_task, pinned_to, rig, stopped
from tests.kubernetes.world import EXAMPLES, World, bare_pod

CLIQUE = "nvidia.com/gpu-clique"
ZONE, SPINE, RACK = (f"topology.kubernetes.io/{name}" for name in ("zone", "spine", "rack"))
POOL = "research"
EVICTIONS = ("Evict", "Preempted")
SHARDS = [f"model1-shard{number}" for number in range(1, 5)]

Domains = dict[str, set[str]]


def domains(
    here: Rig, id: str, label: str, *, of: Callable[[str], str] = lambda task: task.partition("-")[0]
) -> Domains:
    """Copy of the model → values of *label* on the nodes of its pods."""
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in here.world.api.listed("v1", "Node")}
    found: Domains = {}
    for task, node in here.nodes(id).items():
        found.setdefault(of(task), set()).add(labels[str(node)][label])
    return found


def apart(domains: Domains) -> bool:
    """Each copy in one domain, no two of them in the same."""
    return all(len(each) == 1 for each in domains.values()) and len(set.union(*domains.values())) == len(domains)


def submitted(here: Rig, workflow: str) -> str:
    return here.submit(EXAMPLES / f"{workflow}.yaml", POOL)


def check_nobody_was_evicted(here: Rig) -> None:
    assert here.world.events(*EVICTIONS) == []


def test_four_shards_are_bound_to_the_four_nodes_of_one_rack(world: World, tmp_path: Path) -> None:
    """T1: use case 1."""
    with rig(world, tmp_path, EXAMPLES / "01-cluster.yaml") as here:
        id = submitted(here, "01-single-rack")
        placed = here.runs(id)
        assert (sorted(placed), len(set(placed.values()))) == (SHARDS, 4)
        assert apart(domains(here, id, CLIQUE))
        told = {task["name"]: task["node_name"] for task in here.workflow(id)["groups"][0]["tasks"]}
        assert told == placed
        check_nobody_was_evicted(here)


def test_each_copy_of_the_model_is_bound_in_its_own_rack(world: World, tmp_path: Path) -> None:
    """T1: use case 2."""
    with rig(world, tmp_path, EXAMPLES / "02-cluster.yaml") as here:
        id = submitted(here, "02-two-racks")
        assert len(here.runs(id)) == 8
        assert apart(domains(here, id, CLIQUE))
        check_nobody_was_evicted(here)


def test_both_copies_are_bound_in_the_zone_with_two_racks(world: World, tmp_path: Path) -> None:
    """T1: use case 3."""
    with rig(world, tmp_path, EXAMPLES / "03-cluster.yaml") as here:
        id = submitted(here, "03-one-zone")
        assert len(here.runs(id)) == 8
        assert domains(here, id, ZONE) == {"model1": {"a"}, "model2": {"a"}}
        assert apart(domains(here, id, CLIQUE))
        check_nobody_was_evicted(here)


@pytest.mark.parametrize(("cluster", "one_spine"), [("04-cluster", True), ("04-cluster-apart", False)])
def test_best_effort_is_bound_as_close_as_possible(world: World, tmp_path: Path, cluster: str, one_spine: bool) -> None:
    """T2: use case 4."""
    with rig(world, tmp_path, EXAMPLES / f"{cluster}.yaml") as here:
        id = submitted(here, "04-best-effort")
        assert len(here.runs(id)) == 8
        assert apart(domains(here, id, RACK))
        spines = domains(here, id, SPINE)
        assert spines == {"model1": {"a"}, "model2": {"a"}} if one_spine else apart(spines)
        check_nobody_was_evicted(here)


def test_each_slice_is_bound_in_one_rack_and_all_in_one_zone(world: World, tmp_path: Path) -> None:
    """T1: on 54 nodes."""
    with rig(world, tmp_path, EXAMPLES / "05-cluster.yaml") as here:
        id = submitted(here, "05-slices")
        assert len(here.runs(id)) == 20
        slices = domains(here, id, CLIQUE, of=lambda task: str(int(task.rpartition("-")[2]) // 4))
        assert [len(slices[str(number)]) for number in range(5)] == [1] * 5
        assert domains(here, id, ZONE) == {"shard": {"a"}}
        check_nobody_was_evicted(here)


# ---------------------------------------------------------------- requests that do not fit


def foreign(here: Rig, node: str) -> None:
    here.foreign_pod(node, 1)


def cordoned(here: Rig, node: str) -> None:
    patch_node(here, node, {"unschedulable": True})


def tainted(here: Rig, node: str) -> None:
    patch_node(here, node, {"taints": [{"key": "broken", "value": "fan", "effect": "NoSchedule"}]})


TAKEN = pytest.mark.parametrize("taken", [foreign, cordoned, tainted], ids=lambda taken: str(taken.__name__))


def patch_node(here: Rig, node: str, spec: Object) -> None:
    here.world.api.call("PATCH", f"/api/v1/nodes/{node}", {"spec": spec}, kind="application/merge-patch+json")


def usable(here: Rig) -> int:
    """Nodes that could take a pod of four GPUs now, as runrig sees them."""
    nodes = here.get("/api/resources")["resources"]
    return sum(node["ready"] and not node["taints"] and node["free"]["gpu"] == 4 for node in nodes)


@TAKEN
def test_gang_that_fits_no_rack_waits_and_names_the_level(
    world: World, tmp_path: Path, taken: Callable[[Rig, str], None]
) -> None:
    """T1: a node of each rack is taken; six are free, and four in one rack are not."""
    with rig(world, tmp_path, EXAMPLES / "01-cluster.yaml") as here:
        here.until(lambda: usable(here) == 8, "all nodes are seen")
        for node in ("node2", "node7"):
            taken(here, node)
        here.until(lambda: usable(here) == 6, "it is seen that two are taken")
        start = here.now()
        id = submitted(here, "01-single-rack")
        said = here.why(id)
        assert "no gpu-clique has room for all 4 pods; the best fits 3" in said, said
        assert (here.status(id), here.history(start)) == ("PENDING", [])
        patch_node(here, "node2", {"unschedulable": None, "taints": None})
        here.clear_foreign("node2")
        here.runs(id)
        assert domains(here, id, CLIQUE) == {"model1": {"a"}}


# ---------------------------------------------------------------- refusals of the cluster's scheduler alone


@TAKEN
def test_gang_whose_node_is_taken_before_it_is_bound_is_retracted_and_placed_elsewhere(
    world: World, tmp_path: Path, taken: Callable[[Rig, str], None]
) -> None:
    """T7: its pods are there, and nobody binds them; meanwhile one of their nodes is not to be had any more."""
    with rig(world, tmp_path, EXAMPLES / "01-cluster.yaml", more="bind_timeout_s: 2\n") as here:
        start = here.now()
        with begun_anew(world.plane.scheduler):
            id = submitted(here, "01-single-rack")
            first = here.until(lambda: pods if len(pods := here.pods(id)) == 4 else None, "its pods are there")
            assert [node_of(pod) for pod in first.values()] == [None] * 4
            wanted = {pinned_to(pod) for pod in first.values()}
            taken(here, sorted(wanted)[0])
        here.until(lambda: here.attempts(id)[-1][1] > 0, "it was taken back")
        placed = here.runs(id)
        check_second_attempt(here, id, placed, wanted)
        told = here.events(id)
        assert "KaiNotPlaced" in told, told
        ended = [
            index for index, seen in enumerate(here.history(start)) if seen.key in first and seen.type == "DELETED"
        ]
        assert len(ended) == 4


def check_second_attempt(here: Rig, id: str, placed: dict[str, str | None], before: set[str]) -> None:
    assert sorted(placed) == SHARDS
    assert before.isdisjoint(map(str, placed.values()))
    assert apart(domains(here, id, CLIQUE))
    assert here.attempts(id) == [
        (shard, attempt, status)
        for shard in SHARDS
        for attempt, status in enumerate(("FAILED_BACKEND_ERROR", "RUNNING"))
    ]
    here.until(lambda: list(here.pods(id)) == [f"{id}/{shard}/1" for shard in SHARDS], "nothing of the first is left")


def test_gang_refused_by_the_scheduler_for_its_own_reason_waits_with_its_message(world: World, tmp_path: Path) -> None:
    """T7: by our books there is room, but a pod of somebody else wants none of ours beside it."""
    cluster = "nodes: [{name: only, resources: {gpu: 8}}]\npools: [{name: research, quota: 8}]\n"
    single = EXAMPLES / "01-single-rack.yaml"
    with rig(world, tmp_path, cluster, more="bind_timeout_s: 2\n") as here:
        here.create_foreign(hermit(world.namespace), "only")
        here.until(
            lambda: [each["free"]["gpu"] for each in here.get("/api/resources")["resources"]] == [7], "it is seen"
        )
        text = single.read_text().replace("gpu: 4, topology: [{key: gpu-clique}]", "gpu: 1")
        (tmp_path / "four.yaml").write_text(text)
        id = here.submit(tmp_path / "four.yaml", POOL)
        said = here.until(lambda: said if "KaiNotPlaced" in (said := reasons(here, id)) else None, "it is refused")
        assert "anti-affinity" in here.why(id), here.why(id)
        assert said == ["KaiNotPlaced"]
        here.until(lambda: not here.pods(id), "its pods are gone")
        assert here.status(id) == "PENDING"
        here.clear_foreign("only")
        assert set(here.runs(id).values()) == {"only"}
        assert len(here.nodes(id)) == 4


def test_gang_ignored_by_every_scheduler_keeps_its_placement_and_says_so(world: World, tmp_path: Path) -> None:
    """T7: KAI is down, which is no reason to take anything back."""
    with rig(world, tmp_path, EXAMPLES / "01-cluster.yaml", more="bind_timeout_s: 1\n") as here:
        start = here.now()
        with stopped(world.plane.scheduler):
            id = submitted(here, "01-single-rack")
            here.until(lambda: "no scheduler has handled pod" in here.why(id), "it is said")
        assert len(here.runs(id)) == 4
        assert sorted(here.created(start)) == [f"{id}/{shard}/0" for shard in SHARDS]


def reasons(here: Rig, id: str) -> list[str]:
    (group,) = here.get(f"/api/v1/workflows/{id}/why")["groups"]
    return [str(reason["code"]) for reason in group["reasons"]]


def hermit(namespace: str) -> Object:
    pod = bare_pod("default", "hermit", gpus=1)
    near = {
        "labelSelector": {"matchLabels": {"app.kubernetes.io/managed-by": "runrig"}},
        "namespaces": [namespace],
        "topologyKey": "kubernetes.io/hostname",
    }
    none = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    return pod | {"spec": pod["spec"] | {"affinity": none}}


def test_node_without_free_pod_slots_accepts_no_pod(world: World, tmp_path: Path) -> None:
    """T1: of three places somebody else has one; the next of ours is not even asked for before one of ours has ended."""
    cluster = "nodes: [{name: n0, resources: {gpu: 8, pods: 3}}]\npools: [{name: research, quota: 8}]\n"
    with rig(world, tmp_path, cluster, more="bind_timeout_s: 2\n") as here:
        here.foreign_pod("n0", 1)
        here.until(lambda: node_free(here) == {"gpu": 7, "pods": 2}, "it is seen")
        first, second = (here.submit(one_task(name), POOL) for name in ("a", "b"))
        here.runs(first)
        here.runs(second)
        start = here.now()
        third = here.submit(one_task("c"), POOL)
        here.until(lambda: reasons(here, third) == ["NoRoomOnNodes"], "it waits")
        here.finish(first)
        assert here.runs(third) == {"main": "n0"}
        assert here.created(start) == [f"{third}/main/0"]


def node_free(here: Rig) -> dict[str, int]:
    (node,) = here.get("/api/resources")["resources"]
    return {name: node["free"][name] for name in ("gpu", "pods")}


def test_gang_whose_node_disappears_before_it_is_bound_is_placed_elsewhere(world: World, tmp_path: Path) -> None:
    """T7: nothing of it has run, so nothing is lost."""
    cluster = "nodes: [{name: 'n{0..1}', resources: {gpu: 8}}]\npools: [{name: research, quota: 8}]\n"
    with rig(world, tmp_path, cluster) as here:
        with begun_anew(world.plane.scheduler):
            id = here.submit(one_task("w"), POOL)
            (pod,) = here.until(lambda: here.pods(id), "its pod is there").values()
            gone = pinned_to(pod)
            world.api.delete({"apiVersion": "v1", "kind": "Node", "metadata": {"name": gone}})
            here.until(lambda: len(here.get("/api/resources")["resources"]) == 1, "it is seen that the node is gone")
        (other,) = {"n0", "n1"} - {gone}
        assert here.runs(id) == {"main": other}
