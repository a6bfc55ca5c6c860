"""Reads RayCluster, RayJob and RayService as pod sets, including the containers that Ray's operator adds to the head."""

from collections.abc import Sequence
from dataclasses import replace

from runrig.kueue.read.parts import Beside, Part, Place, below, parts_at
from runrig.kueue.read.surroundings import Amounts
from runrig.kueue.read.tree import Object
from runrig.spec.yamltree import Node

CLUSTER_FIELDS = (
    "managedBy", "headGroupSpec", "workerGroupSpecs", "enableInTreeAutoscaling", "autoscalerOptions", "rayVersion", "suspend",
    "headServiceAnnotations", "authOptions", "upgradeStrategy", "gcsFaultToleranceOptions", "historyServerOptions", "networkPolicy",
    "tlsOptions",
)  # fmt: skip
ELASTIC = "Kueue accepts this only in elastic jobs, which are not simulated: the number of pods stays as declared"

_MIB = 1024 * 1024
_HEAD = Place(
    "headGroupSpec",
    "head",
    known=(
        "template",
        "rayStartParams",
        "serviceType",
        "enableIngress",
        "ingressOptions",
        "headService",
        "resources",
        "labels",
    ),
)
_WORKERS = Place(
    "workerGroupSpecs",
    ".groupName",
    times=("replicas", "numOfHosts"),
    known=(
        "groupName", "replicas", "minReplicas", "maxReplicas", "numOfHosts", "rayStartParams", "template", "scaleStrategy",
        "idleTimeoutSeconds", "suspend", "resources", "labels", "priority",
    ),
)  # fmt: skip
_AUTOSCALER: Amounts = {"cpu": 500, "memory": 512 * _MIB}
_SUBMITTER: Amounts = {"cpu": 500, "memory": 200 * _MIB}
_REDIS_CLEANUP = (("cpu", "200m"), ("memory", "256Mi"))
_FAULT_TOLERANT = "ray.io/ft-enabled"


def ray_cluster(spec: Object, beside: Beside, head: Sequence[Amounts] = ()) -> list[Part]:
    """The head, with the containers added to it, and the worker groups."""
    spec.only(CLUSTER_FIELDS)
    more = list(head)
    if spec.flag("enableInTreeAutoscaling", False):
        (spec.get("enableInTreeAutoscaling") or spec.at).warn(ELASTIC)
        resources = spec.object("autoscalerOptions").get("resources")
        more.append(_requests(resources.object()) if resources else _AUTOSCALER)
    keeps = spec.has("gcsFaultToleranceOptions") or beside.annotations.get(_FAULT_TOLERANT, "").lower() == "true"
    heads = [
        replace(part, more=tuple(more), holder=_with_cleanup(part.holder) if keeps else part.holder)
        for part in parts_at(spec, _HEAD)
    ]
    return [*heads, *parts_at(spec, _WORKERS)]


def _requests(resources: Object) -> Amounts:
    return {name: at.amount(name) for kind in ("limits", "requests") for name, at in resources.object(kind).pairs()}


def _with_cleanup(head: Object) -> Object:
    """*head* with at least the requests of the job that cleans up Redis after the cluster is deleted; limits do not
    matter.
    """
    spec = below(head, "template.spec")
    first, *others = spec.items("containers") or (Object(spec.at, {}).at,)
    container = first.object()
    requests = container.object("resources").object("requests")
    for name, least in _REDIS_CLEANUP:
        at, needed = requests.get(name), requests.having(name, Node(least, least)).get(name)
        if needed is not None and (at is None or at.amount(name) < needed.amount(name)):
            requests = requests.having(name, needed.node)
    resources = container.object("resources").having("requests", requests.at.node)
    containers = (container.having("resources", resources.at.node).at.node, *(each.node for each in others))
    template = head.object("template").having("spec", spec.having("containers", Node(containers)).at.node)
    return head.having("template", template.at.node)


def ray_job(spec: Object, beside: Beside) -> list[Part]:
    """A cluster and the pod that submits to it; nothing if the job uses an existing cluster."""
    if spec.has("clusterSelector"):
        return []
    if not spec.has("rayClusterSpec"):
        spec.at.warn("rayClusterSpec is missing: Kueue rejects this job")
        return []
    if not spec.flag("shutdownAfterJobFinishes", False):
        spec.at.warn("Kueue rejects this job without shutdownAfterJobFinishes, because it would keep its quota")
    mode = spec.text("submissionMode", "K8sJobMode")
    cluster = ray_cluster(spec.object("rayClusterSpec"), beside, [_SUBMITTER] if mode == "SidecarMode" else [])
    if mode != "K8sJobMode":
        return cluster
    more = () if spec.has("submitterPodTemplate") else (_SUBMITTER,)
    return [*cluster, Part("submitter", 1, spec, "submitterPodTemplate", more)]
