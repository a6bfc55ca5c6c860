"""Figures for a monitor: who waits and how long, what each node of the quota tree has left, where the GPUs are.

Nothing here costs by the number of gangs that wait: 50,000 of them lie in a few buckets, each in order.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from runrig.domain.quantities import FlavorResource
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.gpu_counts import GpusByState
from runrig.engine.quota.numbers import headroom_now, held_below
from runrig.engine.quota.quota_node import REAL, QuotaNode
from runrig.engine.state.state import State


@dataclass(frozen=True, slots=True)
class WaitingGangs:
    """Gangs of one pool and priority that have not started, the nominated included; *since*: when the oldest was submitted."""

    gangs: int
    since: float


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """The use of one (flavor, resource) at one node of the tree.  *kind*: "root", "cohort" or "pool"; *usage*: what its subtree holds."""

    node: str
    kind: str
    key: FlavorResource
    nominal: int
    usage: int
    headroom: int


@dataclass(frozen=True, slots=True)
class MonitorSnapshot:
    """*waiting*: by pool and priority; *gpus*: by flavor.  *aside*: workflows that the server failed at and left alone (law W8)."""

    revision: int
    now: float
    waiting: dict[tuple[str, str], WaitingGangs]
    shares: tuple[QuotaUse, ...]
    gpus: dict[str, GpusByState]
    aside: int = 0


def monitor_snapshot(state: State, now: float) -> MonitorSnapshot:
    """O(buckets + nodes of the tree x its resources)."""
    return MonitorSnapshot(state.revision, now, waiting(state), tuple(_shares(state)), _gpus(state), len(state.aside))


def waiting(state: State) -> dict[tuple[str, str], WaitingGangs]:
    found: dict[tuple[str, str], WaitingGangs] = {}
    for bucket in state.ledger.pending.values():
        _count(found, bucket.waiting[0], len(bucket.waiting))  # within a bucket the head was submitted first
    for entry in state.ledger.nominated.values():
        _count(found, entry, 1)
    return dict(sorted(found.items()))


def _count(found: dict[tuple[str, str], WaitingGangs], oldest: Entry, gangs: int) -> None:
    key = (oldest.gang.pool, oldest.gang.priority.value)
    before = found.get(key, WaitingGangs(0, oldest.gang.submitted_at))
    found[key] = WaitingGangs(before.gangs + gangs, min(before.since, oldest.gang.submitted_at))


def _shares(state: State) -> Iterator[QuotaUse]:
    tree = state.ledger.tree
    nodes: list[QuotaNode] = [tree.root]
    nodes += [node for _, node in sorted(tree.cohorts.items())]
    nodes += [node for _, node in sorted(tree.pools.items())]
    held, nothing = held_below((*tree.firm.values(), *tree.low.values())), [0] * len(tree.keys)
    for node in nodes:
        usage = held.get(node, nothing)
        for index, key in enumerate(tree.keys):
            left = headroom_now(node, index)
            yield QuotaUse(node.name, node.kind.value, key, node.nominal[index], usage[index], left)


def _gpus(state: State) -> dict[str, GpusByState]:
    """Declared flavors, and those of which there are GPUs."""
    counts = state.ledger.nodes.gpus(REAL)
    with_gpus = {name for name, each in counts.items() if each.held or each.free or each.not_ready}
    return {name: counts.get(name, GpusByState()) for name in sorted(with_gpus.union(state.flavors))}
