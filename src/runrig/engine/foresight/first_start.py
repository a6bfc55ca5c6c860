"""When waiting gangs start if nothing is submitted or changed, and all work runs until its time limit.

The whole engine runs forward in a branch, from one deadline to the next, so nothing is estimated. Work without a time limit
never ends here, so a gang that waits for it has no time.
"""

from collections.abc import Iterator

from runrig.domain.errors import FailedAt
from runrig.domain.gangs import GangState
from runrig.domain.steps import Steps
from runrig.domain.workflows import Status
from runrig.engine.foresight.branch import Budget, Edit, StateBranch
from runrig.engine.lifecycle.workflows import next_deadline
from runrig.engine.state.state import State

MOST_GANGS = 3
"""Gangs of a workflow, the first ones, that are followed."""
MOST_DEADLINES = 300
MOST_STEPS = 30_000
"""Gangs evaluated and changes made before the run gives up."""
HORIZON_S = 30 * 86_400.0


FirstStart = tuple[str, float, tuple[str, ...]]
"""The group, when it starts, and the workflows that reach their time limit then."""


def first_starts(state: State, workflow: str, now: float) -> Steps[tuple[FirstStart, ...]]:
    """Returns the waiting groups of *workflow* that start at a later time, in the order of the file. Uses *state* up."""
    waiting = dict(list(_waiting(state, workflow))[:MOST_GANGS])
    order, found = list(waiting.values()), list[FirstStart]()
    moment, steps = now, 0
    for _ in range(MOST_DEADLINES):
        if not waiting:
            break
        branch = StateBranch(state, Edit(), moment, Budget(steps=MOST_STEPS - steps), starting_runs=True)
        try:
            yield from branch.run()
        except FailedAt:
            break  # The server will set this workflow aside then, so what follows is unknown.
        steps += branch.steps
        for gang in [gang for gang in waiting if _settled(state, gang)]:
            group = waiting.pop(gang)
            if moment > now and gang in state.ledger.placed:
                found.append((group, moment, branch.stopped_by(Status.FAILED_EXEC_TIMEOUT)))
        due = next_deadline(state)
        if not branch.rests or due is None or not moment < due <= now + HORIZON_S:
            break
        moment = due
    return tuple(sorted(found, key=lambda each: order.index(each[0])))


def _waiting(state: State, workflow: str) -> Iterator[tuple[str, str]]:
    """Yields the gangs that wait in the queue, with their groups; none if the workflow is unknown or has been removed."""
    for group in state.groups_of(workflow) if workflow in state.workflows else ():
        entry = state.ledger.entries.get(group.gang_id)
        if entry is not None and entry.state is GangState.PENDING:
            yield group.gang_id, group.name


def _settled(state: State, gang: str) -> bool:
    """True if it has started, or has ended without having started."""
    entry = state.ledger.entries.get(gang)
    return entry is None or entry.state is GangState.ADMITTED
