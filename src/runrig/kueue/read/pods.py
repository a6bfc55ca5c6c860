"""A pod template → what one pod asks, and which nodes it accepts.

Fields that only say what runs are passed over; those that bear on scheduling and are not honoured are warned of.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from runrig.domain.quantities import LARGEST, PODS
from runrig.kueue.declared import NODE_NAME, MatchExpression, NodeChoice, TopologyRequest
from runrig.kueue.read.marks import warn_of_annotations
from runrig.kueue.read.selectors import read_expression, read_tolerations
from runrig.kueue.read.surroundings import CONTAINER, POD, Amounts, Bounds, Surroundings, merged
from runrig.kueue.read.topologies import GROUP, read_annotations
from runrig.kueue.read.tree import Object, Value

PREFERRED = (
    "preferred node affinity counts only among nodes of a topology, with the gate TASRespectNodeAffinityPreferred"
)

_UNSUPPORTED = {
    "resourceClaims": "dynamic resources are not supported: they ask for nothing here",
    "topologySpreadConstraints": "spreading over a topology is not honoured",
}
_OF_TEMPLATES = {
    "nodeName": "a named node is not honoured",
    "schedulingGates": "scheduling gates are not honoured",
}
"""A pod has the former once it runs, and the latter from Kueue while it waits."""
_READ = (
    "containers", "initContainers", "resources", "overhead", "runtimeClassName", "nodeSelector", "affinity", "tolerations",
    "priorityClassName",
)  # fmt: skip
_TEMPLATE = ("metadata", "spec", "apiVersion", "kind", "status")
_OF_A_POD = ("cpu", "memory")
_HUGEPAGES = "hugepages-"
_NAME_FIELD = "metadata.name"
_NO_BEARING = (
    "activeDeadlineSeconds", "automountServiceAccountToken", "dnsConfig", "dnsPolicy", "enableServiceLinks",
    "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers", "hostname", "hostnameOverride",
    "imagePullSecrets", "os", "preemptionPolicy", "priority", "readinessGates", "restartPolicy", "schedulerName",
    "securityContext", "serviceAccount", "serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace", "subdomain",
    "terminationGracePeriodSeconds", "volumes",
)  # fmt: skip
_POD = frozenset((*_READ, *_UNSUPPORTED, *_OF_TEMPLATES, *_NO_BEARING))
_CONTAINER = frozenset((
    "name", "resources", "restartPolicy", "args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle",
    "livenessProbe", "ports", "readinessProbe", "resizePolicy", "restartPolicyRules", "securityContext", "startupProbe",
    "stdin", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy", "tty", "volumeDevices", "volumeMounts",
    "workingDir",
))  # fmt: skip


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


def read_template(template: Object, around: Surroundings, namespace: str, more: Sequence[Amounts] = ()) -> Pod:
    """The pod of a template with metadata and spec, or of a pod itself, in *namespace*.

    *more*: requests of containers that its controller adds.
    """
    template.only(_TEMPLATE)
    annotations = template.object("metadata").object("annotations")
    warn_of_annotations(annotations)
    topology = read_annotations(annotations)
    spec = template.get("spec")
    if spec is None:
        template.at.warn("a template without spec: its pods ask for nothing")
    if not template.has("kind"):
        template.object("spec").unsupported(_OF_TEMPLATES)
    pod = read_pod(template.object("spec"), around, namespace, more)
    at = annotations.at if topology is not None else None
    return replace(pod, group=annotations.text(GROUP) or None, topology=topology, topology_at=at)


def read_pod(spec: Object, around: Surroundings, namespace: str, more: Sequence[Amounts] = ()) -> Pod:
    spec.only(_POD)
    spec.unsupported(_UNSUPPORTED)
    terms, preferred, problem = _affinity(spec.object("affinity"))
    requests, excess = pod_requests(spec, around, namespace, more)
    selector = tuple(sorted(spec.strings("nodeSelector").items()))
    nodes = NodeChoice(selector, terms, read_tolerations(spec.items("tolerations")), preferred)
    counted = around.counted(requests)
    _check(counted, spec.at)
    return Pod(counted, nodes, priority_class=spec.text("priorityClassName"), problem=problem or excess)


def pod_requests(
    spec: Object, around: Surroundings, namespace: str, more: Sequence[Amounts] = ()
) -> tuple[Amounts, str]:
    """(what a pod of *spec* asks, why it is refused).

    The containers and sidecars together, or the hungriest init container with the sidecars before it, if that is more; where the
    pod as a whole says cpu or memory, that; and overhead.
    """
    bounds = around.bounds.get((namespace, CONTAINER), Bounds())
    problems: list[str] = []
    together: Amounts = {}
    for each in (*(_container(container, bounds, problems) for container in spec.objects("containers")), *more):
        together = _sum(together, each)
    sidecars: Amounts = {}
    start: Amounts = {}
    for container in spec.objects("initContainers"):
        needed = _sum(sidecars, _container(container, bounds, problems))
        start = _most(start, needed)
        if container.text("restartPolicy") == "Always":
            sidecars = needed
    of_pod = around.bounds.get((namespace, POD), Bounds())
    own = {**_most(_sum(together, sidecars), start), **_as_a_whole(spec, of_pod, problems)}
    total = _sum(own, _overhead(spec, around))
    _check(total, spec.at)
    _note(of_pod.problem("a pod", total, total), spec.at, problems)
    return total, next(iter(problems), "")


def _overhead(spec: Object, around: Surroundings) -> Amounts:
    said, runtime = _amounts(spec.object("overhead")), spec.get("runtimeClassName")
    if said or runtime is None:
        return said
    name = runtime.text()
    if name and name not in around.overheads:
        runtime.warn(f"there is no RuntimeClass {name!r} in this file: its overhead counts as none")
    return around.overheads.get(name, {})


def _as_a_whole(spec: Object, bounds: Bounds, problems: list[str]) -> Amounts:
    """What the pod as a whole requests, of the resources for which that counts."""
    resources = spec.get("resources")
    if resources is None:
        return {}
    requests = _requests(resources.object(), bounds, "a pod", problems)
    return {name: amount for name, amount in requests.items() if name in _OF_A_POD or name.startswith(_HUGEPAGES)}


def _container(container: Object, bounds: Bounds, problems: list[str]) -> Amounts:
    container.only(_CONTAINER)
    return _requests(container.object("resources"), bounds, "a container", problems)


def _requests(resources: Object, bounds: Bounds, what: str, problems: list[str]) -> Amounts:
    """Limits count as requests where those are not said, and then what its namespace says."""
    resources.only(("requests", "limits", "claims"))
    resources.unsupported({"claims": _UNSUPPORTED["resourceClaims"]})
    own, own_limits = _amounts(resources.object("requests")), _amounts(resources.object("limits"))
    limits = merged(own_limits, bounds.default)
    requests = merged(own, own_limits, bounds.default_request, limits)
    for resource, amount in requests.items():
        if amount > limits.get(resource, amount):
            _note(f"{what} requests more {resource} than its limit", resources.at, problems)
    if what == "a container":
        least, most = {**limits, **_least(requests, limits)}, _most(requests, limits)
        _note(bounds.problem(what, least, most), resources.at, problems)
    return requests


def _least(one: Amounts, other: Amounts) -> Amounts:
    return {key: min(amount, other.get(key, amount)) for key, amount in one.items()}


def _note(problem: str, at: Value, problems: list[str]) -> None:
    if problem:
        at.warn(f"{problem}: such a workload is never looked at")
        problems.append(problem)


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
            at.wrong(f"{times} {resource} is more than 64 bits can hold")


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
    found = [read_expression(item) for item in term.items("matchExpressions")]
    found += [_field(item) for item in term.items("matchFields")]
    return None if None in found else tuple(item for item in found if item)


def _field(at: Value) -> MatchExpression | None:
    """The one field of a node that can be matched is its name, and by one value."""
    found = read_expression(at)
    if found is None:
        return None
    if found.key != _NAME_FIELD or found.operator not in ("In", "NotIn") or len(found.values) != 1:
        at.warn(f"only {_NAME_FIELD} can be matched, with In or NotIn and one value: cannot be evaluated")
        return None
    return replace(found, key=NODE_NAME)
