"""Finds what would let the groups of a workflow start: the search of `counterfactual`, for all of its gangs that wait.

Asked of a state as a whole, by name: the answer is a value, so that another process can give it.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial

from runrig.domain.changes import Change, Who
from runrig.domain.errors import Refused
from runrig.domain.gangs import Gang, GangState
from runrig.engine.foresight.counterfactual import Foreseen, Search
from runrig.engine.foresight.dials import Reach
from runrig.engine.ledger.queue import Entry
from runrig.engine.lifecycle.submission_gate import check_flavors, refusal
from runrig.engine.state.state import State

Foresight = tuple[tuple[str, Foreseen], ...]
"""Group names and answers, in the order of the file; groups that do not wait in the queue are left out."""


def starting_changes(
    state: State,
    workflow: str,
    pools: Sequence[str],
    who: Sequence[Who],
    depth: int,
    now: float,
    makes: Callable[[Change], bool] = lambda _: True,
) -> Generator[None, None, Foresight]:
    """*pools*: to which the one who asks may submit.  *makes*: as of `Reach`.  *who*: whose dials are turned.
    *depth* 2: also pairs of the owner's changes.

    Empty if the workflow is not known, or has ended.  Yields after each value that was tried: then, and afterwards, the state is
    what it was.
    """
    if workflow not in state.workflows:
        return ()
    reach = Reach(
        tuple(name for name in pools if name in state.pools),
        frozenset(who),
        partial(_most_s, state),
        lambda gang: _accepted(state, gang),
        lambda name: [group.gang_id for group in state.groups_of(name)],
        makes,
    )
    found = []
    for group in state.groups_of(workflow):
        entry = state.ledger.entries.get(group.gang_id)
        if entry is not None and entry.state is GangState.PENDING:
            search = Search(state.ledger, entry, reach, now)
            found.append((group.name, (yield from search.run(depth=depth))))
    return tuple(found)


def _accepted(state: State, gang: Gang) -> bool:
    """Whether the gate would take *gang* so.  What the nodes could ever hold is left to the search, which finds no place then."""
    if refusal(state, Entry(gang), nodes=False) is not None:
        return False
    workflow, _, group = gang.id.partition("/")
    platforms = {each.name: each.platform for each in gang.pod_sets}
    try:
        for task in state.group_spec((workflow, group)).tasks:
            check_flavors(state, state.pools[gang.pool], replace(task, platform=platforms[task.name]))
    except Refused:
        return False
    return True


def make_ready(state: State) -> None:
    """Brings up to date what each search reads of *state*: a process that is forked now finds it.  O(gangs that came since)."""
    state.ledger.holdings.refresh(partial(_most_s, state))
    state.ledger.candidates.refresh()


def _most_s(state: State, workflow: str) -> float | None:
    return state.spec_of(workflow).exec_timeout_s
