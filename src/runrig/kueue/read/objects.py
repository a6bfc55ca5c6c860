"""Finds the objects in documents: expands lists, determines kinds, and warns of everything that is ignored."""

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
    """A kind of object. *named* False: there is at most one, without a name."""

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
    "AdmissionCheck": "ignored: admission checks are not simulated and never become ready",
    "ProvisioningRequestConfig": "ignored: provisioning is not simulated",
}
_MULTI = "ignored: running on other clusters is not simulated"
_WITHOUT_SPEC = ("WorkloadPriorityClass", "PriorityClass", "RuntimeClass", "ConfigMap", "Configuration")
_TOP = ("apiVersion", "kind", "metadata", "spec", "status")


MOST_LISTS = 20
"""Maximum depth of nested lists."""

_Seen = dict[tuple[str, str, str, str], Origin]
"""(group, kind, namespace, name) → location of the object."""


def manifests(documents: Iterable[Value]) -> Iterator[Manifest]:
    """Yields every object of a known kind, in the order of the files. A duplicate kind and name is an error."""
    seen: _Seen = {}
    for document in documents:
        yield from _objects(document, seen, "", "", str(document.origin.document))


def _objects(at: Value, seen: _Seen, version: str, kind: str, number: str) -> Iterator[Manifest]:
    """Yields the objects at *at*. *version*, *kind*: implied by the list that contains it, if any."""
    if number.count("-") > MOST_LISTS:
        at.wrong(f"lists are nested more than {MOST_LISTS} levels deep: remove the outer ones")
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
    """The object with its metadata; None, with a warning, if its kind is not supported."""
    group, _, short = version.rpartition("/")
    body = Object(body.at.of_kind(kind), body.entries)
    known = KINDS.get((group, kind))
    if known is not None and short in known.versions:
        if kind not in _WITHOUT_SPEC:
            body.only(_TOP)
        return read_head(body, group, short, kind, namespaced=known.namespaced, number=number, named=known.named)
    if not kind or not version:
        body.at.warn(f"ignored: it has no {'kind' if not kind else 'apiVersion'}")
    elif known is not None:
        body.at.warn(f"ignored: {kind} is supported in {', '.join(known.versions)}, not in {short}")
    elif group == KUEUE and kind in _OUT_OF_SCOPE:
        body.at.warn(f"{kind}: {_OUT_OF_SCOPE[kind]}")
    elif group == KUEUE and kind.startswith("MultiKueue"):
        body.at.warn(f"{kind}: {_MULTI}")
    else:
        body.at.warn(f"ignored: {kind} of {version} is not supported")
    _note_time(body)
    return None


def _note_time(body: Object) -> None:
    """Records the creation time of an object whose other fields are ignored; an invalid time is skipped."""
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
        at.wrong(f"duplicate {found.kind} {name}: first defined in document {first.document}{file}")
    seen.setdefault(key, at.origin)
