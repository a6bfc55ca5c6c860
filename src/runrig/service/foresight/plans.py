"""Plans: the effects of an edit, computed in two branches of the state in the mirror process.

Nothing is stored, and the state of the server is only read.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from runrig.domain.budgets import HeldBefore, Owner, Scope
from runrig.domain.errors import RunrigError, Unavailable
from runrig.domain.plan import PutPool, Submit
from runrig.domain.pools import BudgetReached, Pool
from runrig.domain.shown.dry_run import WorkflowDryRun
from runrig.domain.shown.limits import BudgetPreview
from runrig.domain.shown.plans import Plan
from runrig.engine.foresight.branch import Budget, Edit, StateBranch
from runrig.engine.foresight.consequences import concerns_nodes, consequences
from runrig.engine.foresight.outcome import Outcome
from runrig.engine.lifecycle import budgets
from runrig.engine.lifecycle.gangs import first_gangs
from runrig.engine.state.state import State
from runrig.ports.clock import Clock
from runrig.service.commands.declarations import Declarations
from runrig.service.commands.declared import declared_change
from runrig.service.commands.submission import elements_of
from runrig.service.commands.submissions import Submissions
from runrig.service.foresight import questions
from runrig.service.foresight.dry_runs import DryRuns
from runrig.service.foresight.questions import Deed, OfDrain, OfEdit, OfNodes, OfSubmission, Question
from runrig.service.foresight.seen import seen, with_names
from runrig.service.mirror.asker import Asker
from runrig.service.mirror.leaving import Leaving
from runrig.service.mirror.mirror import GivenUp
from runrig.service.mirror.turns import Turns
from runrig.service.queries.visibility import Visibility
from runrig.service.runtime.transactor import Transactor

AT_ONCE = 2
"""Maximum concurrent plans: each has two branches, and uses two processors."""

LONGEST_S = 600.0
"""A branch that takes longer is stuck: its budget limits work, not time."""


@dataclass(eq=False, repr=False)
class Plans:
    """*held_before*: as in `Reconciler`."""

    _transactor: Transactor
    _clock: Clock
    _asker: Asker
    _declarations: Declarations
    _submissions: Submissions
    _dry_runs: DryRuns
    _held_before: Callable[[Collection[Scope]], HeldBefore | None]

    def __post_init__(self) -> None:
        self._turns = Turns("plans", at_once=AT_ONCE, of_all=AT_ONCE)

    def shown(self, question: Question, *, user: str, visibility: Visibility, leaving: Leaving) -> Plan | None:
        """As `plan`; None if the client disconnected. Raises Unavailable if it takes too long."""
        try:
            return self.plan(question, user=user, visibility=visibility, leaving=leaving)
        except GivenUp:
            if leaving.left:
                return None
            raise Unavailable("the plan took too long. Ask for a smaller change") from None

    def plan(self, question: Question, *, user: str, visibility: Visibility, leaving: Leaving) -> Plan:
        """Returns the effects of *question*, limited to *visibility*.

        Raises the errors of the command itself; Unavailable if too many are waiting; GivenUp if the client disconnects.
        """
        with self._turns.turn(leaving=leaving):
            now = self._clock.now()
            with self._transactor.reading() as state:
                revision = state.revision
                deed, edit, changes = questions.understood(
                    self._declarations, self._submissions, state, question, user, visibility, now
                )
                uncounted = state.budgets.new(edit.actions)
            held = self._held_before(uncounted) if uncounted else None
            params = (concerns_nodes(edit), now, Budget(), leaving)
            found, _ = self._asker.ask_branches(
                (outcome_without, params), (outcome_with, (deed, held, *params)), within_s=LONGEST_S, sent=leaving.sent
            )
            without, with_it = found
            if not (isinstance(without, Outcome) and isinstance(with_it, Outcome)):
                raise Unavailable(
                    f"the cluster changed in the meantime ({with_it}). Run the plan again", {"retry_after_s": 1}
                )
            differ = consequences(without, with_it)
            as_seen = seen(replace(differ, revision=min(revision, differ.revision)), visibility)
            with self._transactor.reading() as state:
                shown = with_names(as_seen, lambda id: _groups(state, id, deed) == 1)
                budget = _budget(state, deed, edit, now, held)
        return replace(
            shown,
            changes=tuple(map(declared_change, changes)),
            nodes=deed.names if isinstance(deed, OfDrain | OfNodes) else (),
            verdict=self._verdict(edit, deed, visibility),
            budget=budget,
        )

    def _verdict(self, edit: Edit, deed: Deed, visibility: Visibility) -> WorkflowDryRun | None:
        """Returns the result of the next cycle for a submission; None for any other edit."""
        match edit.actions, deed:
            case (Submit(workflow), *_), OfSubmission(parsed):
                spec = parsed.spec.spec
                if gangs := first_gangs(workflow, spec):
                    return self._dry_runs.of(gangs, visibility, elements_of(spec))
        return None


def _budget(state: State, deed: Deed, edit: Edit, now: float, held: HeldBefore | None) -> BudgetPreview | None:
    """The effect of the budget of a pool if *deed* changes it."""
    match deed, edit.actions:
        case OfEdit(), (PutPool(pool, Pool() as old), *_) if pool.parent is None and pool.budget is not None:
            reached = pool.budget_reached or BudgetReached.STOP
            if (pool.budget, reached) != (old.budget, old.budget_reached or BudgetReached.STOP):
                return budgets.preview(state, (Owner.POOL, pool.name), (pool.budget, reached), now, held)
    return None


def _groups(state: State, id: str, deed: Deed) -> int:
    """Returns the number of groups of the workflow *id*; 0 if it no longer exists. A new workflow is the one that
    *deed* would submit.
    """
    if id in state.workflows:
        return len(state.groups_of(id))
    return len(deed.parsed.spec.spec.groups) if isinstance(deed, OfSubmission) else 0


# ---------------------------------------------------------------- in a branch


def outcome_without(state: State, nodes: bool, now: float, budget: Budget, leaving: Leaving) -> Outcome | str:
    """Returns the outcome once *state* settles without an edit. Changes *state*."""
    return _outcome(state, lambda _: Edit(), nodes, now, budget, leaving)


def outcome_with(
    state: State, deed: Deed, held: HeldBefore | None, nodes: bool, now: float, budget: Budget, leaving: Leaving
) -> Outcome | str:
    """Returns the outcome with *deed*; a message if it is no longer possible, because *state* is newer than the
    question. *held*: see `Edit`.
    """
    return _outcome(
        state, lambda each: replace(questions.edit_of(each, deed, now), held=held), nodes, now, budget, leaving
    )


def _outcome(
    state: State, edit: Callable[[State], Edit], nodes: bool, now: float, budget: Budget, leaving: Leaving
) -> Outcome | str:
    try:
        branch = StateBranch(state, edit(state), now, budget)
    except RunrigError as error:
        return error.message
    for _ in branch.run():
        if leaving.left:
            raise GivenUp("the one who asks has left")
    return branch.outcome(nodes=nodes)
