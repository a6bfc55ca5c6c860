"""The same problem put to our engine: a ledger that holds what others hold, and the gang in its queue."""

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
    """Two pools, ours with topology keys, whose quota never blocks: what is asked of the engine here is room and nearness."""
    ledger = Ledger()
    ledger.set_flavors(flavors)
    for node in nodes:
        ledger.put_node(node)
    quotas = {FlavorResource(flavor.name, name): PLENTY for flavor in flavors for name in (GPU, CPU, MEMORY)}
    ledger.put_pool(Pool(POOL, quotas, topology_keys=keys))
    ledger.put_pool(Pool(OTHERS, quotas))
    return ledger


def ledger_of(problem: Problem) -> Ledger:
    """The nodes of *problem*, and gangs of another pool that hold what is held."""
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
    """Where the engine would start the gang, with the GPUs that its pods would get."""
    ledger = ledger_of(problem)
    entry = queued(ledger, problem)
    placement = find_place(ledger, entry, problem.counts)
    return None if placement is None else with_gpus(ledger, entry.gang, placement)


def is_unproven(problem: Problem) -> bool:
    """Whether a gang that waits is told that the search gave up, and not that there is no room."""
    asked = tuple(
        replace(each, count=count, min_count=None)
        for each, count in zip(problem.pod_sets, problem.counts, strict=True)
        if count
    )
    whole = replace(problem, pod_sets=asked, partial=None)
    ledger = ledger_of(whole)
    entry = queued(ledger, whole)
    return any(reason.code is Code.PLACEMENT_NOT_PROVEN for reason in drained(explain(ledger, entry)))
