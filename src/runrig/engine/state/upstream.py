"""The groups that a group waits for inside its workflow (rule W1)."""

from collections.abc import Iterable, Iterator

from runrig.domain.workflows import Group, Status
from runrig.engine.state.state import State


def ready_groups(state: State, groups: Iterable[Group]) -> Iterator[Group]:
    """Yields those of *groups* that are WAITING, but not for other groups."""
    return (each for each in groups if each.status is Status.WAITING and not groups_before(state, each))


def groups_before(state: State, group: Group) -> tuple[str, ...]:
    """Groups that must be COMPLETED before *group* is queued but are not, in the order of the file."""
    upstream = state.group_spec((group.workflow, group.name)).upstream
    return tuple(name for name in upstream if state.groups[group.workflow, name].status is not Status.COMPLETED)
