"""Kubernetes objects: golden files, names, numbers of queues, and the same answer from a server."""

import re
from pathlib import Path

import pytest
import yaml

from runrig.backends.kubernetes import objects
from runrig.domain.gangs import Priority
from runrig.domain.plan import Action
from runrig.domain.pools import Cohort, Pool
from runrig.domain.workflows import GroupSpec, WorkflowSpec
from runrig.ports.backend import Blueprint
from runrig.service.runtime import rendering
from tests.api.client import api
from tests.cli.canned_server import at, serving
from tests.conformance.podgroups import DATA, cluster, documents, rendered, workflow
from tests.worlds.command_line import runrig
from tests.worlds.engine import HIGH, LOW, World, gpu_quota, task

KEYS = {"zone": "topology.kubernetes.io/zone", "rack": "topology.kubernetes.io/rack"}
RENDER = "/api/v1/workflows:render"
TEXT = workflow({"a": ["zone/z", "rack/r1"], "b": ["zone/z", "rack/r2"]})
EXAMPLES = Path(__file__).parents[3] / "examples" / "topology"
FLEET = (
    *("workflow", "render", str(DATA / "fleet.workflow.yaml"), "--cluster", str(DATA / "fleet.cluster.yaml")),
    *("--namespace", "jobs"),
)


@pytest.mark.parametrize(
    ("golden", "options"), [("subpool", ("--pool", "lab--a")), ("pool", ("--pool", "lab", "--priority", "HIGH"))]
)
def test_workflow_with_every_field_renders_to_the_expected_objects(golden: str, options: tuple[str, ...]) -> None:
    """Flavors, taints, counts, tokens, files, labels that are not a user's to set, amounts, a subpool beside the shared leaf."""
    done = runrig(*FLEET, *options)
    assert (done.code, done.out, done.err) == (0, (DATA / f"fleet.{golden}.golden.yaml").read_text(), "")


def test_slices_become_subgroups_and_each_pod_joins_the_one_of_its_index() -> None:
    """The pod group and the first pod of each slice, exactly."""
    files = (str(EXAMPLES / "05-slices.yaml"), "--cluster", str(EXAMPLES / "05-cluster.yaml"))
    objects = documents(runrig("workflow", "render", *files))
    group, *pods = (each for each in objects if each["kind"] in ("PodGroup", "Pod"))
    assert [group, *pods[::4]] == list(yaml.safe_load_all((DATA / "slices.golden.yaml").read_text()))
    assert [pod["metadata"]["labels"]["runrig/task"] for pod in pods] == [f"shard-{index}" for index in range(20)]


def test_json_output_is_one_object_with_the_same_documents(tmp_path: Path) -> None:
    done = rendered(tmp_path, TEXT, cluster(KEYS), "-t", "json")
    assert done.json == {"objects": documents(rendered(tmp_path, TEXT, cluster(KEYS)))}


def test_server_and_cluster_file_render_the_same_objects(tmp_path: Path) -> None:
    here = rendered(tmp_path, TEXT, cluster(KEYS), "-t", "json")
    with api(tmp_path / "server", cluster=cluster(KEYS)) as it:
        answer = it.call("POST", RENDER, {"pool": "p", "file": TEXT})
        revision = it.desk.revision
        missing = it.error("POST", RENDER, {"pool": "q", "file": TEXT})[0]
        bad = it.error("POST", RENDER, {"pool": "p", "file": TEXT, "namespace": "a--B"})
        assert it.desk.revision == revision
    assert answer == here.json
    assert (missing, bad[0], bad[1]["message"].startswith("invalid namespace 'a--B'")) == (404, 422, True)


def test_without_a_cluster_file_the_server_is_asked() -> None:
    answer = {"objects": [{"kind": "A", "spec": {"b": 1, "a": ["x"]}}, {"kind": "B"}]}
    with serving({f"POST {RENDER}": answer}) as server:
        done = at(server, "workflow", "render", "-", "-p", "p", "-n", "jobs", "--priority", "LOW", stdin=TEXT)
    assert (done.code, done.out) == (0, "kind: A\nspec:\n  b: 1\n  a:\n  - x\n---\nkind: B\n")
    said = {"pool": "p", "priority": "LOW", "namespace": "jobs"}
    body = {"file": TEXT, "variables": [], "string_variables": []}
    assert server.asked == [(f"POST {RENDER}", [], said | body)]


def test_invalid_objects_are_errors_of_the_file(tmp_path: Path) -> None:
    text = TEXT.replace('"command"', '"files": [{"path": "/a:b", "contents": "x"}], "command"')
    done = rendered(tmp_path, text, cluster(KEYS))
    words = "file '/a:b' contains ':', which Kubernetes cannot mount. Use a path without it"
    assert (done.code, done.out, done.err) == (2, "", f"{tmp_path}/wf.yaml: {words}\n")


# ---------------------------------------------------------------- the queues


def blueprint(world: World, pool: str, *tasks: str) -> Blueprint:
    spec = WorkflowSpec("w", (GroupSpec("g", tuple(task(name) for name in tasks or ("t",))),))
    return rendering.blueprint(world.state, spec, pool=pool, priority=HIGH, namespace="ns")


def queues(plan: Blueprint) -> dict[str, tuple[int, int]]:
    """Name → (quota, limit) of its GPUs."""
    return {
        each["metadata"]["name"]: (each["spec"]["resources"]["gpu"]["quota"], each["spec"]["resources"]["gpu"]["limit"])
        for each in objects.render(plan)
        if each["kind"] == "Queue"
    }


def test_queues_have_the_quota_and_the_borrowing_limit_of_the_pool() -> None:
    pools: dict[str, int | Pool] = {
        "team": Pool("team", gpu_quota(10, borrowing=4)),
        "team--a": Pool("team--a", gpu_quota(7), parent="team", subpool_name="a"),
        "free": 5,
    }
    world = World(pools, {"n0": 16})
    root, team = {"osmo-default-ns": (-1, -1)}, {"osmo-pool-ns-team": (10, 14)}
    team |= {"osmo-pool-ns-team---shared": (3, -1)}
    assert queues(blueprint(world, "team")) == root | team
    assert queues(blueprint(world, "team--a")) == root | team | {"osmo-pool-ns-team--a": (7, -1)}
    free = {"osmo-pool-ns-free": (5, -1), "osmo-pool-ns-free---shared": (5, -1)}
    assert queues(blueprint(world, "free")) == root | free


def test_queues_can_use_all_shared_quota_within_the_borrowing_limit() -> None:
    """P2: KAI lets no pod that it may not preempt above the quota of its queue."""
    pools: dict[str, int | Pool] = {
        "team": Pool("team", gpu_quota(3, borrowing=4), cohort="research"),
        "team--a": Pool("team--a", gpu_quota(2), cohort="research", parent="team", subpool_name="a"),
    }
    world = World(pools, {"n0": 16}, (Cohort("research", None, gpu_quota(6)),))
    assert queues(blueprint(world, "team--a")) == {
        "osmo-default-ns": (-1, -1),
        "osmo-pool-ns-team": (7, 7),
        "osmo-pool-ns-team---shared": (5, -1),
        "osmo-pool-ns-team--a": (6, -1),
    }


def test_queues_keep_room_for_work_admitted_before_a_quota_was_cut() -> None:
    world = World({"p": Pool("p", gpu_quota(8, borrowing=2))}, {"n0": 16})
    for number in range(8):
        world.submit(f"firm{number}", "p", HIGH)
    for number in range(2):
        world.submit(f"low{number}", "p", LOW)
    world.cycle()
    world.do(*_cut(world, "p", 3))
    assert queues(blueprint(world, "p")) == {
        "osmo-default-ns": (-1, -1),
        "osmo-pool-ns-p": (8, 10),
        "osmo-pool-ns-p---shared": (8, -1),
    }


def _cut(world: World, name: str, nominal: int) -> tuple[Action, ...]:
    from runrig.engine.lifecycle import pools

    return pools.put_pool(world.state, Pool(name, gpu_quota(nominal, borrowing=2)), create=False).actions


# ---------------------------------------------------------------- names


def test_pods_and_pod_groups_have_valid_unique_names() -> None:
    longest = "A" + "b_" * 31 + "c"
    plan = blueprint(World({"p": 8}, {"n0": 16}), "p", longest, "x", "X_1")
    named = [each["metadata"]["name"] for each in objects.render(plan) if each["kind"] in ("Pod", "PodGroup")]
    assert len(set(named)) == 4
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) and len(name) <= 63 for name in named)
    labels = [value for each in objects.render(plan) for value in each["metadata"]["labels"].values()]
    assert all(re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value) for value in labels)


def test_pod_group_name_consists_of_pool_workflow_and_group() -> None:
    world = World({"p": 8, "q": 8}, {"n0": 16})

    def name(pool: str, workflow: str, group: str) -> str:
        spec = WorkflowSpec(workflow, (GroupSpec(group, (task("t"),)),))
        plan = rendering.blueprint(world.state, spec, pool=pool, priority=HIGH, namespace="ns")
        return str(next(each["metadata"]["name"] for each in objects.render(plan) if each["kind"] == "PodGroup"))

    assert name("p", "w", "g") == name("p", "w", "g") == "2f86d7c1-1dcd-570d-81ed-0f238548eed8"
    assert len({name(*names) for names in (("q", "w", "g"), ("p", "v", "g"), ("p", "w", "h"), ("p", "w", "g"))}) == 4


def test_queue_name_that_is_not_a_label_value_is_only_in_the_spec() -> None:
    name = "p" * 60
    group, pod = objects.render(blueprint(World({name: 8}, {"n0": 16}), name))[-2:]
    assert group["spec"]["queue"] == f"osmo-pool-ns-{name}---shared"
    assert [key for each in (group, pod) for key in each["metadata"]["labels"] if "queue" in key] == []


def test_each_priority_has_a_class_that_says_whether_it_is_preemptible() -> None:
    world = World({"p": 8}, {"n0": 16})
    found = {}
    for priority in Priority:
        spec = WorkflowSpec("w", (GroupSpec("g", (task("t"),)),))
        plan = rendering.blueprint(world.state, spec, pool="p", priority=priority, namespace="ns")
        spec_of = objects.render(plan)[-2]["spec"]
        found[priority.value] = (spec_of["priorityClassName"], spec_of["preemptibility"])
    assert found == {
        "HIGH": ("osmo-high", "non-preemptible"),
        "NORMAL": ("osmo-normal", "non-preemptible"),
        "LOW": ("osmo-low", "preemptible"),
    }
