"""Simulates imported queues: workloads are submitted and finish, cycles admit and preempt them (rules Q1-Q5, A1, R5).

Deterministic; the caller passes the time.
"""

from collections.abc import Hashable, Iterable
from dataclasses import replace

from runrig.domain.balances import Balance, Share
from runrig.domain.kueue import Inactive, Pending, Settings
from runrig.domain.quantities import FlavorResource
from runrig.engine.quota.quota_node import Request
from runrig.kueue.decisions import CycleReport, PendingReason
from runrig.kueue.declared import Granted, Placed, StopPolicy, System, Workload, WorkloadPodSet
from runrig.kueue.engine.at_once import ready
from runrig.kueue.engine.cluster_queue import QueueState
from runrig.kueue.engine.cycle import Cycle
from runrig.kueue.engine.explain import reasons, why_aside
from runrig.kueue.engine.node_matching import selects
from runrig.kueue.engine.node_tree import held_by
from runrig.kueue.engine.queue_tree import QUEUE, Listed, QueueTree
from runrig.kueue.engine.scheduler_context import SchedulerContext
from runrig.kueue.engine.workload import Likeness, WorkloadShape, WorkloadState, shape_of


class Simulator:
    """A mutable simulation. Call `cycle` and `carry_out` in turn to advance it."""

    def __init__(self, system: System, settings: Settings = Settings()) -> None:  # noqa: B008  (a frozen value)
        tree = QueueTree(system.cohorts, system.queues, system.workloads)
        specs = sorted(system.queues, key=lambda spec: spec.name)
        self._flavors = {flavor.name: flavor for flavor in system.flavors}
        in_line: dict[str, QueueState] = {}
        queues = {spec.name: QueueState(spec, tree.queues[spec.name], in_line, self._flavors) for spec in specs}
        tree.leave_out(name for name, queue in queues.items() if not queue.open)
        self._tree = tree
        self._context = SchedulerContext(tree, queues, in_line, settings, system)
        self._shapes: dict[tuple[str, tuple[WorkloadPodSet, ...]], WorkloadShape] = {}
        self._shared: dict[Likeness, WorkloadShape] = {}
        self._holdings: dict[tuple[object, ...], tuple[Request, frozenset[int]]] = {}
        self._workloads: dict[str, WorkloadState] = {}
        self._aside: dict[str, Workload] = {}
        self._number = 0
        for workload in sorted(system.workloads, key=lambda each: (each.preempting_since or 0.0, each.name)):
            self.submit(workload)

    # ------------------------------------------------------------ workloads arrive and finish

    def submit(self, spec: Workload) -> None:
        """Adds a workload, which uses quota immediately if it was granted some; otherwise it is pending.

        A workload that waits for its targets becomes the first of its queue, in place of an earlier one.
        """
        if spec.boost and self._context.gates["PriorityBoost"]:
            spec = replace(spec, priority=spec.priority + spec.boost)
        if spec.gated and not self._context.gates["AdmissionGatedBy"]:
            spec = replace(spec, held="")
        queue = self._context.queues.get(spec.queue)
        if queue is None or (spec.granted is None and _held_back(spec)):
            self._aside[spec.name] = spec
            return
        workload = self._workloads[spec.name] = WorkloadState(
            spec, queue.spec.name, queue.leaf, self._shape(spec, queue)
        )
        workload.barred = self._barred(spec, queue)
        if spec.granted is None:
            if spec.preempting_since is not None:
                queue.preempts(workload, always=not self._context.as_peer)
            queue.arrive(workload)
            return
        granted = tuple(_after_reclaim(each, spec, self._context.gates["ReclaimablePods"]) for each in spec.granted)
        reservations = held_by(spec, granted, self._context.nodes.trees)
        request, indices = self._holding(granted)
        workload.holds(request, granted, reservations, indices)
        workload.reserved_at = spec.reserved_at
        workload.evicted = spec.evicted or _has_to_stop(spec, queue)
        queue.hold(workload)
        self._context.stopping += workload.evicted
        self._context.hold(workload.leaf, workload.request, workload.reservations)

    def _barred(self, spec: Workload, queue: QueueState) -> tuple[PendingReason, bool] | None:
        """The value of `WorkloadState.barred`: the queue is inactive, the spec is invalid, or the namespace is not
        accepted.
        """
        if not queue.leaf.active:
            return PendingReason.SUSPENDED, not queue.strict
        if spec.problem:
            return PendingReason.MISCONFIGURED, not queue.strict
        if not selects(queue.spec.namespaces, self._context.namespaces.get(spec.namespace, {})):
            return PendingReason.MISCONFIGURED, True
        return None

    def _shape(self, workload: Workload, queue: QueueState) -> WorkloadShape:
        pod_sets = workload.pod_sets
        if not self._context.gates["ReclaimablePods"]:
            pod_sets = tuple(replace(each, reclaimable=0) for each in pod_sets)
        key = (workload.queue, pod_sets)
        known = self._shapes.get(key)
        if known is None:
            made = shape_of(queue.spec, pod_sets, self._flavors, self._tree.index_of, self._context.nodes)
            made.ready = tuple(ready(made, queue.potential))
            known = self._shapes[key] = made if made.placed else self._shared.setdefault(made.likeness, made)
        return known

    def _holding(self, granted: Iterable[Granted]) -> tuple[Request, frozenset[int]]:
        """(the request of *granted*, all indices in it, zeros too). Workloads with equal grants share the result."""
        key = tuple([(each.flavors, each.usage) for each in granted])
        known = self._holdings.get(key)
        if known is None:
            known = self._holdings[key] = self._request(granted), self._indices(granted)
        return known

    def _request(self, granted: Iterable[Granted]) -> Request:
        total: dict[int, int] = {}
        for each in granted:
            flavors = dict(each.flavors)
            for resource, amount in each.usage:
                if amount and resource in flavors:
                    index = self._tree.index_of[FlavorResource(flavors[resource], resource)]
                    total[index] = total.get(index, 0) + amount
        return tuple(sorted(total.items()))

    def _indices(self, granted: Iterable[Granted]) -> frozenset[int]:
        keys = (FlavorResource(flavor, resource) for each in granted for resource, flavor in each.flavors)
        return frozenset(self._tree.index_of[key] for key in keys if key in self._tree.index_of)

    def finish(self, name: str) -> None:
        """Ends the workload *name*: frees its quota and wakes parked workloads of its tree."""
        workload = self._workloads.pop(name)
        frees_nodes = bool(workload.reservations)
        self._release(workload)
        self._context.evicted_by.forget(name)
        self._wake_for([workload], frees_nodes=frees_nodes)

    def carry_out(self) -> tuple[str, ...]:
        """Stops all workloads that were asked to stop and returns their names.

        They are requeued, and parked workloads of their trees wake.
        """
        gone = [
            workload
            for queue in self._context.queues.values()
            for alike in queue.leaving.values()
            for _, workload in alike
            if not (self._context.as_peer and workload.spec.evicted)
        ]
        frees_nodes = any(workload.reservations for workload in gone)
        for workload in gone:
            self._release(workload)
            if _held_back(workload.spec):
                self._aside[workload.spec.name] = workload.spec
                del self._workloads[workload.spec.name]
            else:
                self._context.queues[workload.queue].add(workload)
        self._wake_for(gone, frees_nodes=frees_nodes)
        return tuple(sorted(workload.spec.name for workload in gone))

    def wake(self) -> None:
        """Returns all parked workloads to the line."""
        for queue in self._context.queues.values():
            queue.wake()

    def _release(self, workload: WorkloadState) -> None:
        self._context.stopping -= workload.evicted
        self._context.queues[workload.queue].let_go(workload)
        self._context.give_back(workload.leaf, workload.request, workload.reservations)
        workload.holds((), ())

    def _wake_for(self, gone: Iterable[WorkloadState], *, frees_nodes: bool) -> None:
        """Wakes parked workloads in the trees of *gone*; in every tree if nodes became free, because trees share nodes."""
        if frees_nodes:
            self.wake()
            return
        for root in dict.fromkeys(workload.leaf.path[-1] for workload in gone):
            for queue in self._context.queues_in(root):
                queue.wake()

    # ------------------------------------------------------------ deciding

    def decide(self, now: float) -> Cycle:
        """Runs one cycle without listing pending workloads, so that only scheduling costs time."""
        self._number += 1
        cycle = Cycle(self._context, self._number, now)
        cycle.run()
        return cycle

    def cycle(self, now: float) -> CycleReport:
        """Runs one cycle. Its report lists pending workloads by queue and position."""
        done = self.decide(now)
        return CycleReport(
            tuple(done.admitted),
            tuple(done.preempted),
            self._waiting(done.looked),
            dict(sorted(done.skipped.items())),
        )

    def queued(self) -> Hashable:
        """The queue state that determines the next cycle: first workloads, number of parked workloads, progress of
        flavor scans.

        If it and `held` are equal to an earlier state and no workload was added or ended, cycles repeat. O(pending
        workloads).
        """
        firsts, parked, scans = [], 0, []
        for name, queue in self._context.queues.items():
            if queue.first is not None:
                firsts.append((name, queue.first.spec.name, queue.first.held is not None))
            for workload, equivalents in queue.waiting():
                parked += equivalents is not None
                if any(at >= 0 for at in workload.tried):
                    fresh = workload.tried_in[0] == queue.generation or workload.tried_in[1] == self._number
                    scans.append((workload.spec.name, workload.tried, fresh))
        return tuple(firsts), parked, tuple(sorted(scans))

    def held(self) -> Hashable:
        """The usage of all holders of quota, in the order in which they got it. O(holders)."""
        holders = [
            (workload.reserved_at, workload.spec.name, workload.request, workload.evicted)
            for workload in self._workloads.values()
            if workload.granted
        ]
        ranks = {at: rank for rank, at in enumerate(sorted({at for at, *_ in holders}))}
        return tuple((ranks[at], *rest) for at, *rest in sorted(holders, key=lambda each: each[:2]))

    def _waiting(self, looked: set[str]) -> tuple[Pending, ...]:
        waiting = [
            Pending(
                workload.spec.name,
                workload.queue,
                considered=workload.spec.name in looked,
                parked=equivalents is not None,
                reason=workload.pending_reason
                if workload.spec.name in looked
                else equivalents.pending_reason
                if equivalents is not None
                else None,
                reasons=reasons(self._context, workload),
            )
            for queue in self._context.queues.values()
            for workload, equivalents in sorted(queue.waiting(), key=lambda each: each[0].key)
        ]
        aside = [
            Pending(each.name, each.queue, considered=False, parked=False, reason=None, reasons=(why_aside(each),))
            for _, each in sorted(self._aside.items())
        ]
        return (*waiting, *aside)

    # ------------------------------------------------------------ reading

    def tree(self) -> Iterable[Listed]:
        """The cohorts, then the queues, each sorted by name."""
        return self._tree.listed()

    def quotas(self) -> dict[str, dict[FlavorResource, Balance]]:
        """Node → the numbers of rules Q3 and Q4 for current usage, which includes targets that have not stopped yet."""
        return self._tree.balances()

    def shares(self) -> dict[str, Share]:
        """The dominant share of every queue and cohort, by current usage."""
        nodes = {self._tree.label(node): node for node in self._tree.nodes() if node.active}
        return {label: self._context.shares.shown(nodes[label]) for label in sorted(nodes)}

    def inactive(self) -> tuple[Inactive, ...]:
        """Queues and cohorts in which nothing new starts."""
        closed = [
            Inactive(queue.spec.name, QUEUE, queue.closed)
            for queue in self._context.queues.values()
            if queue.leaf.active and not queue.open
        ]
        return tuple(sorted((*self._tree.inactive(), *closed), key=lambda each: (each.name, each.kind)))


def _held_back(workload: Workload) -> bool:
    """Whether the workload is not even queued: its local queue is stopped, or its owner or its status put it on hold."""
    return workload.stop is not StopPolicy.NONE or not workload.active or bool(workload.held)


def _has_to_stop(workload: Workload, queue: QueueState) -> bool:
    """Whether its queue or local queue is drained or was stopped before admission, or its owner deactivated it."""
    stops = {workload.stop, queue.spec.stop}
    if StopPolicy.HOLD_AND_DRAIN in stops or not workload.active:
        return True
    return StopPolicy.HOLD in stops and not workload.admitted


def _after_reclaim(granted: Granted, workload: Workload, reclaimable: bool) -> Granted:
    """*granted* without the pods that no longer need quota."""
    pod_set = next((each for each in workload.pod_sets if each.name == granted.pod_set), None)
    if not reclaimable or pod_set is None or not granted.count:
        return granted
    count = min(granted.count, pod_set.count - pod_set.reclaimable)
    usage = tuple((resource, amount // granted.count * count) for resource, amount in granted.usage)
    if count == granted.count:
        return granted
    return Granted(granted.pod_set, count, granted.flavors, usage, _first(granted.placement, count))


def _first(placement: Iterable[Placed], count: int) -> tuple[Placed, ...]:
    """The part of *placement* for the first *count* pods."""
    kept = []
    for each in placement:
        if count > 0:
            kept.append(Placed(each.domain, min(each.count, count)))
        count -= each.count
    return tuple(kept)
