"""Pod sets as most kinds of jobs have them: templates at fixed places, each with fields that multiply into its count."""

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
ELSEWHERE = "running on other clusters is out of scope: it counts as if it ran here"
_MULTIKUEUE = "kueue.x-k8s.io/multikueue"
_NO_CONTAINERS = Node({"spec": Entry(None, Node({"containers": Entry(None, Node(()))}))})


@dataclass(frozen=True, slots=True)
class Part:
    """One pod set.  *holder*: the mapping that has the template, as its field *last*; empty: it is the template.

    *more*: requests of containers that are added.
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
    """Where the template of a pod set stands.

    *at*: a path; below a list, each item is a pod set of its own.  *name*: of the pod set; ``.field``: as that field says.
    *template*: a path from there.  *times*: fields that multiply into the count, 1 where they are absent.  *job*: the path of a Job
    that each of these has, with its own number of pods.  *known*: all fields there that are read or have no bearing; empty: not asked.
    """

    at: str
    name: str
    template: str = "template"
    times: tuple[str, ...] = ()
    job: str = ""
    known: tuple[str, ...] = ()


class Beside(NamedTuple):
    """What stands beside the spec of a job, and what it refers to.

    *runtimes*: (namespace, name) → the spec of a training runtime; one of the cluster has no namespace.
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
    """Warns where the field managedBy of one of *holders* sends the job to other clusters; other managers run it here."""
    for holder in holders:
        at = holder.get("managedBy")
        if at is not None and at.text() == _MULTIKUEUE:
            at.warn(ELSEWHERE)


def job_pods(spec: Object) -> int:
    """How many pods of a Job run at once."""
    spec.only(JOB_FIELDS)
    parallelism = spec.whole("parallelism", 1)
    return min(parallelism, spec.whole("completions", parallelism))
