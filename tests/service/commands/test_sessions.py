"""Sessions in tasks: how many there may be, and how long a key waits.  The backend is simulated, so nobody gets further."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from runrig.domain.access import Grant, Identity, RoleKind
from runrig.domain.errors import Conflict, NotFound, TooMany, Unavailable
from runrig.ports.backend import Program
from runrig.service.commands import sessions
from runrig.service.commands.sessions import Sessions, Ticket
from tests.worlds.service import Desk, desk, do

ANN = Identity("ann", (Grant(RoleKind.ADMIN),))
BOB = Identity("bob", (Grant(RoleKind.ADMIN),))
EXEC = sessions.SessionKind.EXEC


class World:
    """*time*: of the sessions."""

    def __init__(self, it: Desk) -> None:
        self.desk = it
        self.time = 1000.0
        service = it.service
        self.sessions = Sessions(
            service.workflow_queries,
            it.backend,
            service.access,
            service.metrics.sessions,
            now=lambda: self.time,
            of_user=2,
            of_all=3,
        )
        self.id = it.submit("w")
        it.later(0)

    def open(self, identity: Identity = ANN) -> Ticket:
        task = self.sessions.running(self.id, "main")
        workflow = self.desk.service.workflow_queries.head(self.id)
        asked = Ticket(EXEC, task, workflow, identity, program=Program(("ls",)), names=(self.id,))
        return self.sessions.open(asked, user=identity.user)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with desk(tmp_path) as it:
        yield World(it)


def test_key_is_valid_for_a_minute_and_one_connection(world: World) -> None:
    first, second = world.open(), world.open()
    world.time += sessions.KEY_S - 1
    taken = world.sessions.take(first.key, ANN, (EXEC.value, world.id))
    assert taken is not None
    assert world.sessions.take(first.key, ANN, (EXEC.value, world.id)) is None
    world.time += 1
    assert world.sessions.take(second.key, ANN, (EXEC.value, world.id)) is None
    assert world.sessions.over(taken) == "its token is no longer valid"  # ann has no session on this server


def test_number_of_sessions_is_limited_per_user_and_in_total(world: World) -> None:
    first = world.open()
    taken = world.sessions.take(first.key, ANN, (EXEC.value, world.id))
    assert taken is not None
    world.open()
    with pytest.raises(Unavailable, match="too many open sessions by ann"):
        world.open()
    assert b'runrig_sessions_refused_total{why="too_many"} 1.0' in world.desk.service.metrics.text()
    world.open(BOB)
    with pytest.raises(Unavailable, match="too many open sessions in total"):
        world.open(BOB)
    world.time += sessions.KEY_S  # unused ones are dropped, the one in use is kept
    world.open()
    with pytest.raises(Unavailable):
        world.open()
    world.sessions.leave(taken)
    world.open()


def test_session_refused_by_a_limit_is_not_in_the_audit_trail(world: World) -> None:
    world.open()
    world.open()
    with pytest.raises(TooMany):
        world.open()
    trail = world.desk.service.access.events()
    assert [(each.actor, each.what.value, each.user, each.subject) for each in trail] == [
        ("ann", "exec", "ann", f"{world.id}/main")
    ] * 2


def test_after_shutdown_no_session_begins_and_open_ones_are_over(world: World) -> None:
    ticket = world.open()
    world.sessions.close()
    with pytest.raises(Unavailable, match="this server is stopping"):
        world.open()
    assert world.sessions.over(ticket) == sessions.CLOSED


def test_only_running_tasks_can_be_entered(world: World) -> None:
    with pytest.raises(NotFound, match="tasks: main"):
        world.sessions.running(world.id, "other")
    waits = world.desk.submit("second", gpus=2)
    world.desk.later(0)
    with pytest.raises(
        Conflict, match=f"{waits}/main is not running yet. To wait for it: `runrig workflow wait {waits} --for"
    ):
        world.sessions.running(waits, "main")
    ticket = world.open()
    assert world.sessions.runs(ticket)
    do(world.desk.service, world.desk.service.submissions.cancelling(world.id, user="ann", message=""))
    world.desk.later(0)
    world.desk.later(100)  # including its grace period
    assert not world.sessions.runs(ticket)
    with pytest.raises(Conflict, match=r"is FAILED_CANCELED\. Sessions need a running task"):
        world.sessions.running(world.id, "main")


def test_simulated_task_has_no_sessions(world: World) -> None:
    with pytest.raises(Conflict, match=f"{world.id}/main is simulated, so it has no sessions"):
        asyncio.run(world.sessions.passage(world.open()))
