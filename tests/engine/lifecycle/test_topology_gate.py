"""Topology requirements at the gate: known keys, and domains that could ever hold the gang (rules P3, T1, T6)."""

from dataclasses import replace
from pathlib import Path

import pytest

from runrig.domain.errors import Refused
from runrig.domain.nodes import Node
from runrig.domain.plan import PutNode, PutPool
from runrig.domain.quantities import GPU
from runrig.domain.reasons import Code, Reason
from runrig.domain.workflows import Status, TaskSpec
from tests.conformance.podgroups import workflow
from tests.worlds.command_line import runrig
from tests.worlds.engine import HIGH, NORMAL, World
from tests.worlds.placement import LEVELS, PLENTY, city, group, keys, per_domain, pods, pods_on, reasons, submit, team

KEYS = {"zone": "topology.kubernetes.io/zone", "rack": "topology.kubernetes.io/rack"}
TEXT = workflow({"a": ["zone/z", "rack/r1"], "b": ["zone/z", "rack/r2"]})


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize("levels", [("zone", "row"), ()])
def test_an_unknown_key_is_rejected_with_the_known_ones(levels: tuple[str, ...]) -> None:
    """T6."""
    caught = refusal(city("a/r0: 8", team=team("team", PLENTY, levels)), pods("t", 1, 8, "rack"))
    assert caught.details == {"law": "T6", "pool": "team", "task": "t", "key": "rack", "keys": [*levels]}


# ---------------------------------------------------------------- accepted


def test_simulate_places_required_groups(tmp_path: Path) -> None:
    """T1: from the files; only zone b has two racks of two nodes."""
    labels = "{{topology.kubernetes.io/zone: {}, topology.kubernetes.io/rack: {}}}"
    racks = {"n{1..2}": ("a", "r1"), "n3": ("a", "r2"), "n{4..5}": ("b", "r1"), "n{6..7}": ("b", "r2")}
    nodes = [f'- {{name: "{name}", resources: {{gpu: 1}}, labels: {labels.format(*at)}}}' for name, at in racks.items()]
    (pool,) = (f"- {{name: p, quota: 8, topology_keys: [{{key: {k}, label: {v}}}, {{key: {m}, label: {w}}}]}}"
               for (k, v), (m, w) in [KEYS.items()])  # fmt: skip
    text = TEXT.replace('"resource": "a"', '"count": 2, "resource": "a"')
    text = text.replace('"resource": "b"', '"count": 2, "resource": "b"').replace(
        '{"topology"', '{"gpu": 1, "topology"'
    )
    (tmp_path / "wf.yaml").write_text(text)
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("\n".join(("nodes:", *nodes, "pools:", pool, "workflows: [{file: wf.yaml, pool: p}]")))
    done = runrig("simulate", str(scenario), "-t", "json")
    (admitted,) = done.json["cycles"][0]["admitted"]
    assert done.json["warnings"] == []
    assert {each["name"]: each["placement"] for each in admitted["pod_sets"]} == {
        "a": [{"domain": ["b", "r1", "n4"], "count": 1}, {"domain": ["b", "r1", "n5"], "count": 1}],
        "b": [{"domain": ["b", "r2", "n6"], "count": 1}, {"domain": ["b", "r2", "n7"], "count": 1}],
    }


def test_a_gang_that_fits_some_empty_domain_is_accepted_and_waits() -> None:
    """P3: rejected is not pending."""
    world = city("a/r0: 8 8 | a/r1: 8", team=PLENTY)
    submit(world, "one", pods("t", 2, 8, "rack"))
    submit(world, "two", pods("t", 2, 8, "rack"))
    assert world.cycle() == ["admit one"]
    assert (world.status("one-1"), world.status("two-1")) == ([Status.INITIALIZING], [Status.SCHEDULING])


def test_nodes_that_are_down_count() -> None:
    """P3: a repaired cluster would hold it."""
    world = city("a/r0: 8 8 | a/r1: 8", team=PLENTY)
    world.do(PutNode(replace(world.state.nodes["n1"], ready=False)))
    submit(world, "w", pods("t", 2, 8, "rack"))
    assert world.cycle() == []


def test_if_nodes_come_and_go_a_gang_that_fits_none_today_is_accepted() -> None:
    """P3."""
    world = city("a/r0: 8 | a/r1: 8", team=PLENTY)
    world.state.fixed_nodes = False
    submit(world, "w", pods("t", 2, 8, "rack"))
    assert world.cycle() == []
    world.do(PutNode(Node("n2", {GPU: 8}, labels={"zone": "a", "rack": "r1"})))
    assert world.cycle() == ["admit w"]
    assert pods_on(world, "w") == {"t": {"n1": 1, "n2": 1}}


@pytest.mark.parametrize(
    "tasks",
    [
        [pods("t", 2, 8, "rack?")],
        [pods("t", 2, 8, "zone")],
        [pods("t", 2, 8, "rack*1")],
        [pods("t", 2, 8, "rack", least=1)],
        [pods("x", 1, 8, "zone", "rack/x"), pods("y", 1, 8, "zone", "rack/y")],
    ],
    ids=["preferred", "a coarser level", "slices", "fewer pods", "groups"],
)
def test_a_gang_that_fits_two_racks_of_one_node_is_accepted(tasks: list[TaskSpec]) -> None:
    """P3, T1."""
    world = city("a/r0: 8 | a/r1: 8", team=PLENTY)
    submit(world, "w", *tasks)
    assert world.cycle() == ["admit w"]


# ---------------------------------------------------------------- refused


def refusal(world: World, *tasks: TaskSpec) -> Refused:
    """The error; nothing was stored."""
    before = world.state.rows()
    with pytest.raises(Refused) as caught:
        submit(world, "w", *tasks, priority=HIGH)
    world.state.specs.pop("hash of w")
    assert world.state.rows() == before
    return caught.value


@pytest.mark.parametrize(
    ("drawn", "tasks", "level", "best"),
    [
        ("a/r0: 8 8 | a/r1: 8 8 8", [pods("t", 4, 8, "rack")], "rack", "a/r1 (fits 3 pods, 8 GPUs short)"),
        ("a/r0: 8 8 | a/r1: 8 | b/r0: 8 8", [pods("t", 4, 8, "zone")], "zone", "a (fits 3 pods, 8 GPUs short)"),
        ("a/r0: 8 8 | a/r1: 8 8 8", [pods("t", 9, 8, "rack", least=4)], "rack", "a/r1 (fits 3 pods, 8 GPUs short)"),
    ],
    ids=["rack", "zone", "smallest size"],
)
def test_a_gang_that_fits_no_empty_domain_is_rejected_with_the_level_and_the_best_domain(
    drawn: str, tasks: list[TaskSpec], level: str, best: str
) -> None:
    """P3."""
    caught = refusal(city(drawn, team=PLENTY), *tasks)
    assert caught.details == {"law": "P3", "pool": "team", "topology_key": level, "asked": 4, "limit": 3}
    assert f"no {level} has room for all 4 pods; the best fits 3. Closest: {best}" in str(caught)


# ---------------------------------------------------------------- keys edited later


def rekeyed(world: World, *levels: str) -> None:
    """From now on the pool has only *levels* as keys."""
    before = world.state.pools["team"]
    world.do(PutPool(replace(before, topology_keys=keys(*levels)), before))


def test_a_gang_whose_key_was_removed_waits_with_a_reason_and_starts_when_it_returns() -> None:
    """P3: gangs made impossible by a later edit are pending; running work continues."""
    world = city("a/r0: 8 8 | a/r1: 8 8", team=PLENTY)
    submit(world, "runs", pods("t", 2, 8, "rack"))
    assert world.cycle() == ["admit runs"]
    submit(world, "w", pods("t", 2, 8, "rack"))
    rekeyed(world, "zone")
    assert world.cycle() == []
    assert world.running() == {"runs-1"}
    assert reasons(world, "w") == (Reason(Code.KEYS_CHANGED, "T3", where="pool team"),)
    rekeyed(world, *LEVELS)
    assert world.cycle() == ["admit w"]
    assert list(per_domain(world, "w", "rack")) == ["a/r1"]


def test_a_gang_without_requirements_is_unaffected() -> None:
    world = city("a/r0: 8 | a/r1: 8", team=PLENTY)
    submit(world, "w", pods("t", 2, 8))
    rekeyed(world)
    assert world.cycle() == ["admit w"]


def test_a_downstream_group_is_checked_at_submission() -> None:
    """P3: otherwise it would wait forever after all groups before it are done."""
    spec = group("w", pods("t", 1, 8))
    behind = replace(spec.groups[0], name="behind", tasks=(pods("u", 2, 8, "rack"),), upstream=("g",))
    world = city("a/r0: 8 | a/r1: 8", team=PLENTY)
    with pytest.raises(Refused):
        world.submit("w", "team", NORMAL, spec=replace(spec, groups=(*spec.groups, behind)))
