"""A cluster of blocks, racks and hosts with 8 GPUs each, gangs for it, and a check of their placements.

In the busy part, host n runs (7919 n) mod 9 pods of one GPU.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from bench.world import UNIT, queue
from runrig.domain.gangs import Assignment, Gang, NodeShare, Placement, PodSet, Priority, Requirement
from runrig.domain.nodes import DEFAULT_FLAVOR, Flavor, Node
from runrig.domain.plan import Admit, PutCohort, PutNode, PutPool, SetFlavors
from runrig.domain.pools import HOSTNAME, Cohort, Pool, Quota, TopologyKey
from runrig.domain.quantities import CPU, GPU, MEMORY, PODS, FlavorResource, of_one_pod, requests_of
from runrig.engine.ledger.fit import with_gpus
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.state.state import State

GPUS = 8
NODE = {CPU: 96_000, MEMORY: 768 * 2**30, GPU: GPUS, PODS: 110}
KEYS = (TopologyKey("block", "block"), TopologyKey("rack", "rack"), TopologyKey("host", HOSTNAME))
POOL, OTHERS = "team", "others"


class Cluster(NamedTuple):
    """*hosts* of a rack, *racks* of a block; the last block may be smaller."""

    nodes: int = 10_000
    hosts: int = 16
    racks: int = 25
    busy: bool = False

    def domain(self, level: str, host: int) -> int:
        return host // {"block": self.hosts * self.racks, "rack": self.hosts, "host": 1}[level]

    def taken(self, host: int) -> int:
        """GPUs in use by others."""
        return host * 7919 % (GPUS + 1) if self.busy else 0


FULL = Cluster()


class Used(NamedTuple):
    hosts: int
    racks: int
    blocks: int


def node_name(host: int) -> str:
    return f"node-{host:05}"


def host_of(name: str) -> int:
    return int(name.removeprefix("node-"))


def pool(name: str, gpus: int, cohort: str | None = None) -> Pool:
    return Pool(name, {FlavorResource(DEFAULT_FLAVOR, GPU): Quota(gpus)}, cohort=cohort, topology_keys=KEYS)


def made(cluster: Cluster, pools: Sequence[Pool] = ()) -> State:
    """The cluster with *pools*, or with one pool that has all quota, and the work that keeps it busy.  The quota tree is built."""
    state = State()
    state.apply_all((SetFlavors((Flavor(DEFAULT_FLAVOR),)), PutCohort(Cohort("all"))), 0)
    for host in range(cluster.nodes):
        labels = {key.label: f"{key.key}-{cluster.domain(key.key, host):05}" for key in KEYS[:2]}
        state.apply(PutNode(Node(node_name(host), NODE, labels={**labels, HOSTNAME: node_name(host)})), 0)
    everything = cluster.nodes * GPUS
    for each in (*(pools or [pool(POOL, everything)]), pool(OTHERS, everything)):
        state.apply(PutPool(each), 0)
    if cluster.busy:
        taken = {host: cluster.taken(host) for host in range(cluster.nodes)}
        hold(state.ledger, gang("others-1/g", sum(taken.values()), pool=OTHERS), taken, 0)
    assert state.ledger.tree.root.active
    return state


def gang(
    name: str,
    pods: int,
    near: tuple[Requirement, ...] = (),
    *,
    gpus: int = 1,
    pool: str = POOL,
    priority: Priority = Priority.NORMAL,
    least: int | None = None,
    at: float = 0.0,
) -> Gang:
    requests = of_one_pod(requests_of({resource: amount * gpus for resource, amount in UNIT.items()}))
    return Gang(name, pool, priority, at, (PodSet("main", pods, requests, least, topology=near),))


def hold(ledger: Ledger, held: Gang, pods: Mapping[int, int], at: float) -> None:
    """*held* is admitted with *pods* per host."""
    shares = tuple(NodeShare(node_name(host), count) for host, count in pods.items() if count)
    placement = (Assignment("main", DEFAULT_FLAVOR, sum(pods.values()), shares),)
    queue(ledger, [held])
    ledger.apply(Admit(held.id, with_gpus(ledger, held, placement)), at)


def queued(ledger: Ledger, waiting: Gang) -> Entry:
    queue(ledger, [waiting])
    return ledger.entries[waiting.id]


def check(cluster: Cluster, placed: Iterable[tuple[Gang, Placement]]) -> Used:
    """Returns the domains of *placed*.  Fails if a node is overcommitted, or pods that must be together are not."""
    gpus = Counter[int]()
    for each, (assignment,) in placed:
        (pod_set,) = each.pod_sets
        hosts = [host_of(share.node) for share in assignment.shares for _ in range(share.count)]
        assert len(hosts) == assignment.count, f"{each.id} has {len(hosts)} of {assignment.count} pods"
        for host in hosts:
            gpus[host] += dict(pod_set.requests)[GPU]
        for asked in pod_set.topology:
            for domains in _slices(cluster, asked, hosts):
                assert not asked.required or len(domains) == 1, f"{each.id} is in {domains} of {asked}"
    over = {host for host, held in gpus.items() if held > GPUS - cluster.taken(host)}
    assert not over, f"too much on {sorted(over)}"
    return Used(*(len({cluster.domain(level, host) for host in gpus}) for level in ("host", "rack", "block")))


def _slices(cluster: Cluster, asked: Requirement, hosts: list[int]) -> Iterator[set[int]]:
    size = asked.slice_size or len(hosts)
    for first in range(0, len(hosts), size):
        yield {cluster.domain(asked.key, host) for host in hosts[first : first + size]}
