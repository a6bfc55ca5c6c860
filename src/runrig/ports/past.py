"""How the cluster stood at earlier revisions: checkpoints beside the event log, and what the log says of a time."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from runrig.domain.nodes import Flavor, Node
from runrig.domain.pools import Cohort, Pool
from runrig.domain.records import Event, GangRow


@dataclass(frozen=True, slots=True)
class Declared:
    """What the cluster is; each sorted by name, flavors by their position."""

    flavors: tuple[Flavor, ...]
    nodes: tuple[Node, ...]
    cohorts: tuple[Cohort, ...]
    pools: tuple[Pool, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """What the cluster is, and every gang in it, after *revision*, at *time*."""

    revision: int
    time: float
    declared: Declared
    gangs: tuple[GangRow, ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a row says beside the standing itself, in GPUs.

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
    """What the log has between the revisions *after* and *revision*, the latter included.

    *time*: of the last of it.  *size*: bytes.  *preempted*: the times of preemptions, in order.
    """

    after: int
    revision: int
    time: float
    decisions: int
    size: int
    preempted: tuple[float, ...]

    def and_then(self, more: "Growth") -> "Growth":
        """With *more*, which follows."""
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
        """All, in order."""

    def base(self, revision: int, *, than: int = -1) -> Standing | None:
        """The last checkpoint at or before *revision*; None if there is none after revision *than*."""

    def first_checkpoint(self) -> Checkpoint | None: ...

    def last_checkpoint(self) -> Checkpoint | None: ...

    def growth(self, after: int, upto: int | None = None) -> Growth | None:
        """What the log has after revision *after*; None: nothing."""

    def now(self) -> Standing | None:
        """As the tables say; None before the first revision."""

    def write(self, checkpoint: Checkpoint, standing: Standing, most: int | None) -> int:
        """Returns the bytes that *standing* takes; more than *most* is not written."""

    def steps(self, *, after: int, upto: int) -> tuple[Event, ...]:
        """The declarations and decisions of these revisions, in order: all that moves a ledger."""

    def at_time(self, time: float) -> Moment | None:
        """The last revision at or before *time*; None before the first."""

    def at_revision(self, revision: int) -> Moment | None:
        """*revision*, or the last one before it of which the log still has something; None before the first."""

    def beside(self, revision: int) -> tuple[int | None, int | None]:
        """The revisions nearest to *revision*, before and after it, in which something was declared or decided."""

    def told(self, *, after: int, upto: int, without: tuple[type, ...]) -> tuple[Event, ...]:
        """The events of these revisions, but for actions of the types *without*, in order."""

    def of_workflow(self, id: str, upto: int) -> tuple[Event, ...]:
        """The log of one workflow up to revision *upto*, in order."""

    def moves(self, ids: Collection[str], upto: int) -> tuple[Event, ...]:
        """How the workflows *ids* were submitted and moved up to revision *upto*, in order; not their groups and tasks."""
