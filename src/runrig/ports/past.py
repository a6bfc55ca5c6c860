"""How the cluster stood at earlier revisions: checkpoints beside the event log, and what the log says of a time."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from runrig.domain.gangs import Gang, PodSet
from runrig.domain.nodes import Flavor, Node
from runrig.domain.pools import Cohort, Pool
from runrig.domain.records import Event, GangRow

Queued = Mapping[str, tuple[Gang, ...]]
"""By workflow, its gangs that wait and are as they were queued: what refused them is not said."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What the cluster is; each sorted by name, flavors by their position."""

    flavors: tuple[Flavor, ...]
    nodes: tuple[Node, ...]
    cohorts: tuple[Cohort, ...]
    pools: tuple[Pool, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Who waited.  *whole*: at some earlier revision, one object for all times after it; *since*: workflows that have changed by then."""

    whole: Queued
    since: Queued

    def of(self, workflow: str) -> tuple[Gang, ...]:
        found = self.since.get(workflow)
        return self.whole.get(workflow, ()) if found is None else found

    def gangs(self) -> Iterator[Gang]:
        for workflow, gangs in self.whole.items():
            if workflow not in self.since:
                yield from gangs
        for gangs in self.since.values():
            yield from gangs

    def unlike(self, other: "Waiting") -> Iterator[str]:
        """Yields the workflows of which *other* says something else.  O(changes since the same *whole*, or all that waited)."""
        known = self.since.keys() | other.since.keys()
        if self.whole is not other.whole:
            known |= self.whole.keys() | other.whole.keys()
        return (workflow for workflow in known if self.of(workflow) != other.of(workflow))


NOBODY = Waiting({}, {})


@dataclass(frozen=True, slots=True)
class Standing:
    """How the cluster stood after *revision*, at *time*.

    *gangs*: all that held or were promised something, or had been refused; *waiting*: all others.  A gang in both stood as in *gangs*.
    """

    revision: int
    time: float
    declared: Declared
    gangs: tuple[GangRow, ...]
    waiting: Waiting = NOBODY


@dataclass(frozen=True, slots=True)
class Present:
    """How the cluster stands, as far as it has to be written.

    *gangs*: as of `Standing`.  *queued*: by workflow, who waits: with *whole* of all that have such gangs, else of those that were
    decided about since the last checkpoint.  *asked*: kinds of gangs that wait or are nominated, and how many there are of each.
    """

    revision: int
    time: float
    declared: Declared
    gangs: tuple[GangRow, ...]
    queued: Queued
    whole: bool
    asked: tuple[tuple[tuple[PodSet, ...], int], ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The sums that a checkpoint keeps, in GPUs.

    *firm*, *low*: held by work that may not borrow, and that may.  *waiting*: asked by what waits.
    *preempted*: gangs that were preempted since the checkpoint before.
    """

    revision: int
    time: float
    firm: int
    low: int
    waiting: int
    preempted: int


@dataclass(frozen=True, slots=True)
class Growth:
    """How much was written to the log between the revisions *after* and *revision*, the latter included.

    *time*: when the last of it was.  *size*: bytes.  *preempted*: the times of preemptions, in order.
    """

    after: int
    revision: int
    time: float
    decisions: int
    size: int
    preempted: tuple[float, ...]

    def and_then(self, more: "Growth") -> "Growth":
        """This and *more*, which follows."""
        decisions, size = self.decisions + more.decisions, self.size + more.size
        return Growth(self.after, more.revision, more.time, decisions, size, self.preempted + more.preempted)


@dataclass(frozen=True, slots=True)
class Moment:
    """The revision that held at a time, and when it was committed."""

    revision: int
    time: float


class PastStore(Protocol):
    """From the first checkpoint on, all that happened is kept: retention deletes those from which something is missing."""

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Returns all, in order."""

    def base(self, revision: int, *, than: int = -1, waiting: bool = True) -> Standing | None:
        """Returns the last checkpoint at or before *revision*; None if there is none after revision *than*.

        *waiting* False: who waited is not read.
        """

    def first_checkpoint(self) -> Checkpoint | None: ...

    def last_checkpoint(self) -> Checkpoint | None: ...

    def growth(self, after: int, upto: int | None = None) -> Growth | None:
        """Returns None if nothing was written to the log after revision *after*."""

    def now(self) -> Present | None:
        """Reads the tables; None before the first revision.

        It costs what holds something and what was decided since the last checkpoint.  Only where as much has changed as there was,
        it costs all that waits.
        """

    def write(self, checkpoint: Checkpoint, present: Present, most: int | None) -> int:
        """Returns the bytes that *present* takes, and makes later ones take; if these are more than *most*, nothing is written."""

    def steps(self, *, after: int, upto: int) -> tuple[Event, ...]:
        """Returns the declarations and decisions of these revisions, in order: all that moves a ledger."""

    def at_time(self, time: float) -> Moment | None:
        """Returns the last revision at or before *time*; None before the first."""

    def at_revision(self, revision: int) -> Moment | None:
        """Returns *revision*, with the time of the last event that the log still has up to it; None before the first."""

    def beside(self, revision: int) -> tuple[int | None, int | None]:
        """Returns the revisions nearest to *revision*, before and after it, in which something was declared or decided."""

    def told(self, *, after: int, upto: int, without: tuple[type, ...]) -> tuple[Event, ...]:
        """Returns the events of these revisions, but for actions of the types *without*, in order."""

    def of_workflow(self, id: str, upto: int) -> tuple[Event, ...]:
        """Returns the log of one workflow up to revision *upto*, in order."""

    def queues(self, ids: Collection[str], upto: int) -> tuple[Event, ...]:
        """Returns how the gangs of the workflows *ids* were queued and released up to revision *upto*, in order."""

    def moves(self, ids: Collection[str], upto: int) -> tuple[Event, ...]:
        """Returns how the workflows *ids* were submitted and moved up to revision *upto*, in order; not their groups and tasks."""
