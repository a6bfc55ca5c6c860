"""The acceptance list of the subpools' proposal, on both stores: quota, refusal, waiting, archiving (laws S1-S3, P2, P3, R1)."""

from collections.abc import Iterator

import pytest

from runrig.domain.errors import Refused
from runrig.domain.gangs import Priority
from tests.properties.subpools.restartable_server import RestartableServer
from tests.properties.subpools.witness import Witness

HIGH, LOW = Priority.HIGH, Priority.LOW


@pytest.fixture
def server(any_store: str) -> Iterator[RestartableServer]:
    """100 GPUs on one node.  What happened is looked at once more in the end, revision by revision."""
    with RestartableServer(any_store) as server:
        yield server
        Witness(server.store).follow()


def fill(server: RestartableServer, **gpus: int) -> None:
    for short, amount in gpus.items():
        server.submit(f"team--{short}", HIGH, amount)
    server.settle()


def test_ac1_pool_without_subpools_can_use_all_of_its_quota(server: RestartableServer) -> None:
    server.pool("team", 100)
    id = server.submit("team", HIGH, 50)
    server.settle()
    assert server.status(id) == "RUNNING"
    assert server.numbers("team") == (100, 100, 50, 50)


def test_ac2_unallocated_quota_without_subpools_is_the_whole_quota(server: RestartableServer) -> None:
    server.pool("team", 100)
    assert server.numbers("team") == (100, 100, 0, 100)


def test_ac3_subpool_takes_its_share_from_unallocated_quota(server: RestartableServer) -> None:
    server.pool("team", 100)
    server.service.subpools.create("team", "a", 30, user="ann")
    assert server.numbers("team") == (100, 70, 0, 70)
    assert server.numbers("team--a") == (30, 30, 0, 30)


def test_ac4_high_above_the_unallocated_quota_is_rejected_and_low_runs(server: RestartableServer) -> None:
    server.pool("team", 100, a=30, b=40, c=20)
    before = server.contents()
    with pytest.raises(Refused, match="pool team has 10 unallocated") as refused:
        server.submit("team", HIGH, 15)
    assert server.contents() == before
    asked = {name: refused.value.details[name] for name in ("asked", "unallocated", "quota")}
    assert asked == {"asked": 15, "unallocated": 10, "quota": 100}
    ids = []
    for _ in range(3):
        ids.append(server.submit("team", LOW, 5))
        server.settle()
    assert [server.status(id) for id in ids] == ["RUNNING"] * 3
    assert (server.view("team").now.gpus.used, server.view("team").now.gpus.total) == (0, 15)
    # 10 are within the unallocated quota; 5 use the subpools' shares, and are preempted when these are needed.
    fill(server, a=30, b=40, c=20)
    assert [server.status(id) for id in ids] == ["RUNNING", "RUNNING", "PENDING"]


def test_ac4_low_gang_above_the_unallocated_quota_runs_too(server: RestartableServer) -> None:
    server.pool("team", 100, a=30, b=40, c=20)
    id = server.submit("team", LOW, 15)
    server.settle()
    assert server.status(id) == "RUNNING"


def test_ac5_work_of_a_subpool_does_not_count_as_its_parents_own(server: RestartableServer) -> None:
    server.pool("team", 100, a=30)
    id = server.submit("team--a", HIGH, 12)
    server.settle()
    assert server.status(id) == "RUNNING"
    assert server.numbers("team--a") == (30, 30, 12, 18)
    assert server.numbers("team") == (100, 70, 0, 70)
    assert server.view("team").now.gpus.subtree_used == 12


def test_ac6_idle_subpool_is_archived_immediately_and_returns_its_share(server: RestartableServer) -> None:
    server.pool("team", 100, a=30, b=40)
    assert server.numbers("team")[1] == 30
    done = server.service.subpools.delete("team", "a", user="ann")
    assert (done.view.pool.state.value, done.cancelled) == ("ARCHIVED", ())
    assert server.numbers("team") == (100, 60, 0, 60)
    assert [view.pool.name for view in server.service.queries.pools()] == ["team", "team--b"]
    assert [view.pool.name for view in server.service.queries.pools(archived=True)] == ["team", "team--a", "team--b"]


def test_ac7_work_that_fits_the_unallocated_quota_but_not_now_waits_and_low_runs(server: RestartableServer) -> None:
    server.pool("team", 100, a=30, b=40, c=20)
    older = server.submit("team", HIGH, 8)
    server.settle()
    waits = server.submit("team", HIGH, 5)
    within, above = server.submit("team", LOW, 2), server.submit("team", LOW, 3)
    server.settle()
    assert [server.status(id) for id in (older, waits, within, above)] == ["RUNNING", "PENDING", "RUNNING", "RUNNING"]
    assert server.numbers("team") == (100, 10, 8, 2)
    fill(server, a=30, b=40, c=20)
    assert [server.status(id) for id in (older, waits, within, above)] == ["RUNNING", "PENDING", "RUNNING", "PENDING"]
    server.finish(older)
    assert server.status(waits) == "RUNNING"


def test_ac8_larger_share_comes_from_unallocated_quota(server: RestartableServer) -> None:
    server.pool("team", 100, a=30, b=40)
    server.service.subpools.resize("team", "b", 50, user="ann")
    assert server.numbers("team--b") == (50, 50, 0, 50)
    assert server.numbers("team--a") == (30, 30, 0, 30)
    assert server.numbers("team") == (100, 20, 0, 20)
