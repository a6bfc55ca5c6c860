"""Kubernetes objects for KAI Scheduler (v0.13 and later): queues, topologies, priority classes, and a gang's objects.

Pure: equal input gives equal objects with keys in the same order. Each function yields an object after those it depends
on.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from runrig.backends.kubernetes import kinds, names
from runrig.backends.kubernetes.code import ARCHIVE
from runrig.backends.kubernetes.names import MANAGED, Object
from runrig.backends.kubernetes.pods import WHOLE, GangPods, Settings
from runrig.backends.kubernetes.registries import auth_of, docker_config
from runrig.domain.errors import InvalidInput, NotFound, RunrigError
from runrig.domain.gangs import Priority
from runrig.domain.subgroups import Constraint, Subgroup
from runrig.ports.backend import Blueprint, PoolQueues, Pulls, QueueQuota, no_pulls

PRIORITY_CLASSES = {Priority.HIGH: 125, Priority.NORMAL: 100, Priority.LOW: 50}
NEVER = "87600h"
UNLIMITED = -1
HIDDEN = "(hidden)"
DOCKER_CONFIG = ".dockerconfigjson"


def render(plan: Blueprint, pulls: Pulls = no_pulls) -> tuple[Object, ...]:
    """Returns the cluster-wide objects, then each gang with its pods. Raises InvalidInput for objects that no cluster
    accepts.

    *pulls*: credentials that pull images; their values are not shown.
    """
    settings = Settings(plan.namespace, plan.flavors, plan.resource_names, pulls=pulls)
    objects = [*cluster_objects(plan.pools, plan.namespace)]
    try:
        for gang in plan.gangs:
            pods = GangPods(gang, settings)
            objects += [*gang_objects(pods), *pods.unplaced()]
    except ValueError as problem:
        raise InvalidInput.one(str(problem)) from None
    return tuple(objects)


# ---------------------------------------------------------------- cluster-wide


def cluster_objects(pools: tuple[PoolQueues, ...], namespace: str) -> tuple[Object, ...]:
    """Returns queues, topologies and priority classes. *pools*: parents before subpools."""
    return (*_priority_classes(), *_queues(pools, namespace), *_topologies(pools, namespace))


def _priority_classes() -> Iterator[Object]:
    for priority, value in PRIORITY_CLASSES.items():
        metadata = {"name": names.priority_class(priority), "labels": dict(MANAGED)}
        yield kinds.PRIORITY_CLASS.made(metadata, value=value)


def _queues(pools: tuple[PoolQueues, ...], namespace: str) -> Iterator[Object]:
    """Yields queues from the root to the leaves. The root disables preemption and reclaim in KAI, because runrig decides them."""
    root = names.root_queue(namespace)
    never = {"preemptMinRuntime": NEVER, "reclaimMinRuntime": NEVER}
    yield _queue(namespace, root, root, QueueQuota(UNLIMITED, None, 1), never)
    for each in pools:
        pool = each.pool
        if each.whole is not None:
            name = names.pool_queue(namespace, pool.name)
            yield _queue(namespace, name, pool.name, each.whole, {"parentQueue": root})
        above = {"parentQueue": names.pool_queue(namespace, pool.parent or pool.name)}
        yield _queue(namespace, names.leaf_queue(namespace, pool.name), pool.name, each.own, above)


def _queue(namespace: str, name: str, display: str, share: QueueQuota, more: Mapping[str, str]) -> Object:
    # All nine numbers are written, because KAI treats a missing limit as 0.
    limit = UNLIMITED if share.limit is None else share.limit
    unlimited = {"quota": UNLIMITED, "limit": UNLIMITED, "overQuotaWeight": 1}
    gpu = {"quota": share.quota, "limit": limit, "overQuotaWeight": share.weight}
    resources = {"gpu": gpu, "cpu": dict(unlimited), "memory": dict(unlimited)}
    metadata = {"name": name, "labels": MANAGED | {names.NAMESPACE: namespace}}
    return kinds.QUEUE.made(metadata, spec={"displayName": display, **more, "resources": resources})


def _topologies(pools: tuple[PoolQueues, ...], namespace: str) -> Iterator[Object]:
    """Yields topologies, levels coarse to fine; none for pools without keys, nor for subpools, which use their parent's."""
    for queues in pools:
        if queues.whole is not None and queues.pool.topology_keys:
            name = names.topology_name(namespace, queues.pool.name)
            metadata = {"name": name, "labels": MANAGED | {names.NAMESPACE: namespace}}
            levels = [{"nodeLabel": key.label} for key in queues.pool.topology_keys]
            yield kinds.TOPOLOGY.made(metadata, spec={"levels": levels})


# ---------------------------------------------------------------- a gang


def gang_objects(pods: GangPods) -> tuple[Object, ...]:
    """Returns a gang's objects except its pods, the pod group last. Raises ValueError with a message for impossible files."""
    return (*before_the_group(pods), pod_group(pods))


def before_the_group(pods: GangPods) -> tuple[Object, ...]:
    """Returns a gang's objects except its pods and pod group. Only their epoch changes while the gang exists.

    Raises ValueError with a message for impossible files.
    """
    return (*_service(pods), *_secrets(pods), *_code(pods), *_credentials(pods), *_pull_secret(pods))


def _service(pods: GangPods) -> Iterator[Object]:
    """Lets pods find each other by name, even before they are ready."""
    if pods.count > 1:
        spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {names.GANG: pods.gang.uuid}}
        yield kinds.SERVICE.made(_metadata(pods, names.service_name(pods.gang.uuid)), spec=spec)


def _secret(pods: GangPods, name: str, **more: object) -> Object:
    return kinds.SECRET.made(_metadata(pods, name), **more)


@contextmanager
def _needing(pods: GangPods, missing: type[RunrigError] = RunrigError) -> Iterator[None]:
    """Ends its block if something is *missing* for a gang that has begun; for others, raises ValueError with the message."""
    try:
        yield
    except missing as error:
        if not pods.begun():
            raise ValueError(error.message) from None


def _secrets(pods: GangPods) -> Iterator[Object]:
    for number, data in enumerate(pods.files.secrets):
        # Immutable, so that kubelets do not watch it.
        yield _secret(pods, names.secret_name(pods.gang.uuid, number), immutable=True, data=dict(data))


def _code(pods: GangPods) -> Iterator[Object]:
    if pods.gang.code is not None and pods.settings.code_url is None:
        with _needing(pods, NotFound):
            shown = pods.settings.code_of is None
            data: Object = {"stringData": {ARCHIVE: HIDDEN}} if shown else {"data": dict(pods.code)}
            yield _secret(pods, names.code_name(pods.gang.uuid), immutable=True, **data)


def _credentials(pods: GangPods) -> Iterator[Object]:
    """Without values if they are only shown. Not immutable, so that a later server can update the values."""
    for name, secret in pods.credentials.items():
        with _needing(pods):
            yield _secret(pods, secret, type="Opaque", **_credential_data(pods, name))


def _pull_secret(pods: GangPods) -> Iterator[Object]:
    """Yields the secret that pulls the gang's images, if any is needed."""
    if pods.pulls:
        with _needing(pods):
            name = names.pull_name(pods.gang.uuid)
            yield _secret(pods, name, type="kubernetes.io/dockerconfigjson", **_pull_data(pods))


def _pull_data(pods: GangPods) -> Object:
    opens, user = pods.settings.opens, pods.gang.user
    if opens is None:
        return {"stringData": {DOCKER_CONFIG: docker_config((registry, HIDDEN) for registry in pods.pulls.values())}}
    auths = [(registry, auth_of(opens(user, name))) for name, registry in pods.pulls.items()]
    return {"data": {DOCKER_CONFIG: base64.b64encode(docker_config(auths).encode()).decode()}}


def _credential_data(pods: GangPods, name: str) -> Object:
    if pods.settings.opens is None:
        uses = [use for task in pods.gang.group.tasks for use in task.credentials if use.name == name]
        keys = sorted({key for use in uses for key in use.variables.values()})
        return {"stringData": dict.fromkeys(keys, HIDDEN)}
    values = pods.settings.opens(pods.gang.user, name)
    return {"data": {key: base64.b64encode(value.encode()).decode() for key, value in sorted(values.items())}}


def pod_group(pods: GangPods, alive: Mapping[str, int] | None = None) -> Object:
    """*alive*: leaf → number of its pods to run, with the leaf `WHOLE` if there are no subgroups; None: all pods.

    Only these are requested: KAI does not count ended pods, and would wait for them before binding another.
    """
    gang, outline = pods.gang, pods.outline
    spec: Object = {
        "queue": names.leaf_queue(pods.settings.namespace, gang.pool.name),
        "priorityClassName": names.priority_class(gang.priority),
        "preemptibility": "preemptible" if gang.priority.preemptible else "non-preemptible",
    }
    if outline.pods is not None:
        spec["minMember"] = outline.pods if alive is None else alive[WHOLE]
    spec |= _constraint(pods, outline.constraint)
    if outline.subgroups:
        spec["subGroups"] = [
            {"name": each.name}
            | ({} if each.parent is None else {"parent": each.parent})
            | ({} if each.pods is None else {"minMember": each.pods if alive is None else alive[each.name]})
            | _constraint(pods, each.constraint)
            for each in _living(outline.subgroups, alive)
        ]
    return kinds.POD_GROUP.made(_metadata(pods, gang.uuid), spec=spec)


def _living(subgroups: Sequence[Subgroup], alive: Mapping[str, int] | None) -> Sequence[Subgroup]:
    """Returns the leaves with a pod, and their ancestors."""
    if alive is None:
        return subgroups
    above = {subgroup.name: subgroup.parent for subgroup in subgroups}
    kept: set[str | None] = set()
    for leaf in alive:
        name: str | None = leaf
        while name is not None and name not in kept:
            kept.add(name)
            name = above[name]
    return [each for each in subgroups if each.name in kept]


def _constraint(pods: GangPods, constraint: Constraint | None) -> Object:
    if constraint is None:
        return {}
    said: Object = {"topology": names.topology_name(pods.settings.namespace, pods.gang.top.name)}
    if constraint.required is not None:
        said["requiredTopologyLevel"] = constraint.required
    preferred = constraint.preferred
    if preferred is None and pods.settings.epoch is not None:
        # Without one, KAI (v0.13 to v0.16) searches only below the finest domain that all nodes share.
        preferred = constraint.required
    if preferred is not None:
        said["preferredTopologyLevel"] = preferred
    return {"topologyConstraint": said}


def _metadata(pods: GangPods, name: str) -> Object:
    epoch = pods.settings.epoch
    return {
        "name": name,
        "namespace": pods.settings.namespace,
        "annotations": dict(pods.annotations),
        "labels": {**pods.labels} | ({} if epoch is None else {names.EPOCH: str(epoch)}),
    }
