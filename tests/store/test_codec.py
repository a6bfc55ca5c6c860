"""Values as JSON: the same value has the same text, older text is read, and newer text is refused."""

from collections.abc import Mapping

import pytest

from runrig.domain.gangs import Assignment, NodeShare, Requirement
from runrig.domain.nodes import Node
from runrig.domain.plan import Admit, MoveTask, PutNode, PutPool, Replace
from runrig.domain.pools import Pool, Quota, Quotas
from runrig.domain.quantities import FlavorResource
from runrig.domain.subjects import workflow_of
from runrig.domain.workflows import Status, TaskKey, TaskSpec
from runrig.store.codec import Undecodable, decode, decode_action, dumps, encode, encode_action


def test_action_is_stored_as_its_kind_and_fields() -> None:
    action = MoveTask(TaskKey("w-1", "t", 0), Status.COMPLETED, 0)
    assert encode_action(action) == (
        "MoveTask",
        {"key": ["w-1", "t", 0], "status": "COMPLETED", "exit_code": 0, "message": ""},
    )


def test_a_placement_is_nested_lists_and_objects() -> None:
    action = Admit("w-1/g", (Assignment("t", "h100", 2, (NodeShare("n0", 2, (0, 1)),)),))
    assert dumps(encode_action(action)[1]) == (
        '{"gang":"w-1/g","placement":[{"count":2,"flavor":"h100","pod_set":"t",'
        '"shares":[{"count":2,"gpus":[0,1],"node":"n0"}]}]}'
    )


def test_replacement_of_a_placement_is_stored_like_a_placement_and_belongs_to_its_workflow() -> None:
    action = Replace("w-1/g", (Assignment("t", "h100", 2, (NodeShare("n0", 1, (0,)), NodeShare("n1", 1, (3,)))),))
    kind, plain = encode_action(action)
    assert (kind, dumps(plain)) == (
        "Replace",
        '{"gang":"w-1/g","placement":[{"count":2,"flavor":"h100","pod_set":"t",'
        '"shares":[{"count":1,"gpus":[0],"node":"n0"},{"count":1,"gpus":[3],"node":"n1"}]}]}',
    )
    assert decode_action(kind, plain) == action
    assert workflow_of(action) == "w-1"


def test_equal_actions_have_the_same_text_whatever_their_order_and_number_types() -> None:
    one = PutPool(Pool("p", {FlavorResource("b", "gpu"): Quota(1), FlavorResource("a", "gpu"): Quota(2)}, grace_s=30))
    other = PutPool(
        Pool("p", {FlavorResource("a", "gpu"): Quota(2), FlavorResource("b", "gpu"): Quota(1)}, grace_s=30.0)
    )
    assert one == other
    assert dumps(encode_action(one)) == dumps(encode_action(other))


def test_topology_requirements_are_stored_and_a_task_of_an_older_release_has_none() -> None:
    task = TaskSpec(
        "t", "i", ("run",), topology=(Requirement("rack"), Requirement("zone", "all", required=False, slice_size=4))
    )
    plain = encode(TaskSpec, task)
    assert plain["topology"] == [
        {"key": "rack", "group": "default", "required": True, "slice_size": None},
        {"key": "zone", "group": "all", "required": False, "slice_size": 4},
    ]
    assert decode(TaskSpec, plain) == task
    del plain["topology"]
    assert decode(TaskSpec, plain) == TaskSpec("t", "i", ("run",))


def test_a_resource_may_have_a_slash_of_its_own() -> None:
    quotas = {FlavorResource("h100", "nvidia.com/gpu"): Quota(1)}
    plain = {"h100/nvidia.com/gpu": {"nominal": 1, "borrowing_limit": None, "lending_limit": None}}
    assert encode(Quotas, quotas) == plain
    assert decode(Quotas, plain) == quotas


def test_field_missing_in_older_data_gets_its_default() -> None:
    assert decode_action("PutNode", {"node": {"name": "n", "resources": {"gpu": 1}}}) == PutNode(Node("n", {"gpu": 1}))


@pytest.mark.parametrize(
    ("kind", "plain", "message"),
    [
        ("FromTheFuture", {}, "'FromTheFuture' is not an action that this version knows"),
        ("DropNode", {"name": "n", "colour": "red"}, '{"colour":"red","name":"n"} is not a DropNode: \'colour\''),
        ("DropNode", {"name": 1}, '{"name":1} is not a DropNode: 1 is not of type str'),
        ("MoveTask", {"key": "abc", "status": "FAILED"}, "'abc' is not a list"),
        ("MoveTask", {"key": ["w", "t"], "status": "FAILED"}, "is shorter than"),
        ("MoveTask", {"key": ["w", "t", True], "status": "FAILED"}, "True is not of type int"),
        ("MoveTask", {"key": ["w", "t", 0], "status": "GREAT"}, "'GREAT' is not a valid Status"),
        ("PutPool", {"pool": {"name": "p", "quotas": {"gpu": {}}}}, "'gpu' is not of the form flavor/resource"),
        ("DropNode", [], "is not a DropNode"),
    ],
)
def test_data_in_another_format_is_refused(kind: str, plain: object, message: str) -> None:
    with pytest.raises(Undecodable) as refused:
        decode_action(kind, plain)
    assert message in str(refused.value)


def test_numbers_that_json_does_not_have_are_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        dumps(encode(Mapping[str, float], {"x": float("nan")}))
