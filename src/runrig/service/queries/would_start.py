"""Which changes would let a workflow start. The mirror finds them, and the user gets those that they may see and make."""

import os
from collections.abc import Iterator, Sequence
from functools import partial

from runrig.domain.access import Identity, Permission, allows
from runrig.domain.changes import BestEffort, Change, Ended, Fate, MoreGpusOfUser, MoreNominal, Who
from runrig.domain.errors import Unavailable
from runrig.domain.pools import SUBPOOL_DELIMITER, PoolState
from runrig.domain.shown.changes import ForeseenEffect, WorkflowChanges, WouldStart, foreseen_start
from runrig.domain.steps import Steps, drained
from runrig.engine.foresight.counterfactual import Counterfactual
from runrig.engine.foresight.first_start import FirstStart, first_starts
from runrig.engine.foresight.outcome import plan_gang
from runrig.engine.foresight.would_start import Foresight, starting_changes
from runrig.engine.ledger.queue import Entry
from runrig.engine.scheduling.verdicts import at_rest
from runrig.engine.state.state import State
from runrig.ports.clock import Clock
from runrig.service.mirror.asker import Asker, NoBranches
from runrig.service.mirror.leaving import Leaving
from runrig.service.mirror.mirror import GivenUp
from runrig.service.mirror.turns import Turns
from runrig.service.queries.redaction import Names
from runrig.service.queries.visibility import Visibility
from runrig.service.queries.workflow_queries import WorkflowQueries

WITHIN_S = 30.0
AT_ONCE = min(4, max(2, (os.cpu_count() or 1) // 2))
"""Maximum concurrent searches: each has a branch of the mirror, and others need the processors."""
MOST_WAIT = 32
"""Maximum waiting searches, each in its own thread."""
WAIT_S = 10.0
"""Seconds for which each of them waits."""

Searched = tuple[Foresight, dict[str, int], tuple[FirstStart, ...]]
"""The answers, the GPUs of the work that they mention, by name of workflow or gang, and what starts without a change."""


class ChangeQueries:
    def __init__(self, asker: Asker, workflows: WorkflowQueries, clock: Clock) -> None:
        self._asker, self._workflows, self._clock = asker, workflows, clock
        self._turns = Turns("searches for changes", at_once=AT_ONCE, of_all=AT_ONCE + MOST_WAIT, within_s=WAIT_S)

    def would_start(
        self, id: str, identity: Identity, *, others: bool, depth: int, leaving: Leaving | None = None
    ) -> WorkflowChanges:
        """*others* False: only changes that the owner can make. Of administrators' changes, only those that *identity*
        may make.

        Without a mirror, in a large cluster, it only evaluates the owner's changes, and only while the cluster is
        settled. Raises NotFound; Unavailable if the search takes too long, too many are waiting, it requires a mirror,
        or the client disconnects.
        """
        leaving = leaving or Leaving()
        visibility = Visibility(identity)
        workflow = self._workflows.head(id, visibility).id
        who = tuple(Who) if others else (Who.OWNER,)
        try:
            with self._turns.turn(leaving=leaving):
                answer, revision = self._search(workflow, identity, who, depth, leaving)
        except GivenUp as error:
            raise Unavailable(
                f"no change that would start {workflow} was found within {WITHIN_S:g} s. Try again, or search only the owner's changes"
            ) from error
        return _shown(revision, answer, self._workflows.names(visibility, gpus=answer[1]))

    def _search(
        self, workflow: str, identity: Identity, who: tuple[Who, ...], depth: int, leaving: Leaving
    ) -> tuple[Searched, int]:
        """Raises NoBranches if there is no mirror and evaluating the gangs of *workflow* alone is not enough."""
        now = self._clock.now()
        try:
            answers, revision = self._asker.ask_branches(
                (foresee, (workflow, identity, who, depth, now)), within_s=WITHIN_S, sent=leaving.sent
            )
        except NoBranches:
            if who != (Who.OWNER,) or depth > 1:
                raise
            found, revision = self._asker.ask_in_steps(look, workflow, identity, now)
            if found is None:
                raise
            return found, revision
        return answers[0], revision


def foresee(state: State, workflow: str, identity: Identity, who: Sequence[Who], depth: int, now: float) -> Searched:
    """Returns `starting_changes`, limited to those that *identity* may make, and `first_starts`. Uses *state* up."""
    found, gpus = drained(_foresee(state, workflow, identity, who, depth, now))
    return found, gpus, drained(first_starts(state, workflow, now))


def look(state: State, workflow: str, identity: Identity, now: float) -> Steps[Searched | None]:
    """Returns the owner's changes, for which evaluating the gang is enough in a settled cluster; None: the next cycle
    evaluates other gangs first.
    """
    if not at_rest(state.ledger):
        return None
    found, gpus = yield from _foresee(state, workflow, identity, (Who.OWNER,), 1, now)
    return found, gpus, ()


def _foresee(
    state: State, workflow: str, identity: Identity, who: Sequence[Who], depth: int, now: float
) -> Steps[tuple[Foresight, dict[str, int]]]:
    active = sorted(name for name, pool in state.pools.items() if pool.state is PoolState.ACTIVE)
    pools = [name for name in active if allows(identity, Permission.SUBMIT, pool=name)]
    found = yield from starting_changes(state, workflow, pools, who, depth, now, partial(may_make, identity))
    return found, dict(_mentioned(state, found))


def may_make(identity: Identity, change: Change) -> bool:
    """Whether a route allows *change*: the administrators of a pool may change its subpools and its queueing
    policy, but not its guarantees.
    """
    if allows(identity, Permission.CHANGE_CLUSTER):
        return True
    match change:
        case BestEffort(pool) | MoreGpusOfUser(where=pool) if pool:
            return allows(identity, Permission.CHANGE_POOL, pool=pool)
        case MoreNominal(node):
            kind, _, name = node.partition(" ")
            return kind == "pool" and SUBPOOL_DELIMITER in name and allows(identity, Permission.CHANGE_POOL, pool=name)
    return False


def _mentioned(state: State, found: Foresight) -> Iterator[tuple[str, int]]:
    for _, foreseen in found:
        for answer in foreseen.answers:
            for gang in (*answer.stops, *(effect.gang for effect in answer.instead_of)):
                yield gang, _gpus(state.ledger.entries[gang])
            for change in answer.changes:
                if isinstance(change, Ended):
                    for each in change.workflows:
                        held = [state.ledger.entries.get(group.gang_id) for group in state.groups_of(each)]
                        yield each, sum(_gpus(entry) for entry in held if entry is not None and entry.held)


def _gpus(entry: Entry) -> int:
    return plan_gang(entry.gang, entry.placement).gpus


def _shown(revision: int, answer: Searched, names: Names) -> WorkflowChanges:
    found, _, starts = answer
    return WorkflowChanges(
        revision,
        all(foreseen.at_rest for _, foreseen in found),
        tuple(_answer(group, answer, names) for group, foreseen in found for answer in foreseen.answers),
        tuple(tried for _, foreseen in found for tried in foreseen.tried),
        tuple(foreseen_start(group, moment, names.several(after)) for group, moment, after in starts),
    )


def _answer(group: str, answer: Counterfactual, names: Names) -> WouldStart:
    by_fate: dict[Fate, list[str]] = {}
    for effect in answer.instead_of:
        by_fate.setdefault(effect.becomes, []).append(effect.gang)
    return WouldStart(
        group,
        answer.who,
        kinds=tuple(type(change).__name__ for change in answer.changes),
        changes=tuple(str(_change(change, names)) for change in answer.changes),
        verdict=answer.verdict,
        pods=answer.counts,
        stops=names.several(answer.stops),
        instead_of=tuple(
            ForeseenEffect(name, fate) for fate, gangs in by_fate.items() for name in names.several(gangs)
        ),
    )


def _change(change: Change, names: Names) -> Change:
    """Hides names in *change*. Only finished work can belong to users that this one may not see."""
    return Ended(names.several(change.workflows)) if isinstance(change, Ended) else change
