"""What would let a workflow start: asked of the mirror, told as far as the one who asks may see and do it."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from runrig.domain.access import Identity, Permission, allows
from runrig.domain.changes import Change, Counterfactual, Effect, Ended, Tried, Who
from runrig.domain.errors import Unavailable
from runrig.domain.pools import PoolState
from runrig.engine.foresight.would_start import Foresight, starting_changes
from runrig.engine.scheduling.verdicts import at_rest
from runrig.engine.state.state import State
from runrig.ports.clock import Clock
from runrig.service.mirror.asker import Asker, NoBranches, drained
from runrig.service.mirror.mirror import GivenUp
from runrig.service.mirror.turns import Turns
from runrig.service.queries.redaction import Names
from runrig.service.queries.visibility import Visibility
from runrig.service.queries.workflow_queries import WorkflowQueries

WITHIN_S = 30.0
AT_ONCE = 4
"""Searches at once: each has a branch of the mirror."""


@dataclass(frozen=True, slots=True)
class ForeseenView:
    """*answers*, *tried*: each with its group.  *at_rest*: the next cycle does nothing without a change."""

    workflow: str
    revision: int
    at_rest: bool
    answers: tuple[tuple[str, Counterfactual], ...]
    tried: tuple[tuple[str, Tried], ...]


class ChangeQueries:
    def __init__(self, asker: Asker, workflows: WorkflowQueries, clock: Clock) -> None:
        self._asker, self._workflows, self._clock = asker, workflows, clock
        self._turns = Turns(AT_ONCE, "searches for what would start a workflow are under way")

    def would_start(self, id: str, identity: Identity, *, others: bool, depth: int) -> ForeseenView:
        """*others* False: only what the owner can change.  Of administrators' changes only those that *identity* may make.

        Without a mirror, in a large cluster, only the owner's changes are looked at, and only while the cluster is at rest.
        Raises NotFound, and Unavailable if the search takes too long, if too many ask, or if it takes a mirror.
        """
        visibility = Visibility(identity)
        workflow = self._workflows.place(id, visibility).id
        who = [Who.OWNER, Who.WAIT] if others else [Who.OWNER]
        if others and allows(identity, Permission.CHANGE_CLUSTER):
            who.append(Who.ADMIN)
        try:
            with self._turns.one():
                answer, revision = self._search(workflow, identity, tuple(who), depth)
        except GivenUp as error:
            raise Unavailable(
                f"what would let {workflow} start was not found within {WITHIN_S:g} s: ask again, or for the owner's changes alone"
            ) from error
        names = Names(visibility, self._workflows.pool_of)
        return _told(workflow, revision, answer, names)

    def _search(self, workflow: str, identity: Identity, who: tuple[Who, ...], depth: int) -> tuple[Foresight, int]:
        """Raises NoBranches if there is no mirror, and looks at the gangs of *workflow* alone do not tell."""
        now = self._clock.now()
        try:
            answers, revision = self._asker.ask_branches(
                (foresee, (workflow, identity, who, depth, now)), within_s=WITHIN_S
            )
        except NoBranches:
            if who != (Who.OWNER,) or depth > 1:
                raise
            found, revision = self._asker.ask_in_steps(look, workflow, identity, now)
            if found is None:
                raise
            return found, revision
        return answers[0], revision


def foresee(state: State, workflow: str, identity: Identity, who: Sequence[Who], depth: int, now: float) -> Foresight:
    """`starting_changes`, with the pools that *identity* may submit to."""
    return drained(_foresee(state, workflow, identity, who, depth, now))


def look(state: State, workflow: str, identity: Identity, now: float) -> Generator[None, None, Foresight | None]:
    """The owner's changes, for which at rest a look at the gang is enough; None: the next cycle has somebody else to look at first."""
    if not at_rest(state.ledger):
        return None
    return (yield from _foresee(state, workflow, identity, (Who.OWNER,), 1, now))


def _foresee(
    state: State, workflow: str, identity: Identity, who: Sequence[Who], depth: int, now: float
) -> Generator[None, None, Foresight]:
    active = sorted(name for name, pool in state.pools.items() if pool.state is PoolState.ACTIVE)
    pools = [name for name in active if allows(identity, Permission.SUBMIT, pool=name)]
    return starting_changes(state, workflow, pools, who, depth, now)


def _told(workflow: str, revision: int, found: Foresight, names: Names) -> ForeseenView:
    return ForeseenView(
        workflow,
        revision,
        all(foreseen.at_rest for _, foreseen in found),
        tuple((group, _shown(answer, names)) for group, foreseen in found for answer in foreseen.answers),
        tuple((group, tried) for group, foreseen in found for tried in foreseen.tried),
    )


def _shown(answer: Counterfactual, names: Names) -> Counterfactual:
    effects = dict.fromkeys(Effect(names.one(each.gang), each.fate) for each in answer.instead_of)
    return replace(
        answer,
        changes=tuple(_change(each, names) for each in answer.changes),
        stops=names.several(answer.stops),
        instead_of=tuple(effects),
        placement=(),
    )


def _change(change: Change, names: Names) -> Change:
    """Hides names in *change*: only ended work can belong to others whom one does not see."""
    return Ended(names.several(change.workflows)) if isinstance(change, Ended) else change
