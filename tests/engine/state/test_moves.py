"""Steps that `domain.transitions` does not list raise and change nothing, for gangs, groups and tasks."""

from collections.abc import Iterator

import pytest

from runrig.domain.gangs import Assignment, Law, NodeShare, Priority
from runrig.domain.plan import (
    Action,
    Admit,
    MoveGroup,
    MoveTask,
    Nominate,
    Preempt,
    Queue,
    Refuse,
    Release,
    Replace,
    RestartTask,
    RetryTask,
    SetPriority,
    Stop,
    TryAgain,
    Withdraw,
)
from runrig.domain.transitions import GANG, GROUP, TASK, IllegalStep
from runrig.domain.workflows import Status, TaskKey
from runrig.engine.lifecycle.gangs import gang_of
from runrig.engine.state.state import State
from tests.properties.ledgers import portrait
from tests.worlds.engine import World

GANG_ID, KEY, GROUP_KEY = "w-1/t-group", TaskKey("w-1", "t", 0), ("w-1", "t-group")
PLACE = (Assignment("t", "default", 1, (NodeShare("n0", 1, (0,)),)),)
PREEMPTED = Status.FAILED_PREEMPTED

LIFE: tuple[Action, ...] = (
    Nominate(GANG_ID, PLACE, ()),
    Withdraw(GANG_ID),
    Admit(GANG_ID, PLACE),
    MoveTask(KEY, Status.RUNNING),
    MoveGroup(*GROUP_KEY, Status.RUNNING),
    Preempt(GANG_ID, "x-1/g", Law.PRIORITY),
    MoveTask(KEY, PREEMPTED, 3006),
    Release(GANG_ID),
    MoveGroup(*GROUP_KEY, PREEMPTED),
)
"""What happens to a gang that is preempted, after it was queued."""


def submitted(*steps: Action) -> State:
    world = World(nodes={"n0": 1}, pools={"a": 1})
    world.submit("w", "a")
    world.do(*steps)
    world.state.take_changes()
    return world.state


def everything(state: State) -> Iterator[Action]:
    """Every action on the gang, its group and its task, with every status that it can carry."""
    yield Queue(gang_of(state.workflows["w-1"], state.group_spec(GROUP_KEY), 1))
    yield from (Nominate(GANG_ID, PLACE, ()), Withdraw(GANG_ID), Admit(GANG_ID, PLACE), Replace(GANG_ID, PLACE))
    yield from (Preempt(GANG_ID, "x-1/g", Law.RECLAIM), Stop(GANG_ID, Status.FAILED), TryAgain(GANG_ID))
    yield SetPriority(GANG_ID, Priority.LOW)
    yield from (Refuse(GANG_ID, "no", Status.FAILED_BACKEND_ERROR), Release(GANG_ID))
    yield from (RetryTask(KEY), RestartTask(KEY))
    for status in Status:
        yield MoveTask(KEY, status)
        yield MoveGroup(*GROUP_KEY, status)


def is_listed(state: State, action: Action) -> bool:
    kind, task, group = type(action), state.tasks[KEY], state.groups[GROUP_KEY]
    match action:
        case MoveTask(_, status):
            return status in TASK.get((task.status, MoveTask), ())
        case RetryTask() | RestartTask():
            return (task.status, kind) in TASK
        case MoveGroup(_, _, status):
            return status in GROUP.get((group.status, MoveGroup), ())
    entry = state.ledger.entries.get(GANG_ID)
    in_ledger = (None if entry is None else entry.state, kind) in GANG
    moves_group = any(event is kind for _, event in GROUP)
    return in_ledger and (not moves_group or (group.status, kind) in GROUP)


@pytest.mark.parametrize("length", range(len(LIFE) + 1))
def test_a_step_that_is_not_listed_raises_and_changes_nothing(length: int) -> None:
    state = submitted(*LIFE[:length])
    before = state.rows(), portrait(state)
    illegal = [action for action in everything(state) if not is_listed(state, action)]
    assert len(illegal) > 10
    for action in illegal:
        with pytest.raises(IllegalStep):
            state.apply(action, 99)
        assert (state.rows(), portrait(state), state.take_changes()) == (*before, ()), action


@pytest.mark.parametrize("length", range(len(LIFE) + 1))
def test_a_listed_step_is_applied(length: int) -> None:
    legal = [action for action in everything(submitted(*LIFE[:length])) if is_listed(submitted(*LIFE[:length]), action)]
    assert legal
    for action in legal:
        state = submitted(*LIFE[:length])
        state.apply(action, 99)
        assert state.take_changes(), action


def test_the_message_names_the_action_and_the_object() -> None:
    with pytest.raises(IllegalStep, match=r"^w-1/t-group is PENDING: Stop is not possible$"):
        submitted().ledger.apply(Stop(GANG_ID, Status.FAILED), 1)
    with pytest.raises(IllegalStep, match=r"^w-1/t/0 is SCHEDULING: MoveTask cannot make it RUNNING$"):
        submitted().apply(MoveTask(KEY, Status.RUNNING), 1)
