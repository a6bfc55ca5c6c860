"""Reads pod sets in the form that most job kinds use: templates at fixed paths, with fields that multiply into the
count.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runrig.kueue.read.surroundings import Amounts
from runrig.kueue.read.tree import Object
from runrig.spec.yamltree import Entry, Node

JOB_FIELDS = (
    "parallelism", "completions", "completionMode", "suspend", "template", "activeDeadlineSeconds", "backoffLimit",
    "backoffLimitPerIndex", "managedBy", "manualSelector", "maxFailedIndexes", "podFailurePolicy", "podReplacementPolicy",
    "selector", "successPolicy", "ttlSecondsAfterFinished",
)  # fmt: skip
ELSEWHERE = "running on other clusters is not simulated: treated as if it ran here"
_MULTIKUEUE = "kueue.x-k8s.io/multikueue"
_NO_CONTAINERS = Node({"spec": Entry(None, Node({"containers": Entry(None, Node(()))}))})


@dataclass(frozen=True, slots=True)
class Part:
    """One pod set. *holder*: the mapping with its template in the field *last*; empty *last*: it is the template
    itself.

    *more*: requests of containers that a controller adds.
    """

    name: str
    count: int
    holder: Object
    last: str = "template"
    more: tuple[Amounts, ...] = ()

    @property
    def template(self) -> Object:
        if self.more and not self.holder.has(self.last):
            return self.holder.having(self.last, _NO_CONTAINERS).object(self.last)
        return self.holder.object(self.last) if self.last else self.holder


class Place(NamedTuple):
    """The location of a pod set's template in a spec.

    *at*: a path; if it leads to a list, each item is a pod set. *name*: of the pod set; ``.field``: the value of that
    field.
    *template*: a path from *at*. *times*: fields that multiply into the count; 1 if absent.
    *job*: the path of a Job, if each replica is a Job with its own number of pods.
    *known*: fields at *at* that are read or have no effect; empty: fields are not checked.
    """

    at: str
    name: str
    template: str = "template"
    times: tuple[str, ...] = ()
    job: str = ""
    known: tuple[str, ...] = ()


class Beside(NamedTuple):
    """Input of a job kind in addition to the spec.

    *runtimes*: (namespace, name) → the spec of a training runtime; the namespace is empty for cluster-wide runtimes.
    """

    namespace: str
    annotations: Mapping[str, str]
    runtimes: Mapping[tuple[str, str], Object]


Parts = Callable[[Object, Beside], Sequence[Part]]


def at_places(*places: Place) -> Parts:
    return lambda spec, _beside: [part for place in places for part in parts_at(spec, place)]


def parts_at(spec: Object, place: Place) -> Iterator[Part]:
    for holder in _holders(spec, place.at):
        if place.known:
            holder.only(place.known)
        count = job_pods(below(holder, place.job)) if place.job else 1
        for name in place.times:
            count *= holder.whole(name, 1)
        name = holder.text(place.name[1:]) if place.name.startswith(".") else place.name
        path, _, last = place.template.rpartition(".")
        yield Part(name.lower(), count, below(holder, path), last)


def _holders(spec: Object, path: str) -> Sequence[Object]:
    at = spec
    for name in filter(None, path.split(".")):
        found = at.get(name)
        if found is None:
            return ()
        if isinstance(found.node.value, tuple):
            return [item.object() for item in found.items()]
        at = found.object()
    return [at]


def below(at: Object, path: str) -> Object:
    for name in filter(None, path.split(".")):
        at = at.object(name)
        if name == "template":
            at.only(("metadata", "spec"))
    return at


def warn_if_elsewhere(*holders: Object) -> None:
    """Warns if managedBy in one of *holders* sends the job to other clusters; all other managers run it here."""
    for holder in holders:
        at = holder.get("managedBy")
        if at is not None and at.text() == _MULTIKUEUE:
            at.warn(ELSEWHERE)


def job_pods(spec: Object) -> int:
    """Number of pods of a Job that run at the same time."""
    spec.only(JOB_FIELDS)
    parallelism = spec.whole("parallelism", 1)
    return min(parallelism, spec.whole("completions", parallelism))
