"""A command at work: what it decides is applied to the state at once, and stored when its turn ends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from runrig.domain.plan import Plan, law_of
from runrig.domain.records import Event, RowChange
from runrig.domain.workflows import Workflow, WorkflowStatus
from runrig.engine.state.state import State
from runrig.ports.store import SpecText

T = TypeVar("T")

Touched = Mapping[str, WorkflowStatus | None]
"""Workflows that a commit changed: id → status after it, None if that has not changed; a status also stands under the uuid."""

_OF_WORKFLOWS = ("Workflow", "Group", "Task")
"""Records whose key begins with the id of a workflow."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A plan that was applied to the state, as it is to be stored.  *changes*: the rows that it touched."""

    number: int
    plan: Plan
    at: float
    actor: str
    changes: tuple[RowChange, ...]
    specs: tuple[SpecText, ...] = ()

    @classmethod
    def of(cls, state: State, plan: Plan, at: float, actor: str, specs: tuple[SpecText, ...] = ()) -> "Revision":
        """The next one of *state*, to which *plan* was applied."""
        state.revision += 1
        return cls(state.revision, plan, at, actor, state.take_changes(), specs)

    def events(self) -> list[Event]:
        return [
            Event(self.number, seq, self.at, self.actor, action, law_of(action))
            for seq, action in enumerate(self.plan.actions)
        ]

    def touched(self) -> Touched:
        touched: dict[str, WorkflowStatus | None] = {}
        for change in self.changes:
            if isinstance(change.record, Workflow):
                touched[change.record.id] = touched[change.record.uuid] = change.record.status
            elif change.kind in _OF_WORKFLOWS:
                touched.setdefault(str(change.key[0]), None)
        return touched


class Writing:
    """A command reads *state*, decides at *now*, and commits at most once; what it committed is stored when it has returned.

    If it raises, or what it committed cannot be stored, nothing has changed.
    """

    def __init__(self, state: State, now: float, actor: str) -> None:
        self.state = state
        self.now = now
        self.actor = actor
        self.revision: Revision | None = None

    @property
    def committed(self) -> bool:
        return self.revision is not None

    def commit(self, plan: Plan, *specs: SpecText) -> None:
        """Applies *plan*, so that it is stored; of *specs* those that no live workflow has, for the others are stored."""
        assert not self.committed, "a command commits once"
        if plan.actions:
            specs = tuple(spec for spec in specs if spec.hash not in self.state.specs)
            self.state.specs.update((spec.hash, spec.spec) for spec in specs)
            self.state.apply_all(plan.actions, self.now)
            self.revision = Revision.of(self.state, plan, self.now, self.actor, specs)


class Job(Generic[T]):
    """A command of *actor* that waits for its turn.  *outcome*: what *decide* returned or why it failed, once it has had its turn."""

    def __init__(self, actor: str, decide: Callable[[Writing], T]) -> None:
        self.actor = actor
        self.decide = decide
        self.outcome: T | Exception | None = None
        self.revision: Revision | None = None

    def fail(self, error: Exception) -> None:
        self.outcome, self.revision = error, None
