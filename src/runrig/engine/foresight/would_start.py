"""Finds changes that would let the groups of a workflow start: the search of `counterfactual` for all of its waiting gangs.

Takes a whole state and names, and returns plain values, so that another process can run it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

from runrig.domain.changes import Change, Who
from runrig.domain.errors import Conflict, Refused
from runrig.domain.gangs import Gang, GangState, Priority
from runrig.domain.steps import Steps
from runrig.engine.foresight.counterfactual import Foreseen, Search
from runrig.engine.foresight.dials import Reach
from runrig.engine.ledger.queue import Entry
from runrig.engine.lifecycle.limits import check_moved
from runrig.engine.lifecycle.reassignments import reassign
from runrig.engine.lifecycle.submission_gate import check_flavors, check_open, refusal
from runrig.engine.state.state import State

Foresight = tuple[tuple[str, Foreseen], ...]
"""Group names and answers, in the order of the file; groups that are not waiting in the queue are left out."""


def starting_changes(
    state: State,
    workflow: str,
    pools: Sequence[str],
    who: Sequence[Who],
    depth: int,
    now: float,
    makes: Callable[[Change], bool] = lambda _: True,
) -> Steps[Foresight]:
    """Searches for changes that would start the waiting groups of *workflow*.

    *pools*: those that the user may submit to. *makes*: see `Reach`. *who*: whose dials are tried. *depth* 2: also pairs of the
    owner's changes.

    Empty if the workflow is unknown or has ended. Yields after each value tried; the state is then unchanged.
    """
    if workflow not in state.workflows:
        return ()

    @cache
    def reassigned(pool: str, priority: Priority) -> bool:
        try:
            reassign(state, workflow, pool=pool, priority=priority)
        except (Conflict, Refused):
            return False
        return True

    reach = Reach(
        tuple(name for name in pools if name in state.pools),
        frozenset(who),
        partial(_most_s, state),
        lambda gang: _accepted(state, gang, reassigned),
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


def _accepted(state: State, gang: Gang, reassigned: Callable[[str, Priority], bool]) -> bool:
    """Whether the gate would accept *gang*: as *reassigned* with its whole workflow, or submitted again if more has changed. The
    capacity of empty nodes is not checked for that: if it is too small, the search finds nothing.
    """
    if refusal(state, Entry.of(gang), nodes=False) is not None:
        return False
    workflow, _, group = gang.id.partition("/")
    before = state.ledger.entries[gang.id].gang
    if gang == replace(before, pool=gang.pool, priority=gang.priority):
        return reassigned(gang.pool, gang.priority)
    platforms = {each.name: each.platform for each in gang.pod_sets}
    try:
        check_open(state, state.pools[gang.pool])
        check_moved(state, state.workflows[workflow], gang.pool)
        for task in state.group_spec((workflow, group)).tasks:
            check_flavors(state, state.pools[gang.pool], replace(task, platform=platforms[task.name]))
    except Refused:
        return False
    return True


def make_ready(state: State) -> None:
    """Updates what every search reads of *state*, so that a process forked now has it. O(gangs added since)."""
    state.ledger.holdings.refresh(partial(_most_s, state))
    state.ledger.candidates.refresh()


def _most_s(state: State, workflow: str) -> float | None:
    return state.spec_of(workflow).exec_timeout_s
