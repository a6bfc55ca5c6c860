"""Nodes that change while gangs start and end: stored counts equal new ones (rules T1, T5, Q8)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.gangs import Assignment, Gang, GangState, NodeShare, PodSet, Priority
from runrig.domain.nodes import NO_FLAVOR, Flavor, Node, Taint
from runrig.domain.plan import Admit, Nominate, Queue, Release, Withdraw
from runrig.domain.pools import HOSTNAME, Pool, Quota
from runrig.domain.quantities import CPU, GPU, FlavorResource, of_one_pod, requests_of
from runrig.engine.ledger.fit import find_place, with_gpus
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.nodes import fit_counts
from runrig.engine.nodes.fit_counts import MOST_PER_NODE, FitCounts, PodShape
from runrig.engine.nodes.gpu_counts import GpusByState
from runrig.engine.nodes.node_capacity import EMPTY, NO_BOUND, NodeCapacity
from runrig.engine.nodes.topology import TopologyIndex
from runrig.engine.quota.quota_node import CHARGED, LAYERS, REAL
from tests.exploring import tries

pytestmark = pytest.mark.explored

NAMES = ("n0", "n1", "n2", "n3", "n4")
LABELS = ((), ("rack",), ("zone", "rack"), ("rack", HOSTNAME))
SHAPES = tuple(
    PodShape(of_one_pod(requests_of(asked)), flavor)
    for asked in ({GPU: 1}, {GPU: 2, CPU: 1}, {CPU: 3}, {})
    for flavor in ("a", "b")
)


def empty() -> Ledger:
    ledger = Ledger()
    ledger.set_flavors([Flavor("a"), Flavor("b", taints=(Taint("known"),), position=1)])
    ledger.put_pool(Pool("p", {FlavorResource("a", GPU): Quota(8)}))
    return ledger


def anew(ledger: Ledger) -> Ledger:
    """A ledger that only ever had the current nodes."""
    twin = empty()
    for room in ledger.nodes.by_name.values():
        twin.put_node(room.node)
    for entry in ledger.entries.values():
        twin.apply(Queue(entry.gang), 0)
        if entry.state is GangState.ADMITTED:
            twin.apply(Admit(entry.gang.id, entry.placement), 1)
        elif entry.state is GangState.NOMINATED:
            twin.apply(Nominate(entry.gang.id, entry.placement, ()), 1)
    return twin


def portrait(ledger: Ledger) -> dict[str, object]:
    """Everything stored about nodes; reading it keeps it up to date from then on."""
    nodes = ledger.nodes
    found: dict[str, object] = {"capacity": nodes.capacity}
    for name, room in sorted(nodes.by_name.items()):
        found[name] = (room.node, [dict(view) for view in room.free], list(room.gpus))
    for layer in LAYERS:
        gpus = nodes.gpus(layer)
        found[f"gpus {layer}"] = {flavor: each for flavor, each in gpus.items() if each != GpusByState()}
    for labels in LABELS:
        topology = nodes.topology(labels)
        order = [room.node.name for room in topology.nodes]
        assert all(room is nodes.by_name[room.node.name] for room in topology.nodes)
        found[f"{labels}"] = (order, topology.index, topology.paths, topology.labelled, topology.children)
        found[f"{labels} levels"] = [[*map(np.ndarray.tolist, each)] for each in (topology.of, topology.starts)]
        for layers in ((CHARGED,), LAYERS, (EMPTY,)):
            for shape in SHAPES:
                counts = nodes.counts(labels, shape, layers)
                found[f"{labels} {shape} {layers}"] = ([each.tolist() for each in counts.levels], counts.takes.tolist())
        for layer in (CHARGED, REAL):
            found[f"{labels} {layer}"] = [nodes.free(labels, resource, layer).tolist() for resource in (GPU, CPU)]
    return found


class History:
    def __init__(self) -> None:
        self.ledger = empty()
        self.names = 0

    def step(self, draw: st.DrawFn) -> None:
        kinds = ("node", "ready", "ready", "resources", "drop", "gang", "gang", "gang", "end", "flavors")
        getattr(self, draw(st.sampled_from(kinds)))(draw)

    def node(self, draw: st.DrawFn) -> None:
        labels = draw(st.dictionaries(st.sampled_from(("zone", "rack", "other")), st.sampled_from("xyz")))
        flavor = draw(st.sampled_from(("a", "a", "b", NO_FLAVOR)))
        taints = draw(st.sampled_from(((), (), (Taint("known"),), (Taint("other"),))))
        resources = draw(st.dictionaries(st.sampled_from((GPU, CPU)), st.integers(0, 8)))
        self.ledger.put_node(Node(draw(st.sampled_from(NAMES)), resources, flavor, labels, taints, draw(st.booleans())))

    def known(self, draw: st.DrawFn) -> Node | None:
        names = sorted(self.ledger.nodes.by_name)
        return self.ledger.nodes.by_name[draw(st.sampled_from(names))].node if names else None

    def ready(self, draw: st.DrawFn) -> None:
        if node := self.known(draw):
            self.ledger.put_node(replace(node, ready=not node.ready))

    def resources(self, draw: st.DrawFn) -> None:
        if node := self.known(draw):
            self.ledger.put_node(replace(node, resources={GPU: draw(st.integers(0, 8)), CPU: 8}))

    def drop(self, draw: st.DrawFn) -> None:
        if node := self.known(draw):
            self.ledger.drop_node(node.name)

    def gang(self, draw: st.DrawFn) -> None:
        name, self.names = f"g{self.names}", self.names + 1
        requests = of_one_pod(requests_of({GPU: draw(st.integers(0, 2)), CPU: 1}))
        gang = Gang(name, "p", draw(st.sampled_from(Priority)), 0, (PodSet("main", 1, requests),))
        self.ledger.apply(Queue(gang), 0)
        place = find_place(self.ledger, self.ledger.entries[name], (1,))
        if place is None and self.ledger.nodes.by_name:
            # As if a what-if run had stopped other work: more than is free, on a node that may be down.
            node = draw(st.sampled_from(sorted(self.ledger.nodes.by_name)))
            place = (Assignment("main", "a", 1, (NodeShare(node, 1),)),)
        if place is not None and draw(st.booleans()):
            self.ledger.apply(Admit(name, with_gpus(self.ledger, gang, place)), 1)
        elif place is not None:
            self.ledger.apply(Nominate(name, place, ()), 1)

    def end(self, draw: st.DrawFn) -> None:
        if self.ledger.entries:
            entry = self.ledger.entries[draw(st.sampled_from(sorted(self.ledger.entries)))]
            nominated = entry.state is GangState.NOMINATED and draw(st.booleans())
            self.ledger.apply((Withdraw if nominated else Release)(entry.gang.id), 2)

    def flavors(self, draw: st.DrawFn) -> None:
        known = Flavor("b", taints=(Taint("known"),), position=1)
        self.ledger.set_flavors([Flavor("a"), draw(st.sampled_from((known, known, replace(known, taints=()))))])


@settings(max_examples=tries(60), deadline=None, database=None)
@given(st.data())
def test_stored_counts_of_changing_nodes_equal_new_counts(data: st.DataObject) -> None:
    history = History()
    for _ in range(data.draw(st.integers(1, 8))):
        for _ in range(data.draw(st.integers(1, 4))):
            data.draw(st.composite(lambda draw: history.step(draw))())
        twin = anew(history.ledger)
        twin.set_flavors(history.ledger.flavors.values())
        assert portrait(history.ledger) == portrait(twin)


def test_a_node_that_keeps_its_position_leaves_the_topology_unchanged() -> None:
    """So nothing derived from it has to be computed again."""
    ledger = empty()
    for name in NAMES:
        ledger.put_node(Node(name, {GPU: 4}, "a", {"rack": "x"}))
    topology = ledger.nodes.topology(("rack",))
    node = ledger.nodes.by_name["n3"].node
    changes = (
        replace(node, ready=False),
        replace(node, resources={GPU: 2}),
        replace(node, labels={"rack": "x", "y": "z"}),
    )
    for changed in (*changes, replace(node, flavor=NO_FLAVOR), replace(node, taints=(Taint("other"),))):
        ledger.put_node(changed)
        assert ledger.nodes.topology(("rack",)) is topology
    ledger.put_node(replace(node, labels={"rack": "y"}))
    assert ledger.nodes.topology(("rack",)) is not topology


def test_many_nodes_changed_together_equal_one_by_one() -> None:
    labels = ("rack",)
    rooms = [NodeCapacity(Node(f"n{at:02}", {GPU: 8}, labels={"rack": f"r{at // 4}"})) for at in range(20)]
    topology = TopologyIndex(labels, rooms)
    takes = np.array([at % 5 > 0 for at in range(20)], dtype=np.bool_)
    start = FitCounts.of(topology, np.full(20, 8), takes)
    one_by_one, at_once = start.copy(), start.copy()
    places, fitting = [0, 3, 7, 11, 12, 13, 19, 5, 6], [5, 0, 2, NO_BOUND, 8, 1, 3, 0, 7]
    for at, pods in zip(places, fitting, strict=True):
        one_by_one.set(topology, at, pods)
    at_once.set_all(topology, places, fitting)
    assert [level.tolist() for level in at_once.levels] == [level.tolist() for level in one_by_one.levels]
    assert at_once.levels[-1].tolist() != start.levels[-1].tolist()


def test_amounts_above_64_bits_are_counted_exactly() -> None:
    """Columns that existed before are updated, and new counts are made from them."""
    ledger = empty()
    for name in ("n0", "n1"):
        ledger.put_node(Node(name, {CPU: 4}, "a"))
    shapes = [PodShape(requests_of({CPU: cores}), "a") for cores in (1, 2, 2**61)]
    assert ledger.nodes.counts((), shapes[0], (0,)).levels[-1].tolist() == [4, 4]
    ledger.put_node(Node("n1", {CPU: 2**70}, "a"))
    many = [ledger.nodes.counts((), shape, (0,)).levels[-1].tolist() for shape in shapes]
    assert many == [[4, MOST_PER_NODE], [2, MOST_PER_NODE], [0, 2**9]]


def test_counts_made_in_steps_equal_those_made_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """In steps of two nodes; after the first shape the columns exist, and a gang that was added is in them."""
    monkeypatch.setattr(fit_counts, "NODES_PER_STEP", 2)
    ledger, asked, steps = empty(), [], []
    for name in NAMES:
        ledger.put_node(Node(name, {GPU: 4, CPU: 2}, "a"))
    for at, shape in enumerate((SHAPES[0], SHAPES[2], SHAPES[4])):
        steps.append(len(list(ledger.nodes.counts_in_steps((), shape, LAYERS))))
        assert not list(ledger.nodes.counts_in_steps((), shape, LAYERS))
        asked.append(ledger.nodes.counts((), shape, LAYERS).levels[-1].tolist())
        gang = Gang(f"g{at}", "p", Priority.NORMAL, 0.0, (PodSet("main", 1, requests_of({GPU: 1})),))
        ledger.apply(Queue(gang), 0)
        ledger.apply(Admit(gang.id, (Assignment("main", "a", 1, (NodeShare(NAMES[at], 1, (0,)),)),)), 1)
    assert asked == [[4, 4, 4, 4, 4], [1, 2, 2, 2, 2], [0, 0, 0, 0, 0]]
    column = 3 * len(LAYERS)  # three steps for five nodes
    assert steps == [2 * column + 1, column + 1, 1]  # GPUs and pods, then CPUs; and one step for the counts
