"""Reads a pod template: the requests of one pod and the nodes that it accepts.

Fields that do not affect scheduling are skipped; unsupported fields that do affect it cause warnings.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from runrig.domain.quantities import LARGEST, PODS
from runrig.kueue.declared import NODE_NAME, MatchExpression, NodeChoice, TopologyRequest
from runrig.kueue.read.marks import warn_of_annotations
from runrig.kueue.read.selectors import read_expression, read_tolerations
from runrig.kueue.read.surroundings import CONTAINER, POD, Amounts, Bounds, Surroundings, merged
from runrig.kueue.read.topologies import GROUP, read_annotations
from runrig.kueue.read.tree import Object, Value

PREFERRED = "preferred node affinity has an effect only with a topology and the gate TASRespectNodeAffinityPreferred"

_UNSUPPORTED = {
    "resourceClaims": "dynamic resources are not simulated: they request nothing",
    "topologySpreadConstraints": "ignored: topology spread constraints are not simulated",
}
_OF_PODS = dict.fromkeys(("podAffinity", "podAntiAffinity"), "ignored: affinity to other pods is not simulated")
_OF_TEMPLATES = {
    "nodeName": "ignored: binding to a node is not simulated",
    "schedulingGates": "ignored: scheduling gates are not simulated",
}
"""A pod has nodeName once it runs, and scheduling gates from Kueue while it is pending."""
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
_POD = frozenset((*_READ, *_OF_TEMPLATES, *_NO_BEARING))
_CONTAINER = frozenset((
    "name", "resources", "restartPolicy", "args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle",
    "livenessProbe", "ports", "readinessProbe", "resizePolicy", "restartPolicyRules", "securityContext", "startupProbe",
    "stdin", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy", "tty", "volumeDevices", "volumeMounts",
    "workingDir",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of a template.

    *requests*: by resource, including zeros, which still need a flavor. *problem*: why Kueue rejects its workload;
    empty if it does not.
    *topology*, *topology_at*: the topology request in its annotations, and its location.
    """

    requests: Amounts
    nodes: NodeChoice
    group: str | None = None
    topology: TopologyRequest | None = None
    topology_at: Value | None = None
    priority_class: str = ""
    problem: str = ""


def read_template(template: Object, around: Surroundings, namespace: str, more: Sequence[Amounts] = ()) -> Pod:
    """Reads a template with metadata and spec, or a pod itself, in *namespace*.

    *more*: requests of containers that its controller adds.
    """
    template.only(_TEMPLATE)
    annotations = template.object("metadata").object("annotations")
    warn_of_annotations(annotations)
    topology = read_annotations(annotations)
    spec = template.get("spec")
    if spec is None:
        template.at.warn("the template has no spec: its pods request nothing")
    if not template.has("kind"):
        template.object("spec").unsupported(_OF_TEMPLATES)
    pod = read_pod(template.object("spec"), around, namespace, more)
    at = annotations.at if topology is not None else None
    return replace(pod, group=annotations.text(GROUP) or None, topology=topology, topology_at=at)


def read_pod(spec: Object, around: Surroundings, namespace: str, more: Sequence[Amounts] = ()) -> Pod:
    spec.only(_POD, _UNSUPPORTED)
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
    """(the requests of one pod, why Kueue rejects it or "").

    Containers and sidecars run together. If an init container and the sidecars before it need more, that counts
    instead. Requests of the whole pod replace the sum. The overhead is added.
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
        runtime.warn(f"RuntimeClass {name!r} is not in this file: no overhead is added")
    return around.overheads.get(name, {})


def _as_a_whole(spec: Object, bounds: Bounds, problems: list[str]) -> Amounts:
    """The requests of the pod as a whole, for the resources that allow it."""
    resources = spec.get("resources")
    if resources is None:
        return {}
    requests = _requests(resources.object(), bounds, "a pod", problems)
    return {name: amount for name, amount in requests.items() if name in _OF_A_POD or name.startswith(_HUGEPAGES)}


def _container(container: Object, bounds: Bounds, problems: list[str]) -> Amounts:
    return _requests(container.only(_CONTAINER).object("resources"), bounds, "a container", problems)


def _requests(resources: Object, bounds: Bounds, what: str, problems: list[str]) -> Amounts:
    """The requests of *resources*; a missing one falls back to the limit, then to the defaults of the namespace."""
    resources.only(("requests", "limits"), {"claims": _UNSUPPORTED["resourceClaims"]})
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
        at.warn(f"{problem}: Kueue never considers this workload")
        problems.append(problem)


def _amounts(fields: Object) -> Amounts:
    found = {}
    for resource, at in fields.pairs():
        amount = at.amount(resource)
        if resource == PODS:
            at.warn("ignored: each pod counts as one, so pods cannot be requested")
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
    """Reports an error if *count* such pods exceed 64 bits."""
    for resource, amount in total.items():
        if amount * count > LARGEST:
            times = f"{count} × {amount}" if count > 1 else str(amount)
            at.wrong(f"{times} {resource} does not fit in 64 bits")


def check_total(pod: Pod, count: int, at: Value) -> None:
    """Reports an error if a pod set exceeds 64 bits although a single pod does not."""
    if all(amount <= LARGEST for amount in pod.requests.values()):
        _check(pod.requests, at, count)


Terms = tuple[tuple[MatchExpression, ...], ...]
Weighted = tuple[tuple[int, tuple[MatchExpression, ...]], ...]


def _affinity(affinity: Object) -> tuple[Terms, Weighted, str]:
    """(required node affinity terms, weighted preferred terms, why the required ones cannot be evaluated or "")."""
    affinity.only(("nodeAffinity",), _OF_PODS)
    required, preferred = (f"{name}DuringSchedulingIgnoredDuringExecution" for name in ("required", "preferred"))
    node = affinity.object("nodeAffinity").only((required,), {preferred: PREFERRED})
    weighted = tuple(_preferred(node.objects(preferred, ("weight", "preference"))))
    fields = node.object(required).only(("nodeSelectorTerms",))
    terms = [_term(each) for each in fields.objects("nodeSelectorTerms")]
    if None in terms:
        return (), weighted, "its required node affinity cannot be evaluated"
    return tuple(term for term in terms if term is not None), weighted, ""


def _preferred(items: Iterable[Object]) -> Iterator[tuple[int, tuple[MatchExpression, ...]]]:
    for item in items:
        term = _term(item.object("preference"))
        if term:
            yield item.whole("weight", 1), term


def _term(term: Object) -> tuple[MatchExpression, ...] | None:
    """The expressions of one term; None, with a warning, if it cannot be evaluated."""
    term.only(("matchExpressions", "matchFields"))
    found = [read_expression(item) for item in term.items("matchExpressions")]
    found += [_field(item) for item in term.items("matchFields")]
    return None if None in found else tuple(item for item in found if item)


def _field(at: Value) -> MatchExpression | None:
    """An expression on fields of a node. Kubernetes only supports the name, with a single value."""
    found = read_expression(at)
    if found is None:
        return None
    if found.key != _NAME_FIELD or found.operator not in ("In", "NotIn") or len(found.values) != 1:
        at.warn(f"cannot be evaluated: only {_NAME_FIELD} can be matched, with In or NotIn and one value")
        return None
    return replace(found, key=NODE_NAME)
