"""Workloads as a cycle sees them: what a shape requests from each flavor, and what a workload uses or waits for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from runrig.domain.quantities import PODS, FlavorResource
from runrig.domain.reasons import Reason
from runrig.engine.placement.partial import least_counts
from runrig.engine.quota.quota_node import QuotaLeaf, Request
from runrig.kueue.decisions import PendingReason, PreemptionReason
from runrig.kueue.declared import (
    ClusterQueue,
    Granted,
    NodeChoice,
    ResourceFlavor,
    ResourceGroup,
    TopologyRequest,
    Workload,
    WorkloadPodSet,
)
from runrig.kueue.engine.node_matching import mismatch
from runrig.kueue.engine.node_tree import Reservation
from runrig.kueue.engine.workload_placement import NOWHERE, WorkloadPlacement, WorkloadPlacer


class FlavorOption(NamedTuple):
    """A flavor that a group request may use. *misfit*: why its nodes do not accept the pods; None if they do.

    *indices*: one per resource of the request; -1 if the queue has no quota for that resource in this flavor.
    """

    flavor: str
    misfit: str | None
    indices: tuple[int, ...]


class GroupRequest(NamedTuple):
    """A request of the pod sets *members* for one flavor of a group. *per_pod*: amounts by member, then by resource."""

    members: tuple[int, ...]
    resources: tuple[str, ...]
    per_pod: tuple[tuple[int, ...], ...]
    options: tuple[FlavorOption, ...]

    def amounts(self, counts: Sequence[int]) -> list[int]:
        """The amount of each resource for *counts* pods per pod set."""
        if len(self.members) == 1:
            count = counts[self.members[0]]
            return [amount * count for amount in self.per_pod[0]]
        return [
            sum(amounts[at] * counts[member] for member, amounts in zip(self.members, self.per_pod, strict=True))
            for at in range(len(self.resources))
        ]


@dataclass(frozen=True, slots=True)
class CountRange:
    """The accepted numbers of pods of a pod set. *min_count* None: exactly *count*."""

    count: int
    min_count: int | None


Likeness = tuple[tuple[WorkloadPodSet, ...], tuple[GroupRequest, ...], tuple[str, ...], tuple[bool, ...]]


class WorkloadShape:
    """The properties that workloads of a queue with equal pod sets share, so that they get the same decision.

    Queues share a shape if it is equal for them, unless pods need nodes, because *short* belongs to one queue.

    *uncovered*: requested resources that no resource group covers. *scanned*: number of group requests before the first
    pod set with such a resource.
    *counts*: pods that need quota, by pod set. *whole*: their amounts, by group request and resource. *least*: the
    minimum counts.
    *unplaceable*: pod sets with a topology request but no resources, so that no flavor is assigned to them.
    *topology*: the topology request of each pod set. *placed*: there is at least one. *short*: what nodes lacked in the
    last search.
    *grants*: a cache, by counts and flavors. *ready*: see `at_once.ready`. *nothing*: the assignment if all flavors
    lack quota.
    """

    def __init__(
        self,
        pod_sets: tuple[WorkloadPodSet, ...],
        group_requests: tuple[GroupRequest, ...],
        uncovered: tuple[str, ...],
        scanned: int,
        topology: tuple[TopologyRequest | None, ...],
        unplaceable: tuple[str, ...] = (),
    ) -> None:
        self.pod_sets = pod_sets
        self.group_requests = group_requests
        self.scanned = scanned
        self.uncovered = uncovered
        self.unplaceable = unplaceable
        self.counts = tuple(each.count - each.reclaimable for each in pod_sets)
        self.ranges = tuple(
            CountRange(count, None if each.min_count is None else min(each.min_count, count))
            for each, count in zip(pod_sets, self.counts, strict=True)
        )
        self.grants: dict[tuple[tuple[int, ...], tuple[str | None, ...]], tuple[Granted, ...]] = {}
        self.whole = tuple(group_request.amounts(self.counts) for group_request in group_requests)
        self.variable = any(each.min_count not in (None, each.count) for each in self.ranges)
        self.topology = topology
        self.placed = any(each is not None for each in topology)
        self.short: tuple[Reason, ...] = ()
        self.least = least_counts(self.ranges, self.fills_slices)
        self.ready: tuple[tuple[Request, FlavorAssignment] | None, ...] = ()
        waiting = PendingReason.WAITING_FOR_QUOTA
        self.nothing = FlavorAssignment(self.counts, NOFIT, tried=(-1,), pending_reason=waiting)

    @property
    def likeness(self) -> Likeness:
        """Equal for shapes that differ at most in *short*."""
        return self.pod_sets, self.group_requests, self.uncovered, tuple(each is None for each in self.ready)

    def fills_slices(self, counts: Sequence[int]) -> bool:
        """False if *counts* leaves a slice of some pod set incomplete, so that it cannot be placed.

        A single pod in a group may be the leader, which has no slices.
        """
        return not any(
            request is not None
            and any(layer.size and count % layer.size for layer in request.slices[:1])
            and not (count == 1 and pod_set.group is not None)
            for pod_set, request, count in zip(self.pod_sets, self.topology, counts, strict=True)
        )

    def members(
        self, group_request: GroupRequest, counts: Sequence[int]
    ) -> list[tuple[int, WorkloadPodSet, TopologyRequest | None, int]]:
        """The pod sets of *group_request* in the form that `WorkloadPlacer.place` expects."""
        return [(at, self.pod_sets[at], self.topology[at], counts[at]) for at in group_request.members]


def shape_of(
    queue: ClusterQueue,
    pod_sets: tuple[WorkloadPodSet, ...],
    flavors: Mapping[str, ResourceFlavor],
    index_of: Mapping[FlavorResource, int],
    nodes: WorkloadPlacer,
) -> WorkloadShape:
    """The shape of *pod_sets* in *queue*: their requests by resource group and flavor. O(pod sets × groups × flavors)."""
    topology = nodes.requests(queue, pod_sets)
    covered = {resource: group for group in queue.groups for resource in group.resources}
    group_requests: list[GroupRequest] = []
    uncovered: set[str] = set()
    unplaceable: list[str] = []
    scanned = 0
    for members in _together(pod_sets):
        asked = {resource: amount for member in members for resource, amount in pod_sets[member].requests}
        uncovered |= {resource for resource, amount in asked.items() if amount and resource not in covered}
        if PODS in covered:
            asked[PODS] = 1
        wanted = [
            (group, resources)
            for group in queue.groups
            if (resources := tuple(each for each in sorted(group.resources) if each in asked))
        ]
        if not wanted:
            unplaceable += [pod_sets[member].name for member in members if topology[member] is not None]
        for group, resources in wanted:
            group_request = _group_request(
                group, members, resources, [pod_sets[member] for member in members], flavors, index_of
            )
            group_requests.append(
                _on_nodes(group_request, nodes, [topology[member] for member in members], alone=len(wanted) == 1)
            )
        if not uncovered:
            scanned = len(group_requests)
    return WorkloadShape(
        pod_sets, tuple(group_requests), tuple(sorted(uncovered)), scanned, topology, tuple(unplaceable)
    )


def _on_nodes(
    group_request: GroupRequest, nodes: WorkloadPlacer, requests: Sequence[TopologyRequest | None], *, alone: bool
) -> GroupRequest:
    """*group_request* with a misfit in the options that its topology request rules out."""
    options = tuple(
        option._replace(misfit=option.misfit or nodes.misfit(option.flavor, requests, alone=alone))
        for option in group_request.options
    )
    return group_request._replace(options=options)


def _together(pod_sets: Sequence[WorkloadPodSet]) -> Iterator[tuple[int, ...]]:
    """Groups of indices of pod sets that must get the same flavors, ordered by their first member."""
    seen: dict[str, list[int]] = {}
    order: list[list[int]] = []
    for at, each in enumerate(pod_sets):
        if each.group is not None and each.group in seen:
            seen[each.group].append(at)
            continue
        order.append([at])
        if each.group is not None:
            seen[each.group] = order[-1]
    return (tuple(each) for each in order)


def _group_request(
    group: ResourceGroup,
    members: tuple[int, ...],
    resources: tuple[str, ...],
    pod_sets: Sequence[WorkloadPodSet],
    flavors: Mapping[str, ResourceFlavor],
    index_of: Mapping[FlavorResource, int],
) -> GroupRequest:
    per_pod = tuple(
        tuple(1 if resource == PODS else dict(each.requests).get(resource, 0) for resource in resources)
        for each in pod_sets
    )
    options = tuple(
        FlavorOption(
            name,
            _misfit(flavors.get(name), [each.nodes for each in pod_sets]),
            tuple(index_of.get(FlavorResource(name, resource), -1) for resource in resources),
        )
        for name in group.flavors
    )
    return GroupRequest(members, resources, per_pod, options)


def _misfit(flavor: ResourceFlavor | None, choices: Sequence[NodeChoice]) -> str | None:
    """Why *flavor* does not accept pods with *choices*; None if it does. An undefined flavor (None) has no labels or
    taints.
    """
    if flavor is None:
        return None
    return next((why for each in choices if (why := mismatch(flavor, each)) is not None), None)


class WorkloadTarget(NamedTuple):
    """A workload that must stop, and the rule that allows it."""

    workload: "WorkloadState"
    reason: PreemptionReason


NOFIT, NO_CANDIDATES, PREEMPT, RECLAIM, FIT = range(5)
"""Result of an assignment, worst first."""


@dataclass
class FlavorAssignment:
    """Flavors for every pod set of a workload. A FIT assignment without a placement never changes, so workloads can
    share it.

    *mode*: the worst of its group requests. *level*: its borrowing level; 0: it does not borrow.
    *chosen*: the option of each group request; None if none was found. *contested*: indices that need preemption.
    *tried*: the option of each group request after which the scan continues; -1: from the first. *pending_reason*: why
    it is not FIT.
    *placement*: the nodes of its pods; without FIT and targets, the nodes it would get if all were empty. *short*: what
    nodes lack.
    """

    counts: tuple[int, ...]
    mode: int = FIT
    level: int = 0
    chosen: list[FlavorOption | None] = field(default_factory=list)
    request: Request = ()
    contested: frozenset[int] = frozenset()
    tried: tuple[int, ...] = ()
    pending_reason: PendingReason | None = None
    placement: WorkloadPlacement = NOWHERE
    short: tuple[Reason, ...] = ()

    @cached_property
    def indices(self) -> frozenset[int]:
        """Indices of all requested (flavor, resource) pairs, including amounts of 0. Read it only after all options are
        chosen.
        """
        chosen = (option.indices for option in self.chosen if option is not None)
        return frozenset(index for indices in chosen for index in indices if index >= 0)

    @cached_property
    def _grant(self) -> tuple[tuple[int, ...], tuple[str | None, ...]]:
        """The cache key of `granted`."""
        return self.counts, tuple(None if option is None else option.flavor for option in self.chosen)

    def granted(self, shape: WorkloadShape) -> tuple[Granted, ...]:
        """The grant of each pod set, in the form that is recorded."""
        known = shape.grants.get(self._grant)
        if known is None:
            known = shape.grants[self._grant] = self._granted(shape)
        if self.placement.of:
            of = self.placement.of
            return tuple(replace(each, placement=of.get(at, ())) for at, each in enumerate(known))
        return known

    def _granted(self, shape: WorkloadShape) -> tuple[Granted, ...]:
        flavors: list[dict[str, str]] = [{} for _ in shape.pod_sets]
        usage: list[dict[str, int]] = [{} for _ in shape.pod_sets]
        for group_request, option in zip(shape.group_requests, self.chosen, strict=True):
            if option is None:
                continue
            for member, amounts in zip(group_request.members, group_request.per_pod, strict=True):
                asked = {resource for resource, _ in shape.pod_sets[member].requests} | {PODS}
                for resource, amount in zip(group_request.resources, amounts, strict=True):
                    if resource in asked:
                        flavors[member][resource] = option.flavor
                        usage[member][resource] = amount * self.counts[member]
        return tuple(
            Granted(each.name, self.counts[at], tuple(sorted(flavors[at].items())), tuple(sorted(usage[at].items())))
            for at, each in enumerate(shape.pod_sets)
        )


QueueKey = tuple[int, float, str, str]
"""Queue position: negated priority, time of queueing, uid, name; the lowest is first."""

TargetKey = tuple[int, float, str, str]
"""Position among candidates for preemption: priority, negated time when it got quota, uid, name; the lowest is first.
"""


@dataclass(slots=True, eq=False)
class WorkloadState:
    """A workload in the engine.

    *request*: its usage in the quota tree, empty while it is pending. *granted*: the same, as recorded.
    *indices*: those of all grants, including amounts of 0. *reservations*: its usage of nodes.
    *barred*: why its queue can never start it, and whether it is then parked; None if the queue can.
    *target_key*: set by its queue while it uses quota.
    *tried*: the progress of its last scan. *tried_in*: the generation of its queue and the cycle at that time.
    *held*: what is reserved for a preemptor while its targets stop (rule R5). *waits_for*: the names of those targets.
    """

    spec: Workload
    queue: str
    leaf: QuotaLeaf
    shape: WorkloadShape
    key: QueueKey = field(init=False)
    barred: tuple[PendingReason, bool] | None = None
    request: Request = ()
    indices: frozenset[int] = frozenset()
    granted: tuple[Granted, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    reserved_at: float = 0.0
    target_key: TargetKey = (0, 0.0, "", "")
    evicted: bool = False
    tried: tuple[int, ...] = ()
    tried_in: tuple[int, int] = (-1, -1)
    held: FlavorAssignment | None = None
    waits_for: tuple[str, ...] = ()
    pending_reason: PendingReason | None = None

    def __post_init__(self) -> None:
        spec = self.spec
        self.key = -spec.priority, spec.queued_at, spec.uid, spec.name

    def holds(
        self,
        request: Request,
        granted: tuple[Granted, ...],
        reservations: tuple[Reservation, ...] = (),
        indices: frozenset[int] = frozenset(),
    ) -> None:
        """Records its usage from now on."""
        self.request, self.granted, self.reservations, self.indices = request, granted, reservations, indices
