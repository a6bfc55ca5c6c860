"""Every object that `workflow render` prints, or that a placed gang becomes, is one that the API server takes, with every field
that we write."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.api import Object, Refusal
from runrig.backends.kubernetes.files import LARGEST_SECRET
from runrig.backends.kubernetes.objects import cluster_objects, gang_objects
from runrig.backends.kubernetes.pods import GangPods, Settings
from runrig.domain.credentials import CredentialUse
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Node
from runrig.domain.workflows import TaskKey
from runrig.ports.backend import Desired
from tests.backends.kubernetes.gangs import gang, launch, task
from tests.backends.kubernetes.placed_by_engine import rounds
from tests.conformance.podgroups import DATA, Case, cluster, workflow
from tests.kubernetes.world import EXAMPLES, World, stand_in_only, within

WITH_CLUSTERS = [
    pytest.param(workflow, cluster, id=f"{workflow.stem}-{cluster.stem}")
    for workflow in sorted(EXAMPLES.glob("[0-9][0-9]-*.yaml"))
    for cluster in sorted(EXAMPLES.glob(f"{workflow.stem[:2]}-cluster*.yaml"))
    if "cluster" not in workflow.stem
]
WORKFLOWS = sorted((EXAMPLES.parent / "workflows").glob("*.yaml"))
TREES = [case for case in yaml.load((DATA / "podgroups.yaml").read_text(), yaml.CSafeLoader) if "becomes" in case]


@pytest.fixture(autouse=True)
def a_node(world: World) -> None:
    """KAI crashes on a gang with a topology while there is no node."""
    if world.plane.kai:
        world.plane.add_nodes([Node("spare", {})])


@pytest.mark.parametrize(("workflow", "cluster"), WITH_CLUSTERS)
@pytest.mark.parametrize("priority", ["HIGH", "LOW"])
def test_topology_example_is_accepted_unchanged(world: World, workflow: Path, cluster: Path, priority: str) -> None:
    assert taken(world, world.rendered(workflow, cluster, "--priority", priority)) == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_example_is_accepted_unchanged(world: World, tmp_path: Path, workflow: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("pools: [{name: pool, quota: 2}]")
    assert taken(world, world.rendered(workflow, tmp_path / "cluster.yaml")) == []


@pytest.mark.parametrize("pool", ["lab", "lab--a"])
def test_workflow_with_every_field_is_accepted_unchanged(world: World, pool: str) -> None:
    """Flavors, taints, privileges, labels that are a user's, `$` in commands, a subpool."""
    files = (DATA / "fleet.workflow.yaml", DATA / "fleet.cluster.yaml")
    assert taken(world, world.rendered(*files, "--pool", pool)) == []


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in TREES])
def test_constraint_tree_is_accepted_unchanged(world: World, tmp_path: Path, case: Case) -> None:
    (tmp_path / "cluster.yaml").write_text(cluster(case["keys"]))
    (tmp_path / "workflow.yaml").write_text(workflow(case["tasks"], case.get("counts")))
    assert taken(world, world.rendered(tmp_path / "workflow.yaml", tmp_path / "cluster.yaml")) == []


# ---------------------------------------------------------------- placed


@pytest.mark.parametrize(("workflow", "cluster"), WITH_CLUSTERS)
@pytest.mark.parametrize("priority", [Priority.HIGH, Priority.LOW])
def test_placed_topology_example_is_accepted_unchanged(
    world: World, workflow: Path, cluster: Path, priority: Priority
) -> None:
    (desired,) = rounds(workflow, cluster.read_text(), priority=priority)
    assert taken(world, objects_of(world, desired)) == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_placed_example_is_accepted_unchanged(world: World, workflow: Path) -> None:
    cluster = "nodes: [{name: n0, resources: {gpu: 8}}]\npools: [{name: pool, quota: 8}]"
    made: set[str] = set()
    for desired in rounds(workflow, cluster, priority=Priority.NORMAL):
        new = [each for each in objects_of(world, desired) if _name(each) not in made]
        made |= {_name(each) for each in new}
        assert taken(world, new) == []


def test_placed_pods_run_where_they_were_placed(world: World) -> None:
    """So the pin is one that a scheduler reads."""
    cluster = EXAMPLES / "02-cluster.yaml"
    world.nodes(cluster)
    (desired,) = rounds(EXAMPLES / "02-two-racks.yaml", cluster.read_text(), priority=Priority.HIGH)
    world.create(objects_of(world, desired))
    assert world.all_run() == {key.task: launch.node for key, launch in desired.run.items()}


def test_gang_with_unusual_names_and_as_many_files_as_secrets_can_hold_is_accepted_unchanged(world: World) -> None:
    odd = task("A" + "b_" * 40 + "C", count=2, files={"x": "{{index}}"}, allow=("privileged", "hostNetwork"))
    small = task("small", count=4100, files={"/rank": "{{index}}", "/large": "x" * LARGEST_SECRET})
    them = GangPods(gang(odd, small, labels={"team": "a"}), settings_of(world))
    pods = [them.pod(launch(them.gang, f"{odd.name}-{index}")) for index in range(2)]
    again = them.pod(launch(them.gang, "small-7", key=TaskKey("wf-1", "small-7", 12)))
    assert taken(world, [*gang_objects(them), *pods, again]) == []


def test_gang_with_credentials_is_accepted_unchanged(world: World) -> None:
    """Those that tasks name, and those that pull their images."""
    values = {"ngc": {"registry": "nvcr.io", "username": "$oauthtoken", "auth": "k1"}, "hub": {"auth": "k2"}}
    registries = {"ngc": "nvcr.io", "hub": ""}
    settings = replace(settings_of(world), opens=lambda _, name: values[name], pulls=lambda _: registries)
    uses = (CredentialUse("ngc", variables={"KEY": "auth"}), CredentialUse("hub", "/hub"))
    them = GangPods(gang(task("a", image="nvcr.io/team/a:1", credentials=uses), task("b")), settings)
    objects = [*gang_objects(them), *(them.pod(launch(them.gang, name)) for name in "ab")]
    assert [each["type"] for each in objects if each["kind"] == "Secret"] == [
        "Opaque",
        "Opaque",
        "kubernetes.io/dockerconfigjson",
    ]
    assert taken(world, objects) == []


def test_second_apply_changes_nothing(world: World) -> None:
    """Secrets, which may not be changed, and pods, of which almost nothing may be, included."""
    them = GangPods(gang(task("a", files={"/x": "1"}), task("b", count=2)), settings_of(world))
    objects = [*cluster_objects((), world.namespace), *gang_objects(them)]
    objects += [them.pod(launch(them.gang, name)) for name in ("a", "b-0", "b-1")]
    first = [world.api.apply(each) for each in objects]
    second = [world.api.apply(each) for each in objects]
    assert [_own(each) for each in second] == [_own(each) for each in first]


def objects_of(world: World, desired: Desired) -> list[Object]:
    """What a backend would make of it, in that order."""
    settings = Settings(world.namespace, desired.flavors, {}, epoch=3)
    gangs = {id: GangPods(gang, settings) for id, gang in desired.gangs.items()}
    objects = [*cluster_objects(desired.pools, world.namespace)]
    for them in gangs.values():
        objects += gang_objects(them)
    return [*objects, *(gangs[launch.gang].pod(launch) for launch in desired.run.values())]


def settings_of(world: World) -> Settings:
    return Settings(world.namespace, {}, {}, epoch=0)


def _own(each: Object) -> Object:
    """Without what schedulers and controllers write meanwhile."""
    metadata = {
        key: value for key, value in each["metadata"].items() if key not in ("resourceVersion", "managedFields")
    }
    return {key: value for key, value in each.items() if key != "status"} | {"metadata": metadata}


# ---------------------------------------------------------------- refused


def test_unknown_fields_and_values_are_refused(world: World) -> None:
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


def test_subgroup_trees_that_the_webhook_of_kai_would_refuse_are_refused(world: World) -> None:
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
    assert asked[0] == 0
    assert {*asked[1:]} <= {403, 422}, "403: by a webhook"


def test_levels_of_a_topology_never_change(world: World) -> None:
    """Therefore a topology whose levels change has to be made anew."""
    objects = world.rendered(EXAMPLES / "03-one-zone.yaml", EXAMPLES / "03-cluster.yaml")
    topology = next(each for each in objects if each["kind"] == "Topology")
    world.create([topology])
    with pytest.raises(Refusal) as refused:
        world.api.apply(topology | {"spec": {"levels": topology["spec"]["levels"][:1]}})
    assert refused.value.status == 422


def taken(world: World, objects: Sequence[Object]) -> list[str]:
    """Returns the *objects* that are not kept as they were sent, after a dry run of all, and then for real."""
    for each in objects:
        world.api.create(each, dry_run=True)
    assert world.api.read(objects[-1]) is None, "a dry run makes nothing"
    world.create(objects)
    return [_name(each) for each in objects if not within(each, world.api.read(each))]


def slices(world: World) -> tuple[Object, Object]:
    """The queue of a pool, and a pod group with subgroups below subgroups."""
    objects = world.rendered(EXAMPLES / "05-slices.yaml", EXAMPLES / "05-cluster.yaml")
    queue, group = (next(each for each in objects if each["kind"] == kind) for kind in ("Queue", "PodGroup"))
    return queue, group


def _name(each: Object) -> str:
    return f"{each['kind']} {each['metadata']['name']}"


def _refusal(world: World, each: Object, path: tuple[str | int, ...], value: object) -> int:
    """The status that a dry run of *each* with *value* at *path* is refused with; 0 if it is taken."""
    try:
        world.api.create(_with(each, path, value), dry_run=True)
    except Refusal as refusal:
        return refusal.status
    return 0


def _with(whole: Any, path: tuple[str | int, ...], value: object) -> Any:
    if not path:
        return value
    key, *rest = path
    if isinstance(whole, list):
        return [_with(each, tuple(rest), value) if i == key else each for i, each in enumerate(whole)]
    assert isinstance(whole, dict)
    return whole | {key: _with(whole.get(key), tuple(rest), value)}
