"""KAI Scheduler itself, on what `workflow render` prints: gangs whole and in their domain, or not at all, and nobody evicted."""

from collections.abc import Mapping

from e2e.api import Object
from tests.kubernetes.world import EXAMPLES, World, bare_pod

RACK, ZONE = "nvidia.com/gpu-clique", "topology.kubernetes.io/zone"
FOUR = ("shard1", "shard2", "shard3", "shard4")


def test_gang_that_requires_one_rack_is_bound_in_one(kai_world: World) -> None:
    labels = kai_world.nodes(EXAMPLES / "01-cluster.yaml")
    kai_world.create(kai_world.rendered(EXAMPLES / "01-single-rack.yaml", EXAMPLES / "01-cluster.yaml"))
    placed = kai_world.all_run()
    assert set(placed) == {f"model1-{shard}" for shard in FOUR}
    assert len(domains(labels, placed, RACK, "model1")) == 1
    assert kai_world.events("Evict") == []


def test_two_racks_each_with_its_copy_in_one_zone(kai_world: World) -> None:
    labels = kai_world.nodes(EXAMPLES / "03-cluster.yaml")
    kai_world.create(kai_world.rendered(EXAMPLES / "03-one-zone.yaml", EXAMPLES / "03-cluster.yaml"))
    placed = kai_world.all_run()
    assert len(placed) == 8
    assert [len(domains(labels, placed, RACK, model)) for model in ("model1", "model2")] == [1, 1]
    assert domains(labels, placed, ZONE, "") == {"a"}
    assert kai_world.events("Evict") == []


def test_each_slice_is_in_one_rack_and_all_in_one_zone(kai_world: World) -> None:
    labels = kai_world.nodes(EXAMPLES / "05-cluster.yaml")
    kai_world.create(kai_world.rendered(EXAMPLES / "05-slices.yaml", EXAMPLES / "05-cluster.yaml"))
    placed = kai_world.all_run()
    slices = [{f"shard-{index}" for index in range(first, first + 4)} for first in range(0, 20, 4)]
    racks = [{labels[str(placed[task])][RACK] for task in tasks} for tasks in slices]
    assert [len(each) for each in racks] == [1] * 5
    assert domains(labels, placed, ZONE, "") == {"a"}


def test_gang_that_fits_no_rack_waits_completely_and_kai_says_so(kai_world: World) -> None:
    """One node in each rack is taken: eight are free, and four in one rack are not."""
    kai_world.nodes(EXAMPLES / "01-cluster.yaml")
    foreign = [pinned(kai_world, node) for node in ("node1", "node5")]
    kai_world.create(foreign)
    objects = kai_world.rendered(EXAMPLES / "01-single-rack.yaml", EXAMPLES / "01-cluster.yaml")
    kai_world.create(objects)
    group = next(each for each in objects if each["kind"] == "PodGroup")
    said = kai_world.plane.until(lambda: conditions(kai_world, group), "KAI says why the gang waits", timeout_s=60)
    assert [each["type"] for each in said] == ["UnschedulableOnNodePool"]
    placed = kai_world.nodes_of_pods()
    assert {task: placed[task] for task in placed if task.startswith("model")} == dict.fromkeys(
        (f"model1-{shard}" for shard in FOUR), None
    )
    assert kai_world.events("Evict") == []


def domains(labels: Mapping[str, Mapping[str, str]], placed: Mapping[str, str | None], key: str, task: str) -> set[str]:
    """Returns the domains of the tasks whose names begin with *task*."""
    return {labels[str(node)][key] for name, node in placed.items() if name.startswith(task)}


def pinned(world: World, node: str) -> Object:
    """Somebody else's pod: it is on *node* already, and has all its GPUs."""
    return bare_pod(world.namespace, f"foreign-{node}", gpus=4, node=node)


def conditions(world: World, group: Object) -> list[Object]:
    found = world.api.read(group)
    assert found is not None
    kept: list[Object] = found.get("status", {}).get("schedulingConditions", [])
    return kept
