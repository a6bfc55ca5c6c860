"""The gate: submissions that can never run are rejected immediately with the number that they exceed; others may wait
(rule P3).
"""

import pytest

from runrig.domain.errors import Refused
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import PutPool
from runrig.domain.pools import Pool, Quota
from runrig.domain.quantities import CPU, GPU, FlavorResource, requests_of
from runrig.domain.workflows import GroupSpec, Status, WorkflowSpec
from runrig.engine.lifecycle import submission_gate
from runrig.engine.state.state import State
from tests.worlds.engine import HIGH, LOW, NORMAL, World, gpu_quota, task, workflow


def refusal(world: World, pool: str, priority: Priority, spec: WorkflowSpec) -> Refused:
    """The refusal; nothing was stored."""
    before = world.state.rows()
    with pytest.raises(Refused) as caught:
        submission_gate.submit(world.state, spec, spec_hash="h", pool=pool, priority=priority, user="u", uuid="", now=1)
    assert world.state.rows() == before
    assert world.state.take_changes() is not None
    return caught.value


def accepted(world: World, pool: str, priority: Priority, spec: WorkflowSpec) -> bool:
    return bool(
        submission_gate.submit(
            world.state, spec, spec_hash="h", pool=pool, priority=priority, user="u", uuid="", now=1
        ).actions
    )


def test_guaranteed_work_beyond_the_quota_is_rejected_with_both_numbers() -> None:
    world = World({"a": 4}, {"n0": 8})
    caught = refusal(world, "a", NORMAL, workflow("big", task("t", 5)))
    assert caught.details == {"law": "P3", "pool": "a", "resource": "default/gpu", "asked": 5, "limit": 4}
    assert accepted(world, "a", HIGH, workflow("fits", task("t", 4)))


def test_low_work_is_limited_by_what_it_could_ever_borrow() -> None:
    world = World({"a": Pool("a", gpu_quota(2, borrowing=1)), "b": Pool("b", gpu_quota(3, lending=0))}, {"n0": 9})
    assert "pool a can get at most 3 GPUs, even by borrowing" in str(
        refusal(world, "a", LOW, workflow("w", task("t", 4)))
    )
    assert accepted(world, "a", LOW, workflow("w", task("t", 3)))
    assert accepted(world, "b", LOW, workflow("w", task("t", 9)))


def test_current_usage_does_not_matter() -> None:
    """Rejected is not pending."""
    world = World({"a": 2}, {"n0": 2})
    world.submit("first", "a", NORMAL, 2)
    world.cycle()
    world.submit("second", "a", NORMAL, 2)
    assert world.cycle() == []
    assert world.status("second-1") == [Status.SCHEDULING]


def test_the_whole_gang_counts_or_its_minimum_size() -> None:
    world = World({"a": 4}, {"n0": 8})
    mates = GroupSpec("g", (task("x", 2), task("y", 3, lead=False)))
    refusal(world, "a", NORMAL, WorkflowSpec("w", (mates,)))
    refusal(world, "a", NORMAL, workflow("w", task("t", 2, count=3)))
    assert accepted(world, "a", NORMAL, workflow("w", task("t", 2, count=3, minimum=2)))


def test_each_group_counts_separately() -> None:
    world = World({"a": 4}, {"n0": 8})
    assert accepted(world, "a", NORMAL, workflow("w", task("x", 4), task("y", 4)))
    refused = refusal(world, "a", NORMAL, workflow("w", task("x", 4), task("y", 5), upstream={"y": ("x",)}))
    assert str(refused).startswith("w/y-group needs 5 GPUs, but")


def test_a_gang_that_fits_no_empty_cluster_is_rejected_by_pod_set() -> None:
    world = World({"a": 9}, {"n0": 4, "n1": 4})
    caught = refusal(world, "a", NORMAL, workflow("w", task("t", 3, count=3)))
    assert "2 of 3 pods of t (3 GPUs per pod) fit. Request less per pod, or fewer pods" in str(caught)
    assert caught.details == {"law": "P3", "pool": "a", "pod_set": "t", "asked": 3, "limit": 2}
    caught = refusal(world, "a", NORMAL, workflow("w", task("t", 5)))
    assert "w does not fit even on empty nodes: the pod of t (5 GPUs per pod) fits on none. Request less" in str(caught)
    assert caught.details == {"law": "P3", "pool": "a", "pod_set": "t", "asked": 1, "limit": 0}


def test_nodes_that_are_down_count_and_with_changing_nodes_none_are_checked() -> None:
    down = World({"a": 4}, {"n0": Node("n0", {GPU: 4}, ready=False)})
    assert accepted(down, "a", NORMAL, workflow("w", task("t", 4)))
    elastic = World({"a": 4}, {})
    elastic.state.fixed_nodes = False
    assert accepted(elastic, "a", NORMAL, workflow("w", task("t", 4)))


def test_other_resources_count_if_the_pool_has_quota_for_them_and_always_on_nodes() -> None:
    cpu = FlavorResource("default", CPU)
    node = Node("n0", {GPU: 4, CPU: 8000})
    cores = task("t", requests=requests_of({CPU: 3000}))
    world = World({"a": Pool("a", {cpu: Quota(2000, 0)}), "b": 1}, {"n0": node})
    assert "needs 3 CPU cores, but pool a has a quota of 2 CPU cores" in str(
        refusal(world, "a", NORMAL, workflow("w", cores))
    )
    assert accepted(world, "b", NORMAL, workflow("w", cores))
    refusal(world, "b", NORMAL, workflow("w", task("t", requests=requests_of({CPU: 9000}))))


def test_flavors_are_tried_in_turn_and_an_unknown_platform_is_rejected_by_name() -> None:
    flavors = (Flavor("h100", {"gpu": "h100"}), Flavor("b200", {"gpu": "b200"}, allow=("privileged",)))
    quota = {FlavorResource("h100", GPU): Quota(2), FlavorResource("b200", GPU): Quota(4)}
    nodes = {name: Node(name, {GPU: 4}, flavor=name, labels={"gpu": name}) for name in ("h100", "b200")}
    world = World({"a": Pool("a", quota)}, nodes, flavors=flavors)
    assert accepted(world, "a", NORMAL, workflow("w", task("t", 4)))
    assert "needs 4 h100 GPUs, but pool a has a quota of 2 GPUs" in str(
        refusal(world, "a", NORMAL, workflow("w", task("t", 4, platform="h100")))
    )
    assert "pool a has no platform 'a100'. Available: h100, b200" in str(
        refusal(world, "a", NORMAL, workflow("w", task("t", platform="a100")))
    )
    assert "requests privileged, which platform h100 does not allow" in str(
        refusal(world, "a", NORMAL, workflow("w", task("t", allow=("privileged",))))
    )
    assert accepted(world, "a", NORMAL, workflow("w", task("t", allow=("privileged",), platform="b200")))
    world.do(PutPool(Pool("a", quota, default_platform="b200"), world.state.pools["a"]))
    assert accepted(world, "a", NORMAL, workflow("w", task("t", allow=("privileged",))))


def test_of_many_flavors_the_last_one_counts_for_different_tasks_too() -> None:
    """P3, P5: 7 flavors for 3 tasks are 343 choices, more than are tried."""
    names = [f"f{at}" for at in range(7)]
    flavors = tuple(Flavor(name, {"gpu": name}) for name in names)
    nodes = {name: Node(name, {GPU: 8}, flavor=name, labels={"gpu": name}) for name in names}
    world = World({"a": Pool("a", {FlavorResource("f6", GPU): Quota(8)})}, nodes, flavors=flavors)
    tasks = tuple(task(f"t{at}", at) for at in (1, 2, 3))
    world.submit("w", "a", spec=WorkflowSpec("w", (GroupSpec("g", tasks),)))
    assert world.cycle() == ["admit w"]


def test_numbers_increase_per_name_even_after_workflows_are_gone() -> None:
    world = World({"a": 4}, {"n0": 4})
    world.submit("w", "a", NORMAL)
    world.cycle()
    world.finish("w-1")
    world.cycle()
    world.state.take_changes()
    assert world.state.workflows == {}
    world.submit("w", "a", NORMAL)
    assert list(world.state.workflows) == ["w-2"]
    assert State.load(world.state.rows()).numbers == {"w": 2}


def test_gangs_made_impossible_by_an_edit_stay_and_wait() -> None:
    world = World({"a": 4}, {"n0": 4})
    world.submit("w", "a", NORMAL, 4)
    world.do(PutPool(Pool("a", gpu_quota(3)), world.state.pools["a"]))
    assert world.cycle() == []
    refusal(world, "a", NORMAL, workflow("v", task("t", 4)))
    world.do(PutPool(Pool("a", gpu_quota(4)), world.state.pools["a"]))
    assert world.cycle() == ["admit w"]
