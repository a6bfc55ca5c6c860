"""Nodes as the engine sees them: what there is for us, after those who are there already."""

from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runrig.backends.kubernetes.names import Object
from runrig.backends.kubernetes.nodes import node_of
from runrig.domain.nodes import Node, Taint

NAMES = {"gpu": "nvidia.com/gpu", "storage": "ephemeral-storage", "fast": "example.com/nic"}
READY = [{"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": "True"}]


def node(amounts: dict[str, Any], spec: Object | None = None, *, conditions: Any = READY, **metadata: Any) -> Object:
    return {
        "metadata": {"name": "n1", "labels": {"rack": "r1"}, **metadata},
        "spec": spec or {},
        "status": {"allocatable": amounts, "capacity": {"cpu": "999"}, "conditions": conditions},
    }


def container(**requests: Any) -> Object:
    """`gpu` is short for a name that no keyword can have."""
    return {"name": "c", "resources": {"requests": _full(requests)}}


def pod(*containers: Object, inits: tuple[Object, ...] = (), phase: str = "Running", **spec: Any) -> Object:
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": list(containers), "initContainers": list(inits), **spec},
        "status": {"phase": phase},
    }


def _full(requests: dict[str, Any]) -> dict[str, Any]:
    return {NAMES.get(name, name): value for name, value in requests.items()}


def left(amounts: dict[str, Any], *pods: Object) -> dict[str, int]:
    """Returns what is left of each resource in *amounts*, and of every other that is not zero."""
    found = node_of(node(_full(amounts)), pods, NAMES).resources
    return {name: amount for name, amount in found.items() if amount or name in amounts}


# ---------------------------------------------------------------- what a node offers


def test_node_with_all_fields() -> None:
    amounts = {
        "cpu": "63500m",
        "memory": "527048720Ki",
        "ephemeral-storage": "93478772582",
        "nvidia.com/gpu": "8",
        "example.com/nic": "4",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "1Gi",
        "pods": "110",
    }
    taints = [
        {"key": "team", "value": "sim", "effect": "NoSchedule"},
        {"key": "soft", "effect": "PreferNoSchedule"},
        {"key": "node.kubernetes.io/memory-pressure", "effect": "NoExecute", "timeAdded": "2026-03-01T12:00:00Z"},
    ]
    assert node_of(node(amounts, {"taints": taints}), (), NAMES) == Node(
        name="n1",
        resources={
            "cpu": 63500,
            "fast": 4,
            "gpu": 8,
            "hugepages-2Mi": 2**30,
            "memory": 527048720 * 1024,
            "pods": 110,
            "storage": 93478772582,
        },
        labels={"rack": "r1"},
        taints=(Taint("team", "sim"), Taint("node.kubernetes.io/memory-pressure", "", "NoExecute")),
    )


def test_pods_of_others_are_subtracted_unless_they_have_ended() -> None:
    there = {"cpu": "4", "memory": "8Gi", "gpu": "4"}
    one = container(cpu="500m", memory="1Gi", gpu="1")
    pods = [pod(one, phase=phase) for phase in ("Pending", "Running", "Unknown", "Succeeded", "Failed")]
    assert left(there, *pods) == {"cpu": 2500, "gpu": 1, "memory": 5 * 2**30}


def test_pod_level_requests_override_those_of_containers() -> None:
    asked = pod(container(cpu=1, gpu=1), overhead={"cpu": "1"}, resources={"requests": {"cpu": "3"}})
    assert left({"cpu": "10", "gpu": "2"}, asked) == {"cpu": 6000, "gpu": 1}


def test_amounts_are_added_before_rounding_and_the_rest_is_rounded_down() -> None:
    assert left({"memory": "10"}, pod(container(memory="1500m")), pod(container(memory="1500m"))) == {"memory": 7}
    assert left({"memory": "966367641600m"}) == {"memory": 966367641}
    assert left({"cpu": "1e1", "memory": "1E"}) == {"cpu": 10_000, "memory": 10**18}


def test_absent_resource_is_omitted_unless_that_would_mean_any_amount() -> None:
    assert left({"gpu": "0", "cpu": "0", "memory": "0", "storage": "0"}) == {"cpu": 0, "memory": 0, "storage": 0}


def test_node_that_does_not_list_storage_has_none() -> None:
    """In a cluster file, what is left out is not counted; a scheduler counts it as nothing."""
    resources = node_of(node({"cpu": "1", "memory": "2"}), (), NAMES).resources
    assert resources == {"cpu": 1000, "memory": 2, "pods": 0, "storage": 0}


def test_resource_that_the_node_lacks_is_not_invented() -> None:
    assert left({"cpu": "1"}, pod(container(gpu=1))) == {"cpu": 1000}


def test_pod_of_others_uses_a_pod_slot_unless_it_has_ended() -> None:
    idle = pod(container())
    done = pod(container(), phase="Succeeded")
    pods = [(), (idle, done), (idle, idle), (idle, idle, idle)]
    assert [left({"pods": "2"}, *each) for each in pods] == [{"pods": 2}, {"pods": 1}, {"pods": 0}, {"pods": 0}]


# ---------------------------------------------------------------- whether a node takes pods


def test_node_accepts_pods_only_if_it_is_ready_uncordoned_and_not_being_deleted() -> None:
    amounts = {"cpu": "1"}
    taken = {
        "ready": node(amounts),
        "says nothing": node(amounts, conditions=None),
        "not ready": node(amounts, conditions=[{"type": "Ready", "status": "False"}]),
        "silent": node(amounts, conditions=[{"type": "Ready", "status": "Unknown"}]),
        "cordoned": node(amounts, {"unschedulable": True}),
        "of another shard of KAI": node(amounts, labels={"kai.scheduler/node-pool": "b"}),
        "going": node(amounts, deletionTimestamp="2026-03-01T12:00:00Z"),
    }
    assert [name for name, each in taken.items() if node_of(each, (), NAMES).ready] == ["ready"]


def test_newly_created_node() -> None:
    assert node_of({"metadata": {"name": "n1"}, "spec": {}}, (), NAMES) == Node(
        "n1", {"cpu": 0, "memory": 0, "pods": 0, "storage": 0}, ready=False
    )


# ---------------------------------------------------------------- compared with brute force

AMOUNTS = st.integers(0, 5000)
"""In thousandths."""


@st.composite
def asked(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, Fraction]]:
    """As it is written, and what it means."""
    amounts = draw(st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), AMOUNTS))
    written = {name: draw(st.sampled_from([f"{n}m", f"{n / 1000:.3f}", f"{n}e-3"])) for name, n in amounts.items()}
    return written, {name: Fraction(n, 1000) for name, n in amounts.items()}


@st.composite
def some_pod(draw: st.DrawFn) -> tuple[Object, dict[str, Fraction]]:
    """A pod, and by brute force what it holds at its greediest moment, resource by resource."""
    containers = draw(st.lists(asked(), min_size=1, max_size=3))
    inits = draw(st.lists(st.tuples(asked(), st.booleans()), max_size=4))
    overhead = draw(asked())
    moments = []
    lasting: list[dict[str, Fraction]] = []
    for (_, means), stays in inits:
        moments.append([*lasting, means])
        lasting += [means] if stays else []
    moments.append([*lasting, *(means for _, means in containers)])
    most = {
        name: max(sum((each.get(name, Fraction(0)) for each in moment), Fraction(0)) for moment in moments)
        + overhead[1].get(name, 0)
        for name in ("cpu", "memory", "nvidia.com/gpu")
    }
    it = pod(
        *({"resources": {"requests": written}} for written, _ in containers),
        inits=tuple(
            {"resources": {"requests": written}} | ({"restartPolicy": "Always"} if stays else {})
            for (written, _), stays in inits
        ),
        overhead=overhead[0],
    )
    return it, most


@given(st.lists(some_pod(), max_size=4))
def test_remaining_capacity_matches_brute_force(pods: list[tuple[Object, dict[str, Fraction]]]) -> None:
    there = {"cpu": 40, "memory": 40, "nvidia.com/gpu": 40, "pods": 3}
    amounts = {name: str(value) for name, value in there.items()}
    rest = {
        name: value - sum((most.get(name, Fraction(1)) for _, most in pods), Fraction(0))
        for name, value in there.items()
    }
    assert dict(node_of(node(amounts), [each for each, _ in pods], NAMES).resources) == {
        "storage": 0,
        "cpu": max(0, int(rest["cpu"] * 1000 // 1)),
        "gpu": max(0, int(rest["nvidia.com/gpu"] // 1)),
        "memory": max(0, int(rest["memory"] // 1)),
        "pods": max(0, int(rest["pods"])),
    }
