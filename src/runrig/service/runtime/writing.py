"""A running command: its decisions are applied to the state immediately, and stored at the end of its turn."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from runrig.domain.errors import RunrigError
from runrig.domain.plan import Plan, Submit, law_of
from runrig.domain.records import Event, Note, RowChange, Said
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Workflow
from runrig.engine.state.state import State
from runrig.ports.store import SpecText
from runrig.service.runtime import logs

R = TypeVar("R")

Touched = Mapping[str, WorkflowStatus | None]
"""Workflows changed by a commit: id and uuid → new status, None if unchanged."""

_OF_WORKFLOWS = ("Workflow", "Group", "Task")
"""Records whose key begins with the id of a workflow."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A plan that was applied to the state and must be stored.

    *changes*: the affected rows. *request*: its id, "" if there is none. *needs*: submitted workflow → group → groups that it
    needs first, without those that need none.
    """

    number: int
    plan: Plan
    at: float
    actor: str
    changes: tuple[RowChange, ...]
    specs: tuple[SpecText, ...] = ()
    request: str = field(default_factory=logs.current)
    needs: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)

    @classmethod
    def of(cls, state: State, plan: Plan, at: float, actor: str, specs: tuple[SpecText, ...] = ()) -> "Revision":
        """Returns the next revision of *state*, to which *plan* was applied."""
        state.revision += 1
        needs = {}
        for workflow in [each.workflow for each in plan.actions if isinstance(each, Submit)]:
            groups = state.specs[workflow.spec_hash].groups
            if found := {each.name: each.upstream for each in groups if each.upstream}:
                needs[workflow.id] = found
        return cls(state.revision, plan, at, actor, state.take_changes(), specs, needs=needs)

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
    """A command reads *state*, decides at *now*, and commits at most once; its commit is stored after it returns.

    If it raises, or its commit cannot be stored, nothing changes. *said*: stored with the commit. *rejected*: what it rejects without
    raising it, for the log.
    """

    def __init__(self, state: State, now: float, actor: str) -> None:
        self.state = state
        self.now = now
        self.actor = actor
        self.revision: Revision | None = None
        self.said: Said | None = None
        self.rejected: list[RunrigError] = []

    @property
    def committed(self) -> bool:
        return self.revision is not None

    def commit(self, plan: Plan, *specs: SpecText) -> None:
        """Applies *plan*, to be stored later. Of *specs* only those without a live workflow, because the others are stored."""
        assert not self.committed, "a command commits once"
        if plan.actions:
            specs = tuple(spec for spec in specs if spec.hash not in self.state.specs)
            self.state.specs.update((spec.hash, spec.spec) for spec in specs)
            self.state.apply_all(plan.actions, self.now)
            revision = Revision.of(self.state, plan, self.now, self.actor, specs)
            if self.said is not None:
                note = Note(revision.number, self.said.description, self.said.tags)
                change = RowChange("Note", (note.revision,), note)
                revision = replace(revision, changes=(*revision.changes, change))
            self.revision = revision


class Trial(Writing):
    """A command decides on it, and nothing changes. *plan*: what it would commit."""

    plan = Plan(())

    def commit(self, plan: Plan, *specs: SpecText) -> None:  # noqa: ARG002
        self.plan = plan


class Job:
    """A decision that *actor* requests. *outcome*: what *decide* returned or raised, after its turn."""

    def __init__(self, actor: str, decide: Callable[[Writing], object]) -> None:
        self.actor = actor
        self.decide = decide
        self.request = logs.current()
        self.outcome: object = None
        self.revision: Revision | None = None

    def fail(self, error: Exception) -> None:
        self.outcome, self.revision = error, None

    def ended(self, command: "Command[R]") -> R | Exception:
        """Returns the result of the rest of *command*, which requested this job, or what it raises."""
        how = command.throw if isinstance(self.outcome, Exception) else command.send
        found = step(partial(how, self.outcome))
        assert not isinstance(found, Job), "a command asks for one job"
        return found


Command = Generator[Job, Any, R]
"""A command: the work before its turn, the job that it yields, and the work on the job's result or exception. Only the
job runs under the lock. A command that needs none yields none.
"""


def step(go: Callable[[], Job]) -> Job | Any | Exception:
    """Returns the job that a command requests when *go* resumes it; else what it returned or raised."""
    try:
        return go()
    except StopIteration as end:
        return end.value
    except Exception as error:  # noqa: BLE001 - passed on to the caller
        return error
