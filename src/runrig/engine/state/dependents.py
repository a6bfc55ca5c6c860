"""Which workflows wait for others to end (rule W5). Follows from `Workflow.after`, so it is not stored."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from runrig.domain.after import After
from runrig.domain.workflows import Group, Status, Workflow


class _Tables(Protocol):
    workflows: dict[str, Workflow]

    def groups_of(self, workflow: str) -> list[Group]: ...


class Dependents:
    """*decided*: ids of workflows whose wait is over, because it was met or can no longer be met, but which have not been
    queued or ended yet. Workflows on hold only if it can no longer be met.
    """

    def __init__(self) -> None:
        self.decided: set[str] = set()
        self._of: dict[str, set[str]] = {}

    def put(self, state: _Tables, workflow: Workflow) -> None:
        """Follows a change of *workflow* or its groups. O(its groups) if it waits for others, otherwise O(1)."""
        if not workflow.after:
            return
        waits = not workflow.status.finished and all(
            group.status is Status.WAITING for group in state.groups_of(workflow.id)
        )
        self._forget(workflow)
        for each in workflow.after if waits else ():
            self._of.setdefault(each.workflow, set()).add(workflow.id)
        missed = any(each.missed for each in workflow.after)
        met = not workflow.waits_for_others and workflow.held_by is None
        (self.decided.add if waits and (missed or met) else self.decided.discard)(workflow.id)

    def follow(self, state: _Tables, workflow: Workflow, *, submitted: bool = False) -> Iterator[Workflow]:
        """Follows a change of *workflow*, as `put`. Yields the changed rows of those that wait for it, if it has ended, or for
        the failed workflow that it repeats, if it was just *submitted*.
        """
        self.put(state, workflow)
        whose = workflow.id if workflow.status.finished else workflow.parent if submitted else None
        for id in sorted(self._of.get(whose or "", ())):
            waiting = state.workflows[id]
            after = tuple(_after(each, workflow) if each.workflow == whose else each for each in waiting.after)
            if after != waiting.after:
                self._forget(waiting)
                waiting = replace(waiting, after=after)
                self.put(state, waiting)
                yield waiting

    def _forget(self, workflow: Workflow) -> None:
        for each in workflow.after:
            among = self._of.get(each.workflow, set())
            among.discard(workflow.id)
            if not among:
                self._of.pop(each.workflow, None)


def _after(each: After, workflow: Workflow) -> After:
    if workflow.status.finished:
        return replace(each, ended=workflow.status)
    return each if each.ended is None else replace(each, workflow=workflow.id, ended=None)
