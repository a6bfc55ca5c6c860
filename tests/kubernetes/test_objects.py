"""Every object that `workflow render` prints is one that the API server takes, with every field that we write."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from e2e.api import Object, Refusal
from tests.kubernetes.world import EXAMPLES, World, stand_in_only, within
from tests.topology.podgroups import DATA, Case, cluster, workflow

WITH_CLUSTERS = [
    pytest.param(workflow, cluster, id=f"{workflow.stem}-{cluster.stem}")
    for workflow in sorted(EXAMPLES.glob("[0-9][0-9]-*.yaml"))
    for cluster in sorted(EXAMPLES.glob(f"{workflow.stem[:2]}-cluster*.yaml"))
    if "cluster" not in workflow.stem
]
WORKFLOWS = sorted((EXAMPLES.parent / "workflows").glob("*.yaml"))
TREES = [case for case in yaml.safe_load((DATA / "podgroups.yaml").read_text()) if "becomes" in case]


@pytest.mark.parametrize(("workflow", "cluster"), WITH_CLUSTERS)
@pytest.mark.parametrize("priority", ["HIGH", "LOW"])
def test_an_example_of_topology_is_taken_as_it_is_sent(world: World, workflow: Path, cluster: Path, priority: str):
    assert taken(world, world.rendered(workflow, cluster, "--priority", priority)) == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_an_example_is_taken_as_it_is_sent(world: World, tmp_path: Path, workflow: Path):
    (tmp_path / "cluster.yaml").write_text("pools: [{name: pool, quota: 2}]")
    assert taken(world, world.rendered(workflow, tmp_path / "cluster.yaml")) == []


@pytest.mark.parametrize("pool", ["lab", "lab--a"])
def test_a_workflow_with_everything_is_taken_as_it_is_sent(world: World, pool: str):
    """Flavors, taints, privileges, labels that are a user's, `$` in commands, a subpool."""
    files = (DATA / "fleet.workflow.yaml", DATA / "fleet.cluster.yaml")
    assert taken(world, world.rendered(*files, "--pool", pool)) == []


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in TREES])
def test_a_constraint_tree_is_taken_as_it_is_sent(world: World, tmp_path: Path, case: Case):
    (tmp_path / "cluster.yaml").write_text(cluster(case["keys"]))
    (tmp_path / "workflow.yaml").write_text(workflow(case["tasks"], case.get("counts")))
    assert taken(world, world.rendered(tmp_path / "workflow.yaml", tmp_path / "cluster.yaml")) == []


def test_fields_and_values_that_the_kinds_do_not_have_are_refused(world: World):
    """So the dry runs above can fail."""
    queue, group = slices(world)
    asked = [
        _refusal(world, queue, ("spec", "parent"), "root"),
        _refusal(world, queue, ("spec", "resources", "gpu", "quota"), "8"),
        _refusal(world, group, ("spec", "preemptibility"), "never"),
        _refusal(world, group, ("spec", "subgroups"), []),
        _refusal(world, group, ("spec", "minMember"), 0),
    ]
    assert asked == [400, 422, 422, 400, 422]


def test_trees_of_subgroups_that_the_webhook_of_kai_would_refuse_are_refused(world: World):
    stand_in_only(world)
    _, group = slices(world)
    inner, leaf = {"name": "inner"}, {"name": "leaf", "parent": "inner", "minMember": 1}
    trees = [
        [inner, leaf],
        [inner, leaf, leaf],
        [leaf],
        [inner],
        [inner | {"minMember": 1}, leaf],
        [inner, leaf | {"name": "Not_A_Label"}],
    ]
    asked = [_refusal(world, group, ("spec", "subGroups"), tree) for tree in trees]
    assert asked == [0, 422, 422, 422, 422, 422]


def test_the_levels_of_a_topology_never_change(world: World):
    """That is why a topology whose levels change has to be made anew."""
    objects = world.rendered(EXAMPLES / "03-one-zone.yaml", EXAMPLES / "03-cluster.yaml")
    topology = next(each for each in objects if each["kind"] == "Topology")
    world.create([topology])
    with pytest.raises(Refusal) as refused:
        world.api.apply(topology | {"spec": {"levels": topology["spec"]["levels"][:1]}})
    assert refused.value.status == 422


def taken(world: World, objects: Sequence[Object]) -> list[str]:
    """Those of *objects* that are not kept as they were sent, after a dry run of all, and then for real."""
    for each in objects:
        world.api.create(each, dry_run=True)
    assert world.api.read(objects[-1]) is None, "a dry run makes nothing"
    world.create(objects)
    return [_name(each) for each in objects if not within(each, world.api.read(each))]


def slices(world: World) -> tuple[Object, Object]:
    """The queue of a pool, and a pod group with subgroups below subgroups."""
    objects = world.rendered(EXAMPLES / "05-slices.yaml", EXAMPLES / "05-cluster.yaml")
    return tuple(next(each for each in objects if each["kind"] == kind) for kind in ("Queue", "PodGroup"))  # type: ignore[return-value]


def _name(each: Object) -> str:
    return f"{each['kind']} {each['metadata']['name']}"


def _refusal(world: World, each: Object, path: tuple[str | int, ...], value: object) -> int:
    """The status that a dry run of *each* with *value* at *path* is refused with; 0 if it is taken."""
    try:
        world.api.create(_with(each, path, value), dry_run=True)
    except Refusal as refusal:
        return refusal.status
    return 0


def _with(whole: object, path: tuple[str | int, ...], value: object) -> Object:
    if not path:
        return value  # type: ignore[return-value]
    key, *rest = path
    if isinstance(whole, list):
        return [_with(each, tuple(rest), value) if i == key else each for i, each in enumerate(whole)]  # type: ignore[return-value]
    assert isinstance(whole, dict)
    return whole | {key: _with(whole.get(key), tuple(rest), value)}
