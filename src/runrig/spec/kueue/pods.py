"""A pod template → what one pod asks, and which nodes it accepts.

Fields that only say what runs are passed over; those that bear on scheduling and are not honoured are warned of.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from runrig.domain.kueue import MatchExpression, NodeChoice, TopologyRequest
from runrig.domain.quantities import LARGEST, PODS
from runrig.spec.kueue.selectors import read_expression, read_tolerations
from runrig.spec.kueue.topologies import GROUP, read_annotations
from runrig.spec.kueue.tree import Object, Value

PREFERRED = (
    "preferred node affinity counts only among nodes of a topology, with the gate TASRespectNodeAffinityPreferred"
)

_UNSUPPORTED = {
    "resources": "requests of a pod as a whole are not supported: those of its containers count",
    "resourceClaims": "dynamic resources are not supported: they ask for nothing here",
    "topologySpreadConstraints": "spreading over a topology is not honoured",
    "nodeName": "a named node is not honoured",
    "runtimeClassName": "the overhead of a runtime class is not known here: it counts as none",
    "schedulingGates": "scheduling gates are not honoured",
}
_READ = ("containers", "initContainers", "overhead", "nodeSelector", "affinity", "tolerations", "priorityClassName")
_NO_BEARING = (
    "activeDeadlineSeconds", "automountServiceAccountToken", "dnsConfig", "dnsPolicy", "enableServiceLinks",
    "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers", "hostname", "hostnameOverride",
    "imagePullSecrets", "os", "preemptionPolicy", "priority", "readinessGates", "restartPolicy", "schedulerName",
    "securityContext", "serviceAccount", "serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace", "subdomain",
    "terminationGracePeriodSeconds", "volumes",
)  # fmt: skip
_POD = frozenset((*_READ, *_UNSUPPORTED, *_NO_BEARING))
_CONTAINER = frozenset((
    "name", "resources", "restartPolicy", "args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle",
    "livenessProbe", "ports", "readinessProbe", "resizePolicy", "restartPolicyRules", "securityContext", "startupProbe",
    "stdin", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy", "tty", "volumeDevices", "volumeMounts",
    "workingDir",
))  # fmt: skip

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Pod:
    """*requests*: by resource, zeros too (they take a flavor all the same).

    *problem*: why a workload of it is refused, empty if it is not.  *topology*, *topology_at*: what its annotations ask, and where.
    """

    requests: Amounts
    nodes: NodeChoice
    group: str | None = None
    topology: TopologyRequest | None = None
    topology_at: Value | None = None
    priority_class: str = ""
    problem: str = ""


def read_template(template: Object) -> Pod:
    """The pod of a template with metadata and spec."""
    annotations = template.object("metadata").object("annotations")
    topology = read_annotations(annotations)
    spec = template.get("spec")
    if spec is None:
        template.at.warn("a template without spec: its pods ask for nothing")
    pod = read_pod(template.object("spec"))
    at = annotations.at if topology is not None else None
    return replace(pod, group=annotations.text(GROUP) or None, topology=topology, topology_at=at)


def read_pod(spec: Object) -> Pod:
    spec.only(_POD)
    spec.unsupported(_UNSUPPORTED)
    terms, preferred, problem = _affinity(spec.object("affinity"))
    requests, excess = pod_requests(spec)
    selector = tuple(sorted(spec.strings("nodeSelector").items()))
    nodes = NodeChoice(selector, terms, read_tolerations(spec.items("tolerations")), preferred)
    return Pod(requests, nodes, priority_class=spec.text("priorityClassName"), problem=problem or excess)


def pod_requests(spec: Object) -> tuple[Amounts, str]:
    """(what a pod of *spec* asks, why it is refused).

    The containers and sidecars together, or the hungriest init container with the sidecars before it, if that is more; and overhead.
    """
    problems: list[str] = []
    together: Amounts = {}
    for container in spec.objects("containers"):
        together = _sum(together, _container(container, problems))
    sidecars: Amounts = {}
    start: Amounts = {}
    for container in spec.objects("initContainers"):
        needed = _sum(sidecars, _container(container, problems))
        start = _most(start, needed)
        if container.text("restartPolicy") == "Always":
            sidecars = needed
    overhead = _amounts(spec.object("overhead"))
    total = _sum(_most(_sum(together, sidecars), start), overhead)
    _check(total, spec.at)
    return total, next(iter(problems), "")


def _container(container: Object, problems: list[str]) -> Amounts:
    """Limits count as requests where those are not said."""
    container.only(_CONTAINER)
    resources = container.object("resources")
    resources.only(("requests", "limits", "claims"))
    resources.unsupported({"claims": _UNSUPPORTED["resourceClaims"]})
    requests, limits = _amounts(resources.object("requests")), _amounts(resources.object("limits"))
    for resource, amount in requests.items():
        if amount > limits.get(resource, amount):
            problem = f"a container requests more {resource} than its limit"
            resources.at.warn(f"{problem}: such a workload is never looked at")
            problems.append(problem)
    return {**limits, **requests}


def _amounts(fields: Object) -> Amounts:
    found = {}
    for resource, at in fields.pairs():
        amount = at.amount(resource)
        if resource == PODS:
            at.warn("pods cannot be requested: each pod counts as one, and this is not read")
        else:
            found[resource] = amount
    return found


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return {key: one.get(key, 0) + other.get(key, 0) for key in _keys(one, other)}


def _most(one: Amounts, other: Amounts) -> Amounts:
    return {key: max(one.get(key, 0), other.get(key, 0)) for key in _keys(one, other)}


def _keys(one: Amounts, other: Amounts) -> Iterator[str]:
    return iter(dict.fromkeys((*one, *other)))


def _check(total: Amounts, at: Value, count: int = 1) -> None:
    """Reports what *count* such pods ask beyond 64 bits."""
    for resource, amount in total.items():
        if amount * count > LARGEST:
            times = f"{count} × {amount}" if count > 1 else str(amount)
            at.error(f"{times} {resource} is more than 64 bits can hold")


def check_total(pod: Pod, count: int, at: Value) -> None:
    """Reports a pod set that asks more than 64 bits hold, though one pod of it does not."""
    if all(amount <= LARGEST for amount in pod.requests.values()):
        _check(pod.requests, at, count)


Terms = tuple[tuple[MatchExpression, ...], ...]
Weighted = tuple[tuple[int, tuple[MatchExpression, ...]], ...]


def _affinity(affinity: Object) -> tuple[Terms, Weighted, str]:
    """(the terms of required node affinity, those of preferred with weights, why the former cannot be evaluated)."""
    affinity.only(("nodeAffinity", "podAffinity", "podAntiAffinity"))
    affinity.unsupported(dict.fromkeys(("podAffinity", "podAntiAffinity"), "affinity to other pods is not honoured"))
    node = affinity.object("nodeAffinity")
    required, preferred = (f"{name}DuringSchedulingIgnoredDuringExecution" for name in ("required", "preferred"))
    node.only((required, preferred))
    node.unsupported({preferred: PREFERRED})
    weighted = tuple(_preferred(node.objects(preferred)))
    fields = node.object(required)
    fields.only(("nodeSelectorTerms",))
    terms = [_term(each) for each in fields.objects("nodeSelectorTerms")]
    if None in terms:
        return (), weighted, "its required node affinity cannot be evaluated"
    return tuple(term for term in terms if term is not None), weighted, ""


def _preferred(items: Sequence[Object]) -> Iterator[tuple[int, tuple[MatchExpression, ...]]]:
    for item in items:
        item.only(("weight", "preference"))
        term = _term(item.object("preference"))
        if term:
            yield item.whole("weight", 1), term


def _term(term: Object) -> tuple[MatchExpression, ...] | None:
    """None, with a warning, if it cannot be evaluated."""
    term.only(("matchExpressions", "matchFields"))
    term.unsupported({"matchFields": "matching fields of nodes is not supported: not read"})
    found = [read_expression(item) for item in term.items("matchExpressions")]
    return None if None in found else tuple(item for item in found if item)
