"""Free amounts without some gangs, computed from columns, equal those of the nodes after the gangs have left."""

import random

import numpy as np
import pytest
from bench.racks import KEYS, POOL, Cluster, hold, made, node_name

from runrig.domain.gangs import Gang, PodSet, Priority
from runrig.domain.quantities import CPU, GPU, MEMORY, of_one_pod, requests_of
from runrig.engine.ledger.fit import CHARGED_ONLY
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.nodes.fit_counts import PodShape
from runrig.engine.nodes.topology import ROOT
from runrig.engine.placement.trial_capacity import TrialCapacity
from runrig.engine.preemption.candidates import Drawn
from runrig.engine.preemption.held_by_domain import held_by_domain, without

NODES = 24
SHAPES = [
    PodShape(of_one_pod(requests_of({GPU: 2, CPU: 4000})), "default"),
    PodShape(of_one_pod(requests_of({CPU: 30_000, MEMORY: 100 * 2**30})), "default"),
    PodShape(of_one_pod(requests_of({"unheard": 1})), "default"),
]
ASKED = ({GPU: 1, CPU: 9000}, {GPU: 2, MEMORY: 200 * 2**30}, {CPU: 40_000})


def filled(chance: random.Random) -> Ledger:
    """Gangs of all kinds on random nodes, several on one."""
    ledger = made(Cluster(NODES, hosts=4, racks=2)).ledger
    for at in range(20):
        requests = of_one_pod(requests_of(chance.choice(ASKED)))
        nodes = {host: chance.randint(1, 2) for host in chance.sample(range(NODES), chance.randint(1, 4))}
        pods = PodSet("main", sum(nodes.values()), requests)
        hold(ledger, Gang(f"g{at}-1/g", POOL, Priority.LOW, at, (pods,)), nodes, at)
    return ledger


@pytest.mark.parametrize("seed", range(30))
def test_free_amounts_without_gangs_equal_those_after_the_gangs_have_left(seed: int) -> None:
    chance = random.Random(seed)
    ledger = filled(chance)
    labels = tuple(each.label for each in KEYS)
    columns = ledger.candidates
    assert columns.refresh() == len(columns.order) == 20
    gone = np.array(chance.sample(columns.order.tolist(), chance.randint(0, 8)), dtype=np.int64)
    capacity = TrialCapacity(ledger.nodes, labels, SHAPES, CHARGED_ONLY)
    before = [[level.tolist() for level in capacity.counts(shape).levels] for shape in range(len(SHAPES))]
    held_by_domain(
        capacity, Drawn(columns, [], columns.order), ((0, 1), (1, 1)), ROOT, capacity.topology.whole(labelled=True)
    )
    found = without(capacity, columns, gone)
    counted = [[level.tolist() for level in found.counts(shape).levels] for shape in range(len(SHAPES))]
    free = [dict(found.free(node)) for node in range(NODES)]
    assert [[level.tolist() for level in capacity.counts(shape).levels] for shape in range(len(SHAPES))] == before

    for slot in gone:
        ledger.uncharge(columns.entries[slot])
    left = TrialCapacity(ledger.nodes, labels, SHAPES, CHARGED_ONLY)
    assert counted == [[level.tolist() for level in left.counts(shape).levels] for shape in range(len(SHAPES))]
    seen = {resource for shape in SHAPES for resource, _ in shape.requests}
    for node in range(NODES):
        now = left.free(node)
        assert {each: free[node][each] for each in now if each in seen} == {
            each: now[each] for each in now if each in seen
        }, node_name(node)
