"""Short builders for imported queues with nodes, and readers for the decisions of a cycle. Everything uses flavor ``f``
unless stated otherwise. The upper level is the rack, the lower one the host.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from runrig.domain.kueue import Settings
from runrig.domain.nodes import Node
from runrig.domain.pools import HOSTNAME, Queueing, Quota
from runrig.domain.quantities import FlavorResource
from runrig.kueue.declared import (
    ClusterQueue,
    Fungibility,
    Granted,
    NodeChoice,
    Placed,
    Policies,
    Policy,
    QueueCohort,
    ResourceFlavor,
    ResourceGroup,
    Slices,
    System,
    Topology,
    TopologyMode,
    TopologyRequest,
    Workload,
    WorkloadPodSet,
)
from runrig.kueue.engine.simulator import Simulator

RACKS = Topology("racks", ("rack", HOSTNAME))
ANYWHERE = TopologyRequest()
ONE_HOST = TopologyRequest(TopologyMode.REQUIRED, HOSTNAME)
ONE_RACK = TopologyRequest(TopologyMode.REQUIRED, "rack")
LOWER = Policies(within_queue=Policy.LOWER)
TAKES_BACK = Policies(within_queue=Policy.LOWER, reclaim=Policy.ANY)


def slices(size: int, level: str = HOSTNAME) -> TopologyRequest:
    return TopologyRequest(TopologyMode.SLICES, "", (Slices(level, size),))


def machine(name: str, rack: str = "r1", kind: str = "f", **has: int) -> Node:
    """A node with room for 99 pods unless *has* sets another number."""
    return Node(name, {"pods": 99} | has, labels={"rack": rack, HOSTNAME: name, "kind": kind})


def flavor(name: str = "f") -> ResourceFlavor:
    """The flavor of the nodes of that kind."""
    return ResourceFlavor(name, {"kind": name}, topology="racks")


def queue(
    name: str,
    cohort: str | None = None,
    policies: Policies = LOWER,
    *,
    flavors: Sequence[str] = ("f",),
    strict: bool = False,
    rules: Fungibility = Fungibility(),  # noqa: B008  (a frozen value)
    **nominal: int,
) -> ClusterQueue:
    """*nominal*: by resource, in each of *flavors*."""
    quotas = {FlavorResource(each, resource): Quota(amount) for each in flavors for resource, amount in nominal.items()}
    queueing = Queueing.STRICT_FIFO if strict else Queueing.BEST_EFFORT_FIFO
    groups = (ResourceGroup(tuple(nominal), tuple(flavors)),)
    return ClusterQueue(name, groups, quotas, cohort, queueing, policies, rules, Fraction(1))


def pods(
    count: int = 1,
    near: TopologyRequest | None = None,
    *,
    name: str = "main",
    least: int | None = None,
    group: str | None = None,
    choice: NodeChoice = NodeChoice(),  # noqa: B008  (a frozen value)
    **asks: int,
) -> WorkloadPodSet:
    """*asks*: the requests of one pod."""
    return WorkloadPodSet(name, count, least, tuple(sorted(asks.items())), choice, group, topology=near)


def waits(
    name: str, queue: str, *pod_sets: WorkloadPodSet, priority: int = 0, at: float = 10.0, uid: str = ""
) -> Workload:
    return Workload(name, queue, pod_sets, priority, at, at, uid or name)


def runs(
    name: str,
    queue: str,
    pod_set: WorkloadPodSet,
    on: Mapping[str, int] | None = None,
    *,
    priority: int = 0,
    since: float = 1.0,
    flavor: str = "f",
    evicted: bool = False,
) -> Workload:
    """*on*: pods by machine; None: it uses quota only."""
    granted = Granted(
        pod_set.name,
        pod_set.count,
        tuple((resource, flavor) for resource, _ in pod_set.requests),
        tuple((resource, amount * pod_set.count) for resource, amount in pod_set.requests),
        tuple(Placed((host,), count) for host, count in sorted((on or {}).items())),
    )
    return Workload(
        name, queue, (pod_set,), priority, since, since, name, granted=(granted,), reserved_at=since, evicted=evicted
    )


def cluster(
    machines: Iterable[Node],
    queues: Iterable[ClusterQueue],
    *workloads: Workload,
    cohorts: Iterable[QueueCohort] = (),
    flavors: Iterable[ResourceFlavor] | None = None,
    topology: Topology = RACKS,
    settings: Settings = Settings(),  # noqa: B008  (a frozen value)
) -> Simulator:
    """Without *machines* there is no topology, so that only quota matters."""
    nodes = tuple(machines)
    plain = () if nodes else (ResourceFlavor("f"),)
    return Simulator(
        System(
            cohorts=tuple(cohorts),
            queues=tuple(queues),
            flavors=tuple(flavors) if flavors is not None else plain or (flavor(),),
            workloads=workloads,
            namespaces={"default": {}},
            nodes=nodes,
            topologies=(topology,) if nodes else (),
        ),
        settings,
    )


Decided = dict[str, Any]


def decided(world: Simulator, now: float = 100.0) -> Decided:
    """One cycle: the pods per machine of each pod set that starts (without nodes, their number), the preemptions, and
    the parked workloads.
    """
    report = world.cycle(now)
    return {
        "starts": {
            each.workload: {
                granted.pod_set: {placed.domain[-1]: placed.count for placed in granted.placement} or granted.count
                for granted in each.granted
            }
            for each in report.admitted
        },
        "stops": {each.workload: (each.by, each.reason) for each in report.preempted},
        "parked": sorted(each.workload for each in report.pending if each.parked),
    }


def outcome(
    starts: Mapping[str, object] | None = None,
    stops: Mapping[str, tuple[str, str]] | None = None,
    parked: Sequence[str] = (),
) -> Decided:
    return {"starts": starts or {}, "stops": stops or {}, "parked": sorted(parked)}
