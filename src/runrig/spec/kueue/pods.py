"""A pod template → what one pod asks, and which nodes it accepts.

Fields that only say what runs are passed over; those that bear on scheduling and are not honoured are warned of.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runrig.domain.kueue import PODS, MatchExpression, NodeChoice
from runrig.domain.quantities import LARGEST
from runrig.spec.kueue.selectors import read_expression, read_tolerations
from runrig.spec.kueue.tree import Object, Value

NO_TOPOLOGY = "topology is not honoured yet in this dialect: quota alone decides"

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
_TOPOLOGY = (
    "podset-required-topology", "podset-preferred-topology", "podset-unconstrained-topology",
    "podset-slice-required-topology", "podset-slice-size",
)  # fmt: skip
_GROUP_NAME = "kueue.x-k8s.io/podset-group-name"

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Pod:
    """*requests*: by resource, zeros too (they take a flavor all the same).

    *problem*: why a workload of it is refused, empty if it is not.
    """

    requests: Amounts
    nodes: NodeChoice
    group: str | None = None
    priority_class: str = ""
    problem: str = ""


def read_template(template: Object) -> Pod:
    """The pod of a template with metadata and spec."""
    annotations = template.object("metadata").object("annotations")
    for name in _TOPOLOGY:
        asked = annotations.get(f"kueue.x-k8s.io/{name}")
        if asked is not None:
            asked.warn(NO_TOPOLOGY)
    spec = template.get("spec")
    if spec is None:
        template.at.warn("a template without spec: its pods ask for nothing")
    return read_pod(template.object("spec"), annotations.text(_GROUP_NAME) or None)


def read_pod(spec: Object, group: str | None = None) -> Pod:
    spec.only(_POD)
    spec.unsupported(_UNSUPPORTED)
    terms, problem = _affinity(spec.object("affinity"))
    requests, excess = pod_requests(spec)
    selector = tuple(sorted(spec.strings("nodeSelector").items()))
    nodes = NodeChoice(selector, terms, read_tolerations(spec.items("tolerations")))
    return Pod(requests, nodes, group, spec.text("priorityClassName"), problem or excess)


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


def _affinity(affinity: Object) -> tuple[tuple[tuple[MatchExpression, ...], ...], str]:
    """(the terms of required node affinity, why it cannot be evaluated)."""
    affinity.only(("nodeAffinity", "podAffinity", "podAntiAffinity"))
    affinity.unsupported(dict.fromkeys(("podAffinity", "podAntiAffinity"), "affinity to other pods is not honoured"))
    node = affinity.object("nodeAffinity")
    required, preferred = (f"{name}DuringSchedulingIgnoredDuringExecution" for name in ("required", "preferred"))
    node.only((required, preferred))
    node.unsupported({preferred: "preferred node affinity is not honoured"})
    fields = node.object(required)
    fields.only(("nodeSelectorTerms",))
    terms = []
    for term in fields.objects("nodeSelectorTerms"):
        term.only(("matchExpressions", "matchFields"))
        term.unsupported({"matchFields": "matching fields of nodes is not supported: not read"})
        found = [read_expression(item) for item in term.items("matchExpressions")]
        if None in found:
            return (), "its required node affinity cannot be evaluated"
        terms.append(tuple(item for item in found if item))
    return tuple(terms), ""
