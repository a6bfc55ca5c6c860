"""Numbers for monitoring: what is waiting and for how long, what is left at each node of the quota tree, and the state of GPUs.

The cost does not depend on the number of waiting gangs: 50,000 of them are in a few buckets.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from runrig.domain.quantities import FlavorResource
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.gpu_counts import GpusByState
from runrig.engine.quota.numbers import headroom_now, held_below
from runrig.engine.quota.quota_node import REAL
from runrig.engine.state.state import State


@dataclass(frozen=True, slots=True)
class WaitingGangs:
    """Gangs of one pool and priority that have not started, including nominated ones. *since*: when the oldest was submitted."""

    gangs: int
    since: float


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """The use of one (flavor, resource) at one node of the tree. *kind*: "root", "cohort" or "pool". *usage*: of its subtree."""

    node: str
    kind: str
    key: FlavorResource
    nominal: int
    usage: int
    headroom: int


@dataclass(frozen=True, slots=True)
class MonitorSnapshot:
    """*waiting*: by pool and priority. *gpus*: by flavor. *aside*: workflows that were set aside (rule W8)."""

    revision: int
    now: float
    waiting: dict[tuple[str, str], WaitingGangs]
    shares: tuple[QuotaUse, ...]
    gpus: dict[str, GpusByState]
    aside: int = 0


def monitor_snapshot(state: State, now: float) -> MonitorSnapshot:
    """O(buckets + nodes of the tree × its resources)."""
    return MonitorSnapshot(state.revision, now, waiting(state), tuple(_shares(state)), _gpus(state), len(state.aside))


def waiting(state: State) -> dict[tuple[str, str], WaitingGangs]:
    found: dict[tuple[str, str], WaitingGangs] = {}
    for bucket in state.ledger.pending.values():
        _count(found, bucket.waiting[0], len(bucket.waiting))  # the oldest gang of a bucket is its head
    for entry in state.ledger.nominated.values():
        _count(found, entry, 1)
    return dict(sorted(found.items()))


def _count(found: dict[tuple[str, str], WaitingGangs], oldest: Entry, gangs: int) -> None:
    key = (oldest.gang.pool, oldest.gang.priority.value)
    before = found.get(key, WaitingGangs(0, oldest.gang.submitted_at))
    found[key] = WaitingGangs(before.gangs + gangs, min(before.since, oldest.gang.submitted_at))


def _shares(state: State) -> Iterator[QuotaUse]:
    tree = state.ledger.tree
    held, nothing = held_below((*tree.firm.values(), *tree.low.values())), [0] * len(tree.keys)
    for node in tree.declared():
        usage = held.get(node, nothing)
        for index, key in enumerate(tree.keys):
            left = headroom_now(node, index)
            yield QuotaUse(node.name, node.kind.value, key, node.nominal[index], usage[index], left)


def _gpus(state: State) -> dict[str, GpusByState]:
    """The GPUs of declared flavors and of all other flavors that have GPUs."""
    counts = state.ledger.nodes.gpus(REAL)
    with_gpus = {name for name, each in counts.items() if each.held or each.free or each.not_ready}
    return {name: counts.get(name, GpusByState()) for name in sorted(with_gpus.union(state.flavors))}
