"""The state once more, from the event log alone (law S6, W2): what the tables say is compared with it.

Of workflows that had their time the log says nothing any more.  What is alive does not depend on them, but for two things:
the numbers that they were given, which are kept apart, and gangs that once waited for theirs to stop.
"""

from dataclasses import replace

from runrig.domain.plan import Action, Nominate, Submit
from runrig.engine.state.state import State
from runrig.store import SqlStore


def replayed(store: SqlStore, until: int | None = None) -> State:
    """As it was at revision *until*; None: now.  The log of *store* from the first entry on, applied to an empty state."""
    revision = store.load().revision if until is None else until
    state = State()
    state.numbers = dict(store.retention.past_numbers())
    for event in store.log.events():
        if event.revision > revision:
            break
        action = _without_the_gone(state, event.action)
        if isinstance(action, Submit):
            wanted = action.workflow.spec_hash
            state.specs[wanted] = store.spec(wanted).spec
        state.apply(action, event.time)
    state.take_changes()  # a commit drops finished workflows from memory
    state.revision = revision  # the last events may have been deleted with their workflows
    return state


def _without_the_gone(state: State, action: Action) -> Action:
    if isinstance(action, Nominate):
        there = tuple(target for target in action.targets if target in state.ledger.entries)
        return action if there == action.targets else replace(action, targets=there)
    return action
