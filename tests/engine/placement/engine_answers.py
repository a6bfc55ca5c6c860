"""The same problem for the engine: a ledger with the usage of others, and the gang in its queue."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from runrig.domain.gangs import Assignment, Gang, NodeShare, Placement, PodSet, Priority
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import Admit, Queue
from runrig.domain.pools import Pool, Quota, TopologyKey
from runrig.domain.quantities import CPU, GPU, MEMORY, FlavorResource, requests_of
from runrig.domain.reasons import Code
from runrig.domain.steps import drained
from runrig.engine.explain.why import explain
from runrig.engine.ledger.fit import find_place, with_gpus
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from tests.engine.placement.problem import Problem

PLENTY = Quota(10**12)
POOL, OTHERS = "ours", "others"


def ledger_without_gangs(flavors: Sequence[Flavor], nodes: Iterable[Node], keys: tuple[TopologyKey, ...]) -> Ledger:
    """Two pools with quota that never blocks; ours has topology keys. So only room and distance matter."""
    ledger = Ledger()
    ledger.set_flavors(flavors)
    for node in nodes:
        ledger.put_node(node)
    quotas = {FlavorResource(flavor.name, name): PLENTY for flavor in flavors for name in (GPU, CPU, MEMORY)}
    ledger.put_pool(Pool(POOL, quotas, topology_keys=keys))
    ledger.put_pool(Pool(OTHERS, quotas))
    return ledger


def ledger_of(problem: Problem) -> Ledger:
    """The nodes of *problem*, and gangs of another pool with its usage."""
    ledger = ledger_without_gangs(problem.flavors, problem.nodes, problem.keys)
    for number, node in enumerate(problem.nodes):
        held = requests_of(problem.held.get(node.name, {}))
        if held:
            gang = Gang(f"other-{number}/g", OTHERS, Priority.NORMAL, 0.0, (PodSet("pod", 1, held),))
            ledger.apply(Queue(gang), 0.0)
            placement = (Assignment("pod", node.flavor, 1, (NodeShare(node.name, 1),)),)
            ledger.apply(Admit(gang.id, with_gpus(ledger, gang, placement)), 0.0)
    return ledger


def queued(ledger: Ledger, problem: Problem, name: str = "w-1/g") -> Entry:
    ledger.apply(Queue(Gang(name, POOL, Priority.NORMAL, 1.0, problem.pod_sets)), 1.0)
    return ledger.entries[name]


def ask(problem: Problem) -> Placement | None:
    """Where the engine would start the gang, with the GPUs of its pods."""
    ledger = ledger_of(problem)
    entry = queued(ledger, problem)
    placement = find_place(ledger, entry, problem.counts)
    return None if placement is None else with_gpus(ledger, entry.gang, placement)


def is_unproven(problem: Problem) -> bool:
    """True if the reason of a waiting gang is the search limit, and not a lack of room."""
    asked = tuple(
        replace(each, count=count, min_count=None)
        for each, count in zip(problem.pod_sets, problem.counts, strict=True)
        if count
    )
    whole = replace(problem, pod_sets=asked, partial=None)
    ledger = ledger_of(whole)
    entry = queued(ledger, whole)
    return any(reason.code is Code.PLACEMENT_NOT_PROVEN for reason in drained(explain(ledger, entry)))
