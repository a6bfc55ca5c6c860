"""One leads and the others stand by: whatever ends the leader, nothing is lost, nothing done twice, and soon another leads."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgres
from tests.patience import crowding, until
from tests.stores import store_url
from tests.worlds.command_line import ended

from .load import Load, load
from .servers import Site, site

TAKEOVER_S = 10.0
HANDOVER_S = 2.0
ENOUGH = 5


def longest(promised_s: float) -> float:
    """What is promised of a machine with nothing else to do, on this one now."""
    return promised_s * crowding()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Site]:
    with store_url("postgresql", tmp_path) as url, site(tmp_path, url) as found:
        yield found


def some_more(running: Load) -> None:
    """Returns when a few submissions more are answered."""
    before = len(running.accepted)
    until(lambda: len(running.accepted) >= before + ENOUGH or bool(running.problems))


def settled(here: Site, running: Load) -> None:
    """After the load: who leads works, and what is stored is what was answered."""
    assert "round_failed" not in here.leader().log()
    running.check()
    here.check_log()


def killed(here: Site, times: int) -> None:
    token = here.admin()
    here.start(2)
    here.leader()
    with load(here, token) as running:
        for _ in range(times):
            some_more(running)
            leader = here.leader()
            leader.send(signal.SIGKILL)
            here.forget(leader)
            until(lambda: here.servers[0].ready, longest(TAKEOVER_S), here.logs)
            some_more(running)
            here.start(1)
    assert running.longest_s < longest(TAKEOVER_S)
    settled(here, running)


def test_leader_killed_three_times_under_load_is_replaced_and_nothing_is_lost(here: Site) -> None:
    killed(here, 3)


@pytest.mark.soak
def test_leader_killed_twenty_times_under_load_is_replaced_and_nothing_is_lost(here: Site) -> None:
    killed(here, 20)


@pytest.mark.parametrize("sleeps_s", [0, pytest.param(60, marks=pytest.mark.soak)])
def test_leader_that_was_suspended_commits_nothing_when_it_wakes_and_stands_by(here: Site, sleeps_s: int) -> None:
    """*sleeps_s*: for so long after another leads."""
    token = here.admin()
    here.start(2)
    leader = here.leader()
    (other,) = here.others(leader)
    with load(here, token) as running:
        some_more(running)
        leader.stop()
        logged = len(leader.log())
        until(lambda: other.ready, longest(TAKEOVER_S), here.logs)
        some_more(running)
        time.sleep(sleeps_s)  # the duration itself is the requirement
        leader.send(signal.SIGCONT)
        until(lambda: leader.says("/healthz")[0] == 200)
        assert leader.says("/readyz")[0] == 503
        until(lambda: "another server is the leader" in str(leader.says("/readyz")[1]))
        some_more(running)
    assert other.ready
    # It may still report what it stored just before it was stopped, and so before all that the other one stored.
    first = min(other.committed(0))
    assert [each for each in leader.committed(logged) if each >= first] == []
    assert running.longest_s < longest(TAKEOVER_S)
    settled(here, running)


def test_leader_that_is_stopped_hands_over_immediately(here: Site) -> None:
    token = here.admin()
    here.start(2)
    leader = here.leader()
    (other,) = here.others(leader)
    with load(here, token) as running:
        some_more(running)
        leader.send(signal.SIGTERM)
        until(lambda: other.ready, longest(HANDOVER_S), here.logs)
        assert leader.wait() == 0
        here.forget(leader)
        some_more(running)
    assert running.longest_s < longest(HANDOVER_S + 1)
    settled(here, running)


def test_of_servers_started_together_on_an_empty_database_one_leads(tmp_path: Path) -> None:
    with store_url("postgresql", tmp_path, tables=False) as url, site(tmp_path, url) as here:
        here.start(3)
        leader = here.leader()
        until(
            lambda: all("another server is the leader" in str(each.says("/readyz")[1]) for each in here.others(leader))
        )
        assert leader.ready
        assert "event=not_durable" in leader.log()  # of a test PostgreSQL without fsync
        assert [each.says("/healthz")[0] for each in here.servers] == [200, 200, 200]
        status, answer = here.others(leader)[0].says("/api/pool_quota")
        assert (status, answer["error_code"]) == (503, "UNAVAILABLE")
        here.check_log()


def test_restarted_database_is_used_again_by_the_leader(tmp_path: Path) -> None:
    server = postgres.start(postgres.IN_TESTS)
    with server.database() as name, site(tmp_path, server.url(name)) as here:
        token = here.admin()
        here.start(2)
        here.leader()
        with load(here, token) as running:
            some_more(running)
            server.restart()
            some_more(running)
            here.leader()
            some_more(running)
        assert running.longest_s < longest(TAKEOVER_S)
        running.check()
        here.check_log()


def test_leader_whose_session_was_taken_over_steps_down(here: Site) -> None:
    """The fencing alone, without a standby that waits: a later epoch is enough."""
    here.start(1)
    leader = here.leader()
    name = here.database.partition("@/")[2].partition("?")[0]
    postgres.server().sql("UPDATE meta SET epoch = epoch + 1; UPDATE leader SET epoch = epoch + 1", name)
    until(lambda: not leader.ready, longest(4))
    until(lambda: leader.ready)  # no other server runs: it begins a new term
    assert "event=leading_ended stopping=False" in leader.log()


def test_on_sqlite_a_second_server_refuses_and_names_the_first(tmp_path: Path) -> None:
    with site(tmp_path, "data/runrig.db") as here:
        (first,) = here.start(1)
        until(lambda: first.ready)
        start = time.monotonic()
        second = ended(*here.arguments())
        assert (second.code, second.out) == (10, "")
        assert f"is in use by the server with process id {first._process.pid} on " in second.err
        assert time.monotonic() - start < longest(TAKEOVER_S)
        assert first.ready
