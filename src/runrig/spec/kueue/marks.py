"""Labels and annotations of the queue system on work: which are honoured, and warnings for the rest."""

import re

from runrig.spec.kueue.names import KUEUE, Manifest
from runrig.spec.kueue.tree import INT32, Value

QUEUE = f"{KUEUE}/queue-name"
CLASS = f"{KUEUE}/priority-class"
BOOST = f"{KUEUE}/priority-boost"
MIN_PARALLELISM = f"{KUEUE}/job-min-parallelism"
SYNC_COMPLETIONS = f"{KUEUE}/job-completions-equal-parallelism"
POD_SET = f"{KUEUE}/podset"
WORKLOAD = f"{KUEUE}/workload"

_HONOURED = frozenset((QUEUE, CLASS, BOOST, MIN_PARALLELISM, SYNC_COMPLETIONS))
_NO_BEARING = frozenset(
    f"{KUEUE}/{name}" for name in ("managed", "job-uid", "podset", "workload", "local-queue-name", "cluster-queue-name")
)
_BOOST = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)


def warn_of_marks(manifest: Manifest) -> None:
    """Warns of every label and annotation of the queue system that has no effect here."""
    for field in ("labels", "annotations"):
        for name, at in manifest.meta.object(field).pairs():
            if name.startswith(f"{KUEUE}/") and name not in _HONOURED and name not in _NO_BEARING:
                at.warn("not supported: not read")


def boost_of(manifest: Manifest) -> int:
    """The amount the annotation adds to the priority, if its feature gate is on."""
    at = manifest.meta.object("annotations").get(BOOST)
    return _boost(at) if at else 0


def _boost(at: Value) -> int:
    text = at.text()
    if not _BOOST.fullmatch(text) or abs(int(text)) > INT32:
        at.warn("not a whole number: not read")
        return 0
    return int(text)
