"""Earlier states of the cluster: checkpoints, and queries of the event log by time."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from runrig.domain.gangs import Gang, PodSet
from runrig.domain.limits import Limits
from runrig.domain.nodes import Flavor, Node
from runrig.domain.pools import Cohort, Pool
from runrig.domain.records import Event, GangRow

Queued = Mapping[str, tuple[Gang, ...]]
"""Pending gangs by workflow, as they were queued, without the reasons why they wait."""


@dataclass(frozen=True, slots=True)
class Declared:
    """Flavors by position, limits by user, everything else by name."""

    flavors: tuple[Flavor, ...]
    nodes: tuple[Node, ...]
    cohorts: tuple[Cohort, ...]
    pools: tuple[Pool, ...]
    limits: tuple[Limits, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """Pending gangs. *whole*: at an earlier revision, shared by all later times. *since*: workflows that changed after it."""

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
        """Yields the workflows that differ from *other*. O(changes) if both share *whole*, else O(all pending gangs)."""
        known = self.since.keys() | other.since.keys()
        if self.whole is not other.whole:
            known |= self.whole.keys() | other.whole.keys()
        return (workflow for workflow in known if self.of(workflow) != other.of(workflow))


NOBODY = Waiting({}, {})


@dataclass(frozen=True, slots=True)
class ClusterAt:
    """The state of the cluster after *revision*, at *time*.

    *gangs*: those with a grant or a reservation, and those that were refused. *waiting*: all others. *gangs* wins for a
    gang in both.
    """

    revision: int
    time: float
    declared: Declared
    gangs: tuple[GangRow, ...]
    waiting: Waiting = NOBODY

    def rows(self) -> Iterator[GangRow]:
        """Yields every gang once."""
        known = {row.gang.id for row in self.gangs}
        yield from self.gangs
        yield from (GangRow.waiting(gang) for gang in self.waiting.gangs() if gang.id not in known)


@dataclass(frozen=True, slots=True)
class Present:
    """The current state of the cluster, as far as a checkpoint needs it.

    *gangs*: as in `ClusterAt`. *queued*: pending gangs by workflow; if *whole*, all of them, else those decided since
    the last checkpoint. *asked*: shapes of pending and nominated gangs, with how many there are of each.
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
    """Totals that a checkpoint records, in GPUs.

    *firm*, *low*: in use by work that cannot borrow, and by work that can. *waiting*: requested by pending gangs.
    *preempted*: gangs preempted since the previous checkpoint.
    """

    revision: int
    time: float
    firm: int
    low: int
    waiting: int
    preempted: int


@dataclass(frozen=True, slots=True)
class Growth:
    """How much the log grew after revision *after*, up to and including *revision*.

    *time*: of the last entry. *size*: bytes. *preempted*: times of preemptions, in order.
    """

    after: int
    revision: int
    time: float
    decisions: int
    size: int
    preempted: tuple[float, ...]

    def and_then(self, more: "Growth") -> "Growth":
        """Returns this and *more*, the growth that follows it, as one."""
        decisions, size = self.decisions + more.decisions, self.size + more.size
        return Growth(self.after, more.revision, more.time, decisions, size, self.preempted + more.preempted)


@dataclass(frozen=True, slots=True)
class Moment:
    """A revision and when it was committed."""

    revision: int
    time: float


class PastStore(Protocol):
    """The history since the first checkpoint is complete: retention also deletes checkpoints without their full log."""

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Returns all checkpoints, in order."""

    def base(self, revision: int, *, than: int = -1, waiting: bool = True) -> ClusterAt | None:
        """Returns the last checkpoint at or before *revision*; None if there is none after revision *than*.

        *waiting* False: pending gangs are not read.
        """

    def first_checkpoint(self) -> Checkpoint | None: ...

    def last_checkpoint(self) -> Checkpoint | None: ...

    def growth(self, after: int, upto: int | None = None) -> Growth | None:
        """Returns None if the log has no entry after revision *after*."""

    def now(self) -> Present | None:
        """Reads the tables; None before the first revision.

        Costs the gangs with a grant plus those decided since the last checkpoint. Reads all pending gangs only after as
        many changes.
        """

    def write(self, checkpoint: Checkpoint, present: Present, most: int | None) -> int:
        """Writes a checkpoint unless it needs more than *most* bytes. Returns the bytes that it needs, now and in later
        checkpoints.
        """

    def steps(self, *, after: int, upto: int) -> tuple[Event, ...]:
        """Returns the declarations and decisions of these revisions, in order: everything that changes a ledger."""

    def at_time(self, time: float) -> Moment | None:
        """Returns the last revision at or before *time*; None before the first."""

    def at_revision(self, revision: int) -> Moment | None:
        """Returns *revision* with the time of the last event still logged up to it; None before the first."""

    def beside(self, revision: int) -> tuple[int | None, int | None]:
        """Returns the nearest revisions before and after *revision* with a declaration or decision."""

    def events_between(self, *, after: int, upto: int, without: tuple[type, ...]) -> tuple[Event, ...]:
        """Returns the events of these revisions in order, except actions of the types *without*."""

    def of_workflow(self, id: str, upto: int) -> tuple[Event, ...]:
        """Returns the log of a workflow up to revision *upto*, in order."""

    def queues(self, ids: Collection[str], upto: int) -> tuple[Event, ...]:
        """Returns when the gangs of the workflows *ids* were queued and released, up to revision *upto*, in order."""

    def moves(self, ids: Collection[str], upto: int) -> tuple[Event, ...]:
        """Returns when the workflows *ids* were submitted and moved, up to revision *upto*, in order, without groups and tasks."""
