"""Completes drafts to workloads, once queues, priority classes and the time of the files are known."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runrig.kueue.declared import ClusterQueue, LabelSelector, StopPolicy, Workload, WorkloadPodSet
from runrig.kueue.read.drafts import POD_CLASS, WORKLOAD_CLASS, ClassRef, Draft
from runrig.kueue.read.kinds import NAMESPACE_LABEL, PriorityClass
from runrig.kueue.read.queues import LocalQueue

DEFAULT_CLASS = "default"
_BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


@dataclass(slots=True)
class Names:
    """The objects that drafts refer to. *locals*: by namespace/name. *latest*: the latest time in the files; None if
    there is none.

    *ignores_undeclared*: requests for resources that a queue does not cover are ignored.
    """

    queues: Mapping[str, ClusterQueue] = field(default_factory=dict)
    locals: Mapping[str, LocalQueue] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    workload_classes: dict[str, PriorityClass] = field(default_factory=dict)
    pod_classes: dict[str, PriorityClass] = field(default_factory=dict)
    latest: float | None = None
    ignores_undeclared: bool = False

    @property
    def now(self) -> float:
        return self.latest or 0.0


def join(drafts: Sequence[Draft], names: Names) -> tuple[Workload, ...]:
    undated = _undated(names)
    # Workloads with quota were submitted before pending ones.
    in_order = sorted((draft for draft in drafts if draft.created_at is None), key=lambda draft: not draft.reservation)
    created = {draft.name: next(undated) for draft in in_order}
    return tuple(_workload(draft, names, created.get(draft.name, draft.created_at or 0.0)) for draft in drafts)


def _undated(names: Names) -> Iterator[float]:
    """Yields creation times for objects without one: consecutive, and later than all times in the files."""
    time = names.now if names.latest is None else math.nextafter(names.now, math.inf)
    while True:
        yield time
        time = math.nextafter(time, math.inf)


def _workload(draft: Draft, names: Names, created: float) -> Workload:
    queue, stop, problem = _queue(draft, names)
    held = draft.reservation
    return Workload(
        name=draft.name,
        queue=held.queue if held else queue,
        pod_sets=_declared(draft.pod_sets, names.queues.get(queue)) if names.ignores_undeclared else draft.pod_sets,
        priority=_priority(draft, names),
        created_at=created,
        queued_at=created if draft.queued_at is None else min(draft.queued_at, names.now),
        uid=draft.uid,
        namespace=draft.namespace,
        granted=held.granted if held else None,
        preempting_since=draft.preempting_since,
        reserved_at=(names.now if held.reserved_at is None else held.reserved_at) if held else 0.0,
        admitted=held.admitted if held else True,
        evicted=held.evicted if held else False,
        checks_open=draft.checks_open,
        checks_ready=draft.checks_ready,
        held=_held(draft, names.now),
        gated=draft.gated,
        stop=stop,
        active=draft.active,
        problem=draft.problem or problem,
        boost=draft.boost,
    )


def _held(draft: Draft, now: float) -> str:
    if draft.held or draft.not_before is None or draft.not_before <= now:
        return draft.held
    return f"it was evicted and can be requeued in {draft.not_before - now:,.0f} s"


def _declared(pod_sets: tuple[WorkloadPodSet, ...], queue: ClusterQueue | None) -> tuple[WorkloadPodSet, ...]:
    """*pod_sets* with only the requests that *queue* covers."""
    covered = {resource for group in queue.groups for resource in group.resources} if queue else set()
    return tuple(
        replace(each, requests=tuple((name, amount) for name, amount in each.requests if name in covered))
        for each in pod_sets
    )


def _queue(draft: Draft, names: Names) -> tuple[str, StopPolicy, str]:
    """(the cluster queue, the stop policy of the local queue, why the queue cannot be resolved)."""
    held = draft.reservation
    local = names.locals.get(f"{draft.namespace}/{draft.local_queue}")
    if held is not None and held.queue not in names.queues:
        held.at.warn(f"ClusterQueue {held.queue!r} is not in this file: its quota is ignored")
        return "", local.stop if local else StopPolicy.NONE, f"unknown ClusterQueue {held.queue!r}"
    if local is None:
        problem = (
            f"unknown LocalQueue {draft.namespace}/{draft.local_queue}"
            if draft.local_queue
            else "it does not name a queue"
        )
        effect = "it cannot be requeued" if held else "it is never considered"
        draft.at.warn(f"{problem}: {effect}")
        return "", StopPolicy.NONE, problem
    queue = names.queues.get(local.cluster_queue)
    if queue is None:
        problem = f"unknown ClusterQueue {local.cluster_queue!r}"
        draft.at.warn(f"{problem} in this file, the target of its LocalQueue")
        return local.cluster_queue, local.stop, problem
    if held is not None and held.queue != queue.name:
        held.at.warn(f"it has quota of {held.queue}, but its LocalQueue now leads to {queue.name}: it keeps that quota")
    _check_namespace(draft, queue.namespaces, names)
    return queue.name, local.stop, ""


def _check_namespace(draft: Draft, selector: LabelSelector | None, names: Names) -> None:
    if selector is not None and selector != LabelSelector() and draft.namespace not in names.namespaces:
        draft.at.warn(
            f"the namespace {draft.namespace} is not in this file: its only known label is {NAMESPACE_LABEL}, "
            "but its queue selects by labels"
        )


def _priority(draft: Draft, names: Names) -> int:
    """The priority that it sets itself, otherwise that of its first class, otherwise the default."""
    if draft.priority is not None:
        return draft.priority
    default = names.workload_classes.get(DEFAULT_CLASS)
    if draft.defaulted and default is not None:
        return default.value
    if draft.classes:
        return _class_value(draft.classes[0], names)
    everywhere = [found.value for found in names.pod_classes.values() if found.everywhere]
    return max(everywhere, default=0) if draft.defaulted else 0


def _class_value(ref: ClassRef, names: Names) -> int:
    classes = names.workload_classes if ref.kind == WORKLOAD_CLASS else names.pod_classes
    found = classes.get(ref.name)
    if found is not None:
        return found.value
    if ref.kind == POD_CLASS and ref.name in _BUILT_IN:
        return _BUILT_IN[ref.name]
    ref.at.warn(f"{ref.kind} {ref.name!r} is not in this file: the priority is 0")
    return 0
