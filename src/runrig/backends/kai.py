"""Kubernetes objects for KAI Scheduler (v0.13 and later): queues, a topology, priority classes, pod groups and pods.

Pure: equal blueprints give equal objects, keys in the same order.  Nothing here talks to a cluster, and nothing is placed:
pods carry no node.
"""

import math
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runrig.domain.constraints import Constraint, Outline, outline_of, tree_of
from runrig.domain.gangs import Priority
from runrig.domain.nodes import Flavor
from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.quantities import BYTES, CPU, GPU, STORAGE
from runrig.domain.tokens import expand
from runrig.domain.workflows import GroupSpec, TaskSpec
from runrig.ports import Blueprint, Share

Object = dict[str, Any]
"""One object of Kubernetes, as its YAML says it."""

LONGEST_LABEL = 63
SHARED_LEAF = f"{SUBPOOL_DELIMITER}-shared"
"""Behind a pool's queue: the leaf of its own submissions.  No name of a subpool begins with `-`."""

PRIORITY_CLASSES = {Priority.HIGH: 125, Priority.NORMAL: 100, Priority.LOW: 50}
NEVER = "87600h"
UNLIMITED = -1

_MANAGED = {"app.kubernetes.io/managed-by": "runrig"}
_SUBGROUP_LABEL = "kai.scheduler/subgroup-name"
_QUEUE_LABELS = ("kai.scheduler/queue", "runai/queue")
_RESERVED = ("kai.scheduler/", "runai/", "runrig/", "osmo.namespace")
_IDS = uuid.UUID("3f6c2a52-0f0e-5d53-9a4e-7a8c1e0b6d11")
_RESOURCE_NAMES = {GPU: "nvidia.com/gpu", STORAGE: "ephemeral-storage"}
_LONGEST_POD_PREFIX = 50
_POD_HASH_DIGITS = 12


def render(plan: Blueprint) -> tuple[Object, ...]:
    """What the cluster needs first, then a pod group and its pods for each task group, in the order of the workflow."""
    objects = [*_priority_classes(), *_queues(plan), *_topology(plan)]
    for group in plan.spec.groups:
        objects += _gang(plan, group)
    return tuple(objects)


# ---------------------------------------------------------------- names


def root_queue(namespace: str) -> str:
    return f"osmo-default-{namespace}"


def pool_queue(namespace: str, pool: str) -> str:
    return f"osmo-pool-{namespace}-{pool}"


def leaf_queue(namespace: str, pool: str) -> str:
    """The queue that pod groups name: a subpool's own, else the hidden one below the pool's."""
    queue = pool_queue(namespace, pool)
    return queue if SUBPOOL_DELIMITER in pool else queue + SHARED_LEAF


def topology_name(namespace: str, top_pool: str) -> str:
    return f"{pool_queue(namespace, top_pool)}-topology"


def group_id(pool: str, workflow: str, group: str) -> str:
    """Stable, and unlike all others of the cluster: KAI keeps pod groups of all namespaces by name alone."""
    return str(uuid.uuid5(_IDS, f"{pool}/{workflow}/{group}"))


def pod_name(group: str, pod: str) -> str:
    """*group*: its id.  For people it starts with the name of the pod."""
    digits = uuid.uuid5(_IDS, f"{group}/{pod}").hex[:_POD_HASH_DIGITS]
    return f"{pod.lower().replace('_', '-')[:_LONGEST_POD_PREFIX].rstrip('-')}-{digits}"


# ---------------------------------------------------------------- cluster-wide


def _priority_classes() -> Iterator[Object]:
    for priority, value in PRIORITY_CLASSES.items():
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": _priority_class(priority), "labels": dict(_MANAGED)},
            "value": value,
        }


def _priority_class(priority: Priority) -> str:
    return f"osmo-{priority.value.lower()}"


def _queues(plan: Blueprint) -> Iterator[Object]:
    """From the root to the leaf.  The root forbids KAI to preempt and to reclaim: runrig alone decides who stops."""
    root, top = root_queue(plan.namespace), pool_queue(plan.namespace, plan.top.pool)
    yield _queue(root, Share(root, UNLIMITED, None, 1), {"preemptMinRuntime": NEVER, "reclaimMinRuntime": NEVER})
    yield _queue(top, plan.top, {"parentQueue": root})
    yield _queue(leaf_queue(plan.namespace, plan.leaf.pool), plan.leaf, {"parentQueue": top})


def _queue(name: str, share: Share, more: Mapping[str, str]) -> Object:
    # All nine numbers are written: KAI takes a missing limit for 0.
    limit = UNLIMITED if share.limit is None else share.limit
    unlimited = {"quota": UNLIMITED, "limit": UNLIMITED, "overQuotaWeight": 1}
    gpu = {"quota": share.quota, "limit": limit, "overQuotaWeight": share.weight}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name, "labels": dict(_MANAGED)},
        "spec": {"displayName": share.pool}
        | dict(more)
        | {"resources": {"gpu": gpu, "cpu": dict(unlimited), "memory": dict(unlimited)}},
    }


def _topology(plan: Blueprint) -> Iterator[Object]:
    """Coarse to fine; none for a pool without keys."""
    if plan.pool.topology_keys:
        yield {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": topology_name(plan.namespace, plan.top.pool), "labels": dict(_MANAGED)},
            "spec": {"levels": [{"nodeLabel": each.label} for each in plan.pool.topology_keys]},
        }


# ---------------------------------------------------------------- a gang


def _gang(plan: Blueprint, group: GroupSpec) -> Iterator[Object]:
    outline = outline_of(tree_of(plan.pool.topology_keys, group.tasks))
    id = group_id(plan.pool.name, plan.spec.name, group.name)
    yield _pod_group(plan, group, outline, id)
    for task in group.tasks:
        subgroups: Sequence[str | None] = outline.subgroup_of.get(task.name) or (None,) * task.pods
        for index, subgroup in enumerate(subgroups):
            yield _pod(plan, group, task, index, subgroup, id)


def _pod_group(plan: Blueprint, group: GroupSpec, outline: Outline, id: str) -> Object:
    spec: Object = {
        "queue": leaf_queue(plan.namespace, plan.leaf.pool),
        "priorityClassName": _priority_class(plan.priority),
        "preemptibility": "preemptible" if plan.priority.preemptible else "non-preemptible",
    }
    if outline.pods is not None:
        spec["minMember"] = outline.pods
    spec |= _constraint(plan, outline.constraint)
    if outline.subgroups:
        spec["subGroups"] = [
            {"name": each.name}
            | ({} if each.parent is None else {"parent": each.parent})
            | ({} if each.pods is None else {"minMember": each.pods})
            | _constraint(plan, each.constraint)
            for each in outline.subgroups
        ]
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": id, "namespace": plan.namespace, "labels": _labels(plan, group)},
        "spec": spec,
    }


def _constraint(plan: Blueprint, constraint: Constraint | None) -> Object:
    if constraint is None:
        return {}
    said: Object = {"topology": topology_name(plan.namespace, plan.top.pool)}
    if constraint.required is not None:
        said["requiredTopologyLevel"] = constraint.required
    if constraint.preferred is not None:
        said["preferredTopologyLevel"] = constraint.preferred
    return {"topologyConstraint": said}


def _labels(plan: Blueprint, group: GroupSpec, more: Mapping[str, str] | None = None) -> Object:
    """The workflow's own, over them ours.  What KAI or another controller would act on is never taken from a user."""
    labels = {key: value for key, value in plan.spec.labels.items() if not key.startswith(_RESERVED)}
    labels |= _MANAGED
    queue = leaf_queue(plan.namespace, plan.leaf.pool)
    if len(queue) <= LONGEST_LABEL:
        labels |= dict.fromkeys(_QUEUE_LABELS, queue)
    labels |= {"runrig/pool": plan.pool.name, "runrig/workflow": plan.spec.name, "runrig/group": group.name}
    return {key: value[:LONGEST_LABEL].rstrip("-_") for key, value in (labels | dict(more or {})).items()}


# ---------------------------------------------------------------- pods


def _pod(plan: Blueprint, group: GroupSpec, task: TaskSpec, index: int, subgroup: str | None, id: str) -> Object:
    name = task.pod_name(index)
    more = {"runrig/task": name} | ({} if subgroup is None else {_SUBGROUP_LABEL: subgroup})
    flavor = _flavor(plan, task)
    spec: Object = {
        "schedulerName": "kai-scheduler",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": math.ceil(plan.pool.grace_s),
    }
    if "hostNetwork" in task.allow:
        spec["hostNetwork"] = True
    if flavor is not None and flavor.node_labels:
        spec["nodeSelector"] = dict(sorted(flavor.node_labels.items()))
    if flavor is not None and flavor.taints:
        spec["tolerations"] = [
            {"key": each.key, "operator": "Equal", "value": each.value, "effect": each.effect} for each in flavor.taints
        ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(id, name),
            "namespace": plan.namespace,
            "annotations": {"pod-group-name": id},
            "labels": _labels(plan, group, more),
        },
        "spec": spec | {"containers": [_container(plan, task, index)]},
    }


def _flavor(plan: Blueprint, task: TaskSpec) -> Flavor | None:
    """None: which of several it will be is not decided before it is placed."""
    allowed = plan.pool.flavors or tuple(plan.flavors)
    name = task.platform or plan.pool.default_platform or (allowed[0] if len(allowed) == 1 else None)
    return None if name is None else plan.flavors[name]


def _container(plan: Blueprint, task: TaskSpec, index: int) -> Object:
    values = {"index": str(index), "count": str(task.pods)}
    environment = {
        **{key: _literal(value, values) for key, value in task.environment.items()},
        "RUNRIG_TASK": task.pod_name(index),
        "RUNRIG_INDEX": str(index),
        "RUNRIG_COUNT": str(task.pods),
        "RUNRIG_MAX_COUNT": str(task.pods),
    }
    container: Object = {
        "name": "main",
        "image": task.image,
        "command": [_literal(word, values) for word in task.command],
    }
    if task.args:
        container["args"] = [_literal(word, values) for word in task.args]
    container["env"] = [{"name": key, "value": value} for key, value in environment.items()]
    if task.requests:
        names = {**_RESOURCE_NAMES, **plan.resource_names}
        limits = {names.get(resource, resource): _quantity(resource, amount) for resource, amount in task.requests}
        container["resources"] = {"limits": limits}
    if "privileged" in task.allow:
        container["securityContext"] = {"privileged": True}
    return container


_EXPANDED = re.compile(r"\$(?=[$(])")


def _literal(text: str, values: Mapping[str, str]) -> str:
    """With what Kubernetes would make of `$(NAME)` and `$$` kept from it: here they mean what the program makes of them."""
    return _EXPANDED.sub("$$", expand(text, values))


def _quantity(resource: str, amount: int) -> int | str:
    """*amount* exactly, in the shortest form."""
    if resource == CPU:
        return amount // 1000 if amount % 1000 == 0 else f"{amount}m"
    if resource in BYTES:
        for power, unit in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
            if amount and amount % 1024**power == 0:
                return f"{amount // 1024**power}{unit}"
    return amount
