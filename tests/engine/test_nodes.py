"""Nodes as a backend reports them: their flavor, and its effects."""

import pytest

from runrig.domain.nodes import NO_FLAVOR, Flavor, Node
from runrig.domain.observed import Observation
from runrig.domain.plan import DropNode, PutNode, SetFlavors
from runrig.domain.pools import Pool, Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.engine import cycle
from runrig.engine.explain.quota_report import tree_rows
from tests.worlds.engine import GPUS, World

A100, H100 = {"gpu": "a100"}, {"gpu": "h100"}
H100_GPUS = FlavorResource("h100", GPU)


def see(world: World, *nodes: Node) -> list[Node]:
    """A cycle in which the backend reports *nodes*; returns those that changed, in their new form."""
    seen = Observation(world.observe().tasks, nodes)
    world.now += 1
    plan = cycle.run(world.state, seen, world.now)
    return [action.node for action in plan.actions if isinstance(action, PutNode)]


def capacity(world: World) -> dict[FlavorResource, int]:
    """The capacity of each key at the root of the quota tree, without guarantees."""
    return {
        FlavorResource(*key.split("/", 1)): balance.nominal
        for key, balance in tree_rows(world.state)[0].balances.items()
    }


@pytest.mark.parametrize("name", ["default", "a100"])
def test_a_node_without_a_flavor_adds_no_capacity_whatever_flavors_are_called(name: str) -> None:
    world = World({"a": Pool("a")}, {}, flavors=(Flavor(name, A100), Flavor("h100", H100)))
    assert see(world, Node("n0", {GPU: 8}, labels=A100), Node("n1", {GPU: 4})) == [
        Node("n0", {GPU: 8}, name, A100),
        Node("n1", {GPU: 4}, NO_FLAVOR),
    ]
    assert capacity(world) == {FlavorResource(name, GPU): 8, H100_GPUS: 0}


def test_unchanged_nodes_are_adopted_again_if_anything_else_has_changed() -> None:
    world = World({}, {}, flavors=(Flavor("h100", H100),))
    shown = Node("n0", {GPU: 4}, labels=A100)
    for _ in range(3):  # an adopted node is known at the next look
        see(world, shown)
    world.do(SetFlavors((Flavor("a100", A100), Flavor("h100", H100))))
    assert see(world, shown) == [Node("n0", {GPU: 4}, "a100", A100)]
    assert see(world, shown) == see(world, shown) == []
    world.do(PutNode(Node("n0", {GPU: 4}, "a100", A100, ready=False)))
    assert see(world, shown) == [Node("n0", {GPU: 4}, "a100", A100)]
    assert see(world, shown) == see(world, shown) == []
    world.do(DropNode("n0"))
    assert see(world, shown) == [Node("n0", {GPU: 4}, "a100", A100)]


def test_a_node_that_gets_the_labels_of_a_flavor_joins_it() -> None:
    world = World({"a": Pool("a", {H100_GPUS: Quota(4)})}, {}, flavors=(Flavor("h100", H100),))
    world.state.fixed_nodes = False
    world.submit("w", "a", gpus=4)
    see(world, Node("n0", {GPU: 4}))
    assert world.running() == set()
    see(world, Node("n0", {GPU: 4}, labels=H100))
    assert world.running() == {"w-1"}


def test_work_on_a_node_that_loses_its_flavor_keeps_running() -> None:
    flavors = (Flavor("default", A100),)
    world = World({"a": Pool("a", {GPUS: Quota(4)})}, {"n0": Node("n0", {GPU: 8}, labels=A100)}, flavors=flavors)
    world.state.fixed_nodes = False
    world.submit("first", "a", gpus=2)
    world.cycle()
    see(world, Node("n0", {GPU: 8}))
    world.submit("second", "a", gpus=2)
    world.cycle()
    assert world.running() == {"first-1"}
    assert capacity(world) == {GPUS: 0}


def test_a_node_stored_with_the_wrong_flavor_by_an_older_release_is_corrected() -> None:
    world = World({}, {"n0": Node("n0", {GPU: 4}, "default")}, flavors=(Flavor("default", A100),))
    assert see(world, Node("n0", {GPU: 4})) == [Node("n0", {GPU: 4}, NO_FLAVOR)]
    assert see(world, Node("n0", {GPU: 4})) == []
