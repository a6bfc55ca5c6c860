"""A branch: a separate state, changed by an edit and run forward at one moment until it settles.

Work that must stop has stopped immediately, and nothing ends by itself. Pure: the result is an `Outcome`. The state is used up.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from runrig.domain.budgets import HeldBefore
from runrig.domain.gangs import Placement
from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import Action, Admit, MoveGroup, Preempt, Queue, Refuse, Release, Replace, Stop
from runrig.domain.shown.plans import PlanGang
from runrig.domain.workflows import ExitCode, Status, TaskKey, WorkflowSpec
from runrig.engine.cycle import STEP, CycleInParts
from runrig.engine.foresight.outcome import (
    Outcome,
    Stopped,
    admitted,
    drains,
    excesses,
    hopeless,
    plan_gang,
    pool_rows,
    stays,
)
from runrig.engine.lifecycle.gangs import gang_of
from runrig.engine.state.state import State

STEPS_PER_PART = 120
"""Number of evaluations or changes between two checks of the budget."""

_STARTING, _RUNNING = TaskFact(Phase.STARTING), TaskFact(Phase.RUNNING)
_STOPPED = TaskFact(Phase.ENDED, 143)


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit that a plan tries. *actions*: as the command would commit them. *specs*: those that they need, by hash.

    *lost*: nodes that lose their pods; the actions remove them from service. *drained*: nodes that are drained (rule
    N2). *held*: what new budgets begin with; None: they are not in force (rule W7).
    """

    actions: tuple[Action, ...] = ()
    specs: Mapping[str, WorkflowSpec] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    drained: frozenset[str] = frozenset()
    held: HeldBefore | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """When a branch stops even if it has not settled. *steps*: gangs evaluated and changes made; never measured in time."""

    cycles: int = 100
    steps: int = 200_000


class StateBranch:
    """Changes *state*. Exhaust `run`, then call `outcome`. *starting_runs*: admitted tasks run immediately."""

    def __init__(
        self, state: State, edit: Edit, now: float, budget: Budget = Budget(), *, starting_runs: bool = False
    ) -> None:
        self._state, self._now, self._budget = state, now, budget
        self._starting = _RUNNING if starting_runs else _STARTING
        self._edit = edit
        self._at_first = {gang: entry.placement for gang, entry in admitted(state).items()}
        self._touched: dict[str, None] = {}
        self._placements: dict[str, Placement] = {}
        self._stopped: dict[str, Stopped] = {}
        self._moved: set[str] = set()
        self._ended: dict[str, Status] = {}
        self._cycles = self.steps = 0
        self.rests = False

    def run(self) -> Iterator[None]:
        """Yields between parts, where the caller may abandon it."""
        self._state.specs.update(self._edit.specs)
        self._state.apply_all(self._edit.actions, self._now)
        self._note(self._edit.actions)
        lost = self._edit.lost
        while not self.rests and self._cycles < self._budget.cycles and self.steps < self._budget.steps:
            changed = False
            running = CycleInParts(self._state, self._observed(lost), self._now)
            while not running.ended and self.steps < self._budget.steps:
                actions = running.part(STEPS_PER_PART * STEP).actions
                self._note(actions)
                self.steps += max(STEPS_PER_PART, len(actions))
                changed = changed or bool(actions)
                yield
            self._cycles += 1
            self.rests = running.ended and not changed
            lost = frozenset()

    def _observed(self, lost: frozenset[str]) -> Observation:
        """An observation in which everything that must stop, and everything on the nodes in *lost*, has ended; the rest still runs."""
        state, tasks = self._state, self._state.tasks
        facts: dict[TaskKey, TaskFact] = {}
        for key in state.unsteady:
            facts[key] = self._starting if tasks[key].status is Status.INITIALIZING else _RUNNING
        for key in state.active if lost else ():
            if (node := tasks[key].node) in lost:
                facts[key] = TaskFact(Phase.ENDED, ExitCode.BACKEND_ERROR, f"lost: {node} is gone")
        for gang in state.ledger.stopping:
            workflow, _, group = gang.partition("/")
            for task in state.current_tasks((workflow, group)):
                if task.key in state.active:
                    facts[task.key] = _STOPPED
        return Observation(facts, running=state.active - facts.keys(), held=self._edit.held)

    # ------------------------------------------------------------ what happened

    def stopped_by(self, cause: Status) -> tuple[str, ...]:
        """Returns the workflows with groups that were stopped with this status."""
        stopped = (gang for gang, why in self._stopped.items() if why.cause == cause.value)
        return tuple(dict.fromkeys(gang.partition("/")[0] for gang in stopped))

    def _note(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Admit(gang, placement):
                    self._placements[gang] = placement
                    self._touched[gang] = None
                case Preempt(gang, by, law):
                    self._stop(gang, Stopped(by, law))
                case Stop(gang, cause):
                    self._stop(gang, Stopped(cause=cause.value))
                case Refuse(gang, said):
                    self._stop(gang, Stopped(cause=said))
                case Replace(gang):
                    self._moved.add(gang)
                    self._touched[gang] = None
                case Release(gang):
                    self._touched[gang] = None
                case Queue(waiting):
                    self._ended.pop(waiting.id, None)
                    self._touched[waiting.id] = None
                case MoveGroup(workflow, group, status) if status.finished:
                    self._ended[f"{workflow}/{group}"] = status
                    self._touched[f"{workflow}/{group}"] = None

    def _stop(self, gang: str, why: Stopped) -> None:
        self._stopped.setdefault(gang, why)
        self._touched[gang] = None

    def outcome(self, *, nodes: bool) -> Outcome:
        """*nodes*: True if the edit can change what fits on empty nodes."""
        state, now = self._state, admitted(self._state)
        return Outcome(
            revision=state.revision,
            rests=self.rests,
            cycles=self._cycles,
            ran={gang: self._at_first.get(gang) for gang in self._touched},
            runs={gang: now[gang].placement if gang in now else None for gang in self._touched},
            parties={gang: self._party(gang) for gang in self._touched},
            began=frozenset(gang for gang in self._placements if gang in now),
            stopped=self._stopped,
            moved=frozenset(self._moved),
            ended=self._ended,
            pools=pool_rows(state),
            never=hopeless(state, nodes=nodes),
            excesses=excesses(state),
            drains=drains(state),
            stays=stays(state, self._edit.drained),
        )

    def _party(self, id: str) -> PlanGang:
        """Describes a gang by its workflow, because released gangs are not in the ledger; ended ones are still in the state."""
        workflow, _, group = id.partition("/")
        gang = gang_of(self._state.workflows[workflow], self._state.group_spec((workflow, group)))
        return plan_gang(gang, self._at_first.get(id, self._placements.get(id, ())))
