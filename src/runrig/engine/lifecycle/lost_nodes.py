"""Lost nodes: which attempts ended with them, and whether their pods can restart on other nodes (rule T1)."""

from collections.abc import Generator, Iterable, Mapping

from runrig.domain.observed import Observation, Phase, TaskFact
from runrig.domain.plan import Action, Replace
from runrig.domain.workflows import ExitCode, Status, Task, TaskKey
from runrig.engine.lifecycle.exit_codes import concerns_all, starts_again
from runrig.engine.state.replacement import find_replacement
from runrig.engine.state.state import State

Lost = Mapping[TaskKey, TaskFact]
"""Attempts that ended on nodes where they cannot restart, and how.

Their node was removed, or the backend lost them on a node that accepts no new pods.
"""


def unsettled(state: State, observed: Observation, among: set[TaskKey] | None = None) -> list[TaskKey]:
    """The active attempts that may require a change. Nearly all are running, as before, on existing nodes.

    O(active attempts), but only set operations for those in `Observation.running`: attempts on a removed node end in the cycle
    that reports it, so none of these is on one. *among*: only these are examined; None: all.
    """
    tasks, nodes = state.tasks.records, state.nodes
    active = state.active if among is None else state.active & among
    moving = active - observed.running | state.unsteady & active
    if observed.nodes is not None:
        moving |= {key for key in active if (node := tasks[key].node) is not None and node not in nodes}
    if state.aside:
        moving = {key for key in moving if key.workflow not in state.aside}
    return [
        key
        for key in moving
        if (fact := observed.fact(key)) is None
        or fact.phase is not Phase.RUNNING
        or (task := tasks[key]).status is not Status.RUNNING
        or (task.node is not None and task.node not in nodes)
    ]


def lost_in(state: State, observed: Observation, attempts: Iterable[TaskKey]) -> Lost:
    """The lost ones among the active *attempts*."""
    found = {}
    tasks, nodes = state.tasks.records, state.nodes
    for key in attempts:
        task = tasks[key]
        if task.node is None:
            continue
        node, fact = nodes.get(task.node), fact_of(key, task, observed)
        if node is None:
            found[key] = fact if fact is not None and fact.phase is Phase.ENDED else _gone(task)
        elif fact is None or fact.exit_code != ExitCode.BACKEND_ERROR:
            continue
        elif not state.ledger.nodes.takes(node.name, node.flavor):
            found[key] = fact
    return found


def _gone(task: Task) -> TaskFact:
    return TaskFact(Phase.ENDED, ExitCode.BACKEND_ERROR, f"lost: {task.node} is gone")


def never_begun(state: State, observed: Observation, lost: Lost) -> dict[str, str]:
    """Gangs that lost a node before anything ran, and why. They lost no work, so they are placed again (rule T7)."""
    found = {}
    for key in lost:
        task, seen = state.tasks[key], observed.fact(key)
        group = state.groups[task.workflow, task.group]
        if seen is not None and seen.phase is Phase.STARTING and group.status is Status.INITIALIZING:
            found[group.gang_id] = f"node {task.node} is gone"
    return found


def fact_of(key: TaskKey, task: Task, observed: Observation) -> TaskFact | None:
    """The backend's report on *task*; a running task that it no longer knows has ended."""
    fact = observed.fact(key)
    if fact is None and task.status is Status.RUNNING:
        return TaskFact(Phase.ENDED, ExitCode.BACKEND_ERROR, f"lost: {task.node} no longer reports it")
    return fact


def in_turn(state: State, active: Iterable[TaskKey], lost: Lost) -> list[TaskKey]:
    """*active* attempts by key; if some are lost, by gang in the order of rule P4, so that gangs ahead find room first."""
    keys = sorted(active)
    if lost:
        entries = state.ledger.entries
        keys.sort(key=lambda key: entries[_gang_id(state.tasks[key])].order)
    return keys


def find_new_nodes(state: State, task: Task, lost: Lost) -> Generator[Action, None, bool]:
    """Whether the pod has a node to restart on. If its node is lost, all lost pods of the gang are moved together."""
    slot = state.slot(task)
    if task.key not in lost or slot is None or slot.node != task.node:
        return True
    live = [each for each in state.current_tasks((task.workflow, task.group)) if not each.status.finished]
    moving = [each for each in live if each.key in lost and _moves(state, each, lost[each.key], by=task)]
    placement = find_replacement(
        state.ledger,
        state.ledger.entries[_gang_id(task)],
        lost={(each.spec, each.index) for each in moving},
        staying={(each.spec, each.index) for each in live if each.key not in lost},
    )
    if placement is None:
        return False
    yield Replace(_gang_id(task), placement)
    return True


def _moves(state: State, task: Task, fact: TaskFact, *, by: Task) -> bool:
    """Whether *task* restarts, by its own rules or because *by* does."""
    code = ExitCode.UNKNOWN if fact.exit_code is None else fact.exit_code
    return concerns_all(state, by) or starts_again(state, task, code)


def _gang_id(task: Task) -> str:
    return f"{task.workflow}/{task.group}"
