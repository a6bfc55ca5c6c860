"""Documents → the objects in them: lists unfolded, kinds told apart, everything that is not read warned of."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from runrig.kueue.read.jobkinds import CLUSTER_RUNTIME, JOB_KINDS, RUNTIME, TRAINER
from runrig.kueue.read.manager import GROUP as CONFIGURATION
from runrig.kueue.read.names import KUEUE, Manifest, read_head
from runrig.kueue.read.tree import Object, Origin, Value

_BETAS = ("v1beta1", "v1beta2")
_ALPHA = ("v1alpha1", *_BETAS)
_V1 = ("v1",)


@dataclass(frozen=True, slots=True)
class ManifestKind:
    """*named* False: there is one of it, and it has no name."""

    versions: tuple[str, ...]
    namespaced: bool = False
    named: bool = True


KINDS = {
    (KUEUE, "ClusterQueue"): ManifestKind(_BETAS),
    (KUEUE, "Cohort"): ManifestKind(_ALPHA),
    (KUEUE, "LocalQueue"): ManifestKind(_BETAS, namespaced=True),
    (KUEUE, "ResourceFlavor"): ManifestKind(_BETAS),
    (KUEUE, "Topology"): ManifestKind(_ALPHA),
    (KUEUE, "Workload"): ManifestKind(_BETAS, namespaced=True),
    (KUEUE, "WorkloadPriorityClass"): ManifestKind(_BETAS),
    ("", "Node"): ManifestKind(_V1),
    ("", "Pod"): ManifestKind(_V1, namespaced=True),
    ("", "Namespace"): ManifestKind(_V1),
    ("", "LimitRange"): ManifestKind(_V1, namespaced=True),
    ("", "ConfigMap"): ManifestKind(_V1, namespaced=True),
    (CONFIGURATION, "Configuration"): ManifestKind(_BETAS, named=False),
    ("node.k8s.io", "RuntimeClass"): ManifestKind(_V1),
    (TRAINER, CLUSTER_RUNTIME): ManifestKind(("v1alpha1",)),
    (TRAINER, RUNTIME): ManifestKind(("v1alpha1",), namespaced=True),
    **{(kind.group, name): ManifestKind(kind.versions, namespaced=True) for name, kind in JOB_KINDS.items()},
    ("batch", "Job"): ManifestKind(_V1, namespaced=True),
    ("kubeflow.org", "MPIJob"): ManifestKind(("v2beta1",), namespaced=True),
    ("scheduling.k8s.io", "PriorityClass"): ManifestKind(_V1),
}
_OUT_OF_SCOPE = {
    "AdmissionCheck": "admission checks are out of scope: not read, and never ready",
    "ProvisioningRequestConfig": "provisioning is out of scope: not read",
}
_MULTI = "running on other clusters is out of scope: not read"
_WITHOUT_SPEC = ("WorkloadPriorityClass", "PriorityClass", "RuntimeClass", "ConfigMap", "Configuration")
_TOP = ("apiVersion", "kind", "metadata", "spec", "status")


MOST_LISTS = 20
"""Lists within lists."""

_Seen = dict[tuple[str, str, str, str], Origin]
"""(group, kind, namespace, name) of the objects so far, and where each stands."""


def manifests(documents: Iterable[Value]) -> Iterator[Manifest]:
    """Every object of a known kind, in the order of the file; two of one kind and name are an error."""
    seen: _Seen = {}
    for document in documents:
        yield from _objects(document, seen, "", "", str(document.origin.document))


def _objects(at: Value, seen: _Seen, version: str, kind: str, number: str) -> Iterator[Manifest]:
    """The objects at *at*; *version* and *kind*: of its list, where it does not say them."""
    if number.count("-") > MOST_LISTS:
        at.wrong(f"lists within lists, more than {MOST_LISTS} deep: leave out the outer ones")
        return
    body = at.object()
    version, kind = body.text("apiVersion", version), body.text("kind", kind)
    items = body.get("items")
    if kind.endswith("List") and items is not None:
        for i, item in enumerate(items.items(), start=1):
            if item.node.value is not None:
                yield from _objects(item, seen, version if kind != "List" else "", kind[:-4], f"{number}-{i}")
        return
    found = _known(body, version, kind, number)
    if found is not None:
        _check_unique(found, seen)
        yield found


def _known(body: Object, version: str, kind: str, number: str) -> Manifest | None:
    """None, with a warning: it is not read."""
    group, _, short = version.rpartition("/")
    body = Object(body.at.of_kind(kind), body.entries)
    known = KINDS.get((group, kind))
    if known is not None and short in known.versions:
        if kind not in _WITHOUT_SPEC:
            body.only(_TOP)
        return read_head(body, group, short, kind, namespaced=known.namespaced, number=number, named=known.named)
    if not kind or not version:
        body.at.warn(f"not read: it has no {'kind' if not kind else 'apiVersion'}")
    elif known is not None:
        body.at.warn(f"not read: of {kind} the versions {', '.join(known.versions)} are read, not {short}")
    elif group == KUEUE and kind in _OUT_OF_SCOPE:
        body.at.warn(f"{kind}: {_OUT_OF_SCOPE[kind]}")
    elif group == KUEUE and kind.startswith("MultiKueue"):
        body.at.warn(f"{kind}: {_MULTI}")
    else:
        body.at.warn(f"{kind} of {version}: not read")
    _note_time(body)
    return None


def _note_time(body: Object) -> None:
    """The time of an object counts for the latest of the file even if the rest of it does not; only if it can be read."""
    meta = body.get("metadata")
    created = meta.object().get("creationTimestamp") if meta and isinstance(meta.node.value, Mapping) else None
    if created is not None:
        created.note_time()


def _check_unique(found: Manifest, seen: _Seen) -> None:
    key = (found.group, found.kind, found.namespace, found.name)
    at = found.body.at
    if found.name and key in seen:
        name = found.key if found.namespace else found.name
        first = seen[key]
        file = f" of {first.file}" if first.file != at.origin.file else ""
        at.wrong(f"{found.kind} {name} is here twice: it first stands in document {first.document}{file}")
    seen.setdefault(key, at.origin)
