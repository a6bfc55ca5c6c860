"""Which workflows wait for others, or for elements of arrays, to end (rule W5). Follows from `Workflow.after`, so it is not stored."""

from collections.abc import Callable, Iterator

from runrig.domain.after import After
from runrig.domain.replacing import replace
from runrig.domain.workflows import Group, Status, Workflow
from runrig.engine.state.tables import Tables


class Dependents:
    """*decided*: ids of workflows whose wait is over, because it was met or can no longer be met, but which have not been
    queued or ended yet. Workflows on hold only if it can no longer be met.
    """

    def __init__(self) -> None:
        self.decided: set[str] = set()
        self._of: dict[str, set[str]] = {}

    def put(self, state: Tables, workflow: Workflow) -> None:
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

    def follow(self, state: Tables, workflow: Workflow, *, submitted: bool = False) -> Iterator[Workflow]:
        """Follows a change of *workflow*, as `put`. Yields the changed rows of those that wait for it, if it has ended, or for
        the failed workflow that it repeats, if it was just *submitted*.
        """
        self.put(state, workflow)
        if workflow.status.finished:
            yield from self._renew(state, workflow.id, lambda each: _ended(state, each, workflow))
        elif submitted and workflow.parent is not None:
            yield from self._renew(state, workflow.parent, lambda each: _moved(state, each, workflow))

    def follow_element(self, state: Tables, group: Group) -> Iterator[Workflow]:
        """Follows a change of *group*. Yields the changed rows of those that wait for this element."""
        if group.status.finished and group.workflow in self._of:
            workflow = state.workflows[group.workflow]
            yield from self._renew(state, workflow.id, lambda each: _ended(state, each, workflow))

    def _renew(self, state: Tables, whose: str, change: Callable[[After], After]) -> Iterator[Workflow]:
        for id in sorted(self._of.get(whose, ())):
            waiting = state.workflows[id]
            after = tuple(change(each) if each.workflow == whose else each for each in waiting.after)
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


def _ended(state: Tables, each: After, workflow: Workflow) -> After:
    """*each* waits for *workflow*, or for an element of it that is alive."""
    element = state.groups.get((workflow.id, each.element))
    if element is not None and (ended := element.status.alone) is not None:
        return replace(each, ended=ended)
    return replace(each, ended=workflow.status) if workflow.status.finished else each


def _moved(state: Tables, each: After, restart: Workflow) -> After:
    """A restart of what had failed may lack the element of *each*."""
    if each.ended is None or (each.element and (restart.id, each.element) not in state.groups):
        return each
    return replace(each, workflow=restart.id, ended=None)
