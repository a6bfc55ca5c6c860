"""Kueue's labels and annotations on workloads and jobs: which have an effect, and warnings for the others."""

import re

from runrig.kueue.read.names import KUEUE, Manifest
from runrig.kueue.read.tree import INT32, Object

QUEUE = f"{KUEUE}/queue-name"
CLASS = f"{KUEUE}/priority-class"
BOOST = f"{KUEUE}/priority-boost"
MIN_PARALLELISM = f"{KUEUE}/job-min-parallelism"
SYNC_COMPLETIONS = f"{KUEUE}/job-completions-equal-parallelism"
POD_SET = f"{KUEUE}/podset"
WORKLOAD = f"{KUEUE}/workload"

GROUP_NAME = f"{KUEUE}/pod-group-name"
"""The pod group of a pod."""
MADE = f"{KUEUE}/prebuilt-workload-name"
"""The name of a Workload that was created in advance for a job."""
GATED = f"{KUEUE}/admission-gated-by"

_HONOURED = frozenset((QUEUE, CLASS, BOOST, MIN_PARALLELISM, SYNC_COMPLETIONS, GROUP_NAME, MADE, GATED))
_NO_BEARING = frozenset(
    f"{KUEUE}/{name}"
    for name in (
        "managed", "job-uid", "podset", "workload", "local-queue-name", "cluster-queue-name", "pod-group-total-count",
        "pod-group-fast-admission", "pod-group-serving", "pod-suspending-parent", "role-hash", "retriable-in-group",
        "pod-group-pod-index-label", "pod-group-pod-index", "component-workload-index", "job-owner-gvk", "job-owner-name",
        "podset-required-topology", "podset-preferred-topology", "podset-unconstrained-topology", "podset-slice-required-topology",
        "podset-slice-size", "podset-slice-required-topology-constraints", "podset-group-name", "raycluster-generation",
    )
)  # fmt: skip
_BOOST = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)


def warn_of_marks(manifest: Manifest) -> None:
    """Warns of every Kueue label and annotation that has no effect here."""
    for field in ("labels", "annotations"):
        warn_of_annotations(manifest.meta.object(field))


def warn_of_annotations(fields: Object) -> None:
    """Warns of every Kueue entry of *fields*, labels or annotations, that has no effect here."""
    for name, at in fields.pairs():
        if name.startswith(f"{KUEUE}/") and name not in _HONOURED and name not in _NO_BEARING:
            at.warn("ignored: not supported")


def mark_of(manifest: Manifest, name: str) -> str:
    """The value of *name*, an annotation or label; empty if there is none."""
    return manifest.annotations.get(name) or manifest.labels.get(name, "")


def waits_for(manifest: Manifest) -> str:
    """The reason why an admission gate keeps it out of the queue, as text; empty if none does."""
    gate = manifest.meta.object("annotations").text(GATED)
    return f"its admission is gated by {gate}" if gate else ""


def boost_of(manifest: Manifest) -> int:
    """The amount that its annotation adds to the priority if the feature gate is on."""
    at = manifest.meta.object("annotations").get(BOOST)
    text = at.text() if at else "0"
    if at and (not _BOOST.fullmatch(text) or abs(int(text)) > INT32):
        at.warn("ignored: must be a whole number")
        return 0
    return int(text)
