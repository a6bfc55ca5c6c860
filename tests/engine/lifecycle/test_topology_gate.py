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
from tests.api.client import api
from tests.conformance.podgroups import cluster, workflow
from tests.worlds.command_line import runrig
from tests.worlds.engine import HIGH, NORMAL, World
from tests.worlds.placement import LEVELS, PLENTY, city, group, keys, per_domain, pods, pods_on, reasons, submit

KEYS = {"zone": "topology.kubernetes.io/zone", "rack": "topology.kubernetes.io/rack"}
TEXT = workflow({"a": ["zone/z", "rack/r1"], "b": ["zone/z", "rack/r2"]})


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("keys", "message", "details"),
    [
        (
            {"zone": "z", "row": "r"},
            "task a: pool p has no topology key 'rack'. Available: zone, row",
            {"law": "T6", "pool": "p", "task": "a", "key": "rack", "keys": ["zone", "row"]},
        ),
        (
            {},
            "task a has a requirement for topology key 'zone', but pool p has no topology keys. Remove the requirement, or "
            "use a pool with this key",
            {"law": "T6", "pool": "p", "task": "a", "key": "zone", "keys": []},
        ),
    ],
)
def test_an_unknown_key_is_rejected_with_the_known_ones(
    tmp_path: Path, keys: dict[str, str], message: str, details: dict[str, object]
) -> None:
    """T6."""
    with api(tmp_path, cluster=cluster(keys)) as it:
        answers = [
            it.error("POST", "/api/pool/p/workflow", {"file": TEXT}, **query)
            for query in ({}, {"dry_run": True}, {"validation_only": True})
        ]
    assert [(status, error["message"], error["details"]) for status, error in answers] == [(400, message, details)] * 3


def test_topology_keys_of_a_pool_are_set_changed_and_shown_over_http(tmp_path: Path) -> None:
    def keys(*pairs: str) -> list[dict[str, str]]:
        return [dict(zip(("key", "label"), pair.split("="), strict=True)) for pair in pairs]

    with api(tmp_path) as it:
        it.call("POST", "/api/v1/pools", {"name": "k", "topology_keys": keys("zone=z", "rack=r")})
        before = it.get("/api/v1/pools/k")["topology_keys"]
        it.call("PATCH", "/api/v1/pools/k", {"topology_keys": keys("rack=r")})
        after = it.get("/api/v1/pools/k")["topology_keys"]
        wrong = [
            it.error("PATCH", "/api/v1/pools/k", {"topology_keys": keys(*pairs)})[1]["message"]
            for pairs in (
                ("a=r", "b=r"),
                ("host=kubernetes.io/hostname", "rack=r"),
                ("rack=no label",),
                tuple(f"k{number}=l{number}" for number in range(17)),
            )
        ]
        kept = it.get("/api/v1/pools/k")["topology_keys"]
    assert (before, after, kept) == (keys("zone=z", "rack=r"), keys("rack=r"), keys("rack=r"))
    assert wrong == [
        "label: the label 'r' is defined twice; the first one is above",
        "topology_keys: kubernetes.io/hostname is the finest label: its topology key must come last",
        "topology_keys: 'no label' is not a node label: use one such as topology.kubernetes.io/rack",
        "topology_keys: too many topology keys (17, maximum 16)",
    ]


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


def test_different_pods_that_fit_no_empty_rack_are_rejected_with_what_the_best_one_lacks() -> None:
    """P3: each kind of pod would fit alone."""
    tasks = (pods("x", 2, 8, "rack"), pods("y", 2, 4, "rack"))
    caught = refusal(city("a/r0: 8 | a/r1: 8 8 4", team=PLENTY), *tasks)
    assert (caught.details["law"], caught.details["topology_key"]) == ("P3", "rack")
    assert "a/r1" in str(caught)
    assert "4 GPUs short" in str(caught)


def test_slices_that_fit_no_empty_racks_are_rejected() -> None:
    """P3: five slots, but only two of them in one rack."""
    caught = refusal(city("a/r0: 1 | a/r1: 1 | a/r2: 3", team=PLENTY), pods("t", 4, 1, "rack*2"))
    assert (caught.details["law"], caught.details["topology_key"]) == ("P3", "rack")


def test_without_nodes_with_the_pools_labels_every_requirement_is_rejected(tmp_path: Path) -> None:
    """T1, P3: the only node of this server has none; a dry run gives the same answer."""
    with api(tmp_path, cluster=cluster(KEYS)) as it:
        answers = [
            it.error("POST", "/api/pool/p/workflow", {"file": TEXT}, **query)
            for query in ({}, {"validation_only": True})
        ]
        assert it.get("/api/workflow", all_users=True)["workflows"] == []
    assert [(status, error["details"]["law"]) for status, error in answers] == [(400, "P3")] * 2
    assert len({error["message"] for _, error in answers}) == 1


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
