"""The state once more, from the event log.

Of workflows that had their time the log says nothing any more.  What is alive does not depend on them, but for two things:
the numbers that they were given, which are kept apart, and gangs that once waited for theirs to stop.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from runrig.domain.plan import Action, Nominate, Submit
from runrig.domain.records import Event
from runrig.domain.workflows import WorkflowSpec
from runrig.engine.state import State


def replay(
    events: Iterable[Event],
    spec_of: Callable[[str], WorkflowSpec],
    *,
    numbers: Mapping[str, int] | None = None,
    revision: int | None = None,
) -> State:
    """*spec_of*: the specification with a hash; *numbers*: the highest of those that are gone, by name.

    *revision*: that of the state, where the last events may be gone; else that of the last event.
    """
    state = State.empty()
    state.numbers = dict(numbers or {})
    for event in events:
        action = _without_the_gone(state, event.action)
        if isinstance(action, Submit):
            wanted = action.workflow.spec_hash
            state.specs[wanted] = spec_of(wanted)
        state.apply(action, event.time)
        state.revision = event.revision
    state.take_changes()  # what has finished leaves the memory with the commit
    state.revision = state.revision if revision is None else revision
    return state


def _without_the_gone(state: State, action: Action) -> Action:
    if isinstance(action, Nominate):
        there = tuple(target for target in action.targets if target in state.ledger.entries)
        return action if there == action.targets else replace(action, targets=there)
    return action
