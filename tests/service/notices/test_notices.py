"""Users are told about their workflows: each event once, whatever breaks, and without names of other teams."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import func, select, text

from runrig.domain.access import role_named
from runrig.domain.errors import Conflict
from runrig.domain.gangs import Priority
from runrig.domain.notices import Delivery, When
from runrig.domain.value import at
from runrig.service.notices import notices
from runrig.service.notices.webhook import Webhook
from runrig.store import schema
from tests.patience import PATIENCE_S, until
from tests.service.notices.mailbox import Mailbox, mailbox
from tests.service.notices.receiver import HERE, Receiver, receiving
from tests.worlds.service import T0, Desk, desk, one_task, submit

EVERYTHING = tuple(When)
COHORT = """
cohorts: [{name: lab}]
pools:
- {name: pool1, cohort: lab, quota: 2}
- {name: pool2, cohort: lab, quota: 2}
"""


@contextmanager
def world(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Desk, Receiver]]:
    monkeypatch.setattr(notices, "PAUSES_S", (0.0, 0.0))
    with receiving(folder) as (there, trusts), desk(folder / "data", cluster=COHORT) as it:
        it.service.notices._webhook = Webhook(HERE, trusts)
        yield it, there


def turn_on(it: Desk, url: str, user: str = "ann", when: tuple[When, ...] = EVERYTHING, min_run_s: int = 0) -> None:
    it.service.notices.set(user, url, when, min_run_s, it.service.stored)


def rest(it: Desk, user: str = "ann") -> str:
    """Delivers until nothing waits for *user*; returns the last result."""
    end = time.monotonic() + PATIENCE_S
    it.service.notices.collect()
    while it.store.notices.waiting(user) or user in it.service.notices._sending:
        assert time.monotonic() < end, it.service.notices.shown(user)
        it.service.notices.send()
        time.sleep(0.005)
    return it.service.notices.shown(user).result


def test_users_get_notices_about_their_own_work_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch) as (it, there):
        before = it.submit("before")
        it.service.settle()
        turn_on(it, there.url)
        id = it.submit("train", duration=30)
        submit(it.service, one_task("other"), "pool2", "bob", None)
        it.later(0)
        it.later(200)
        assert rest(it) == "delivered"
        told = [(each["event"], each["id"], each["status"]) for each in there.documents]
        assert told[0] == ("start", id, "RUNNING")
        assert sorted(told[1:]) == [("done", before, "COMPLETED"), ("done", id, "COMPLETED")]
        document = there.documents[0]
        assert document["address"] == f"/workflow/{id}"
        assert document["at"] == at(T0 + 2).isoformat()
        assert list(document) == ["event", "id", "pool", "user", "status", "cause", "law", "at", "address"]


def test_notice_for_which_there_is_no_thread_is_sent_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with world(tmp_path, monkeypatch) as (it, there):
        turn_on(it, there.url)
        it.submit("train")
        it.later(0)
        it.service.notices.collect()
        for _ in range(notices.SENDERS + 1):
            with monkeypatch.context() as without_threads:
                without_threads.setattr(threading.Thread, "start", full)
                with pytest.raises(RuntimeError):
                    it.service.notices.send()
        assert (rest(it), len(there.documents)) == ("delivered", 1)


def test_preemptor_is_named_only_to_users_who_can_see_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch) as (it, there):
        for user, role in (("ann", "pool1-user"), ("vera", "viewer")):
            it.service.access.users.create(user, [role_named(role)], actor="root")
        for user in ("vera", "ann"):
            turn_on(it, there.url, user, (When.PREEMPT,))
            submit(it.service, one_task(f"{user}work", gpus=2, duration=9_000), "pool1", user, Priority.LOW)
            it.later(1)
        submit(it.service, one_task("rival", gpus=2, duration=9_000), "pool2", "bob", None)
        it.later(1)
        submit(it.service, one_task("mine", gpus=2, duration=9_000), "pool1", "ann", None)
        it.later(1)
        rest(it, "ann")
        rest(it, "vera")
        causes = {each["user"]: (each["law"], each["cause"]) for each in there.documents}
        assert sorted(causes) == ["ann", "vera"]
        assert ("rival" in causes["ann"][1], "work of another pool" in causes["ann"][1]) == (False, True)
        assert "mine-1" in causes["vera"][1]
        assert {law for law, _ in causes.values()} == {"R1", "R2"}


def test_short_runs_and_unselected_events_cause_no_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch) as (it, there):
        turn_on(it, there.url, when=(When.DONE,), min_run_s=60)
        it.submit("short", duration=30)
        long = it.submit("long", duration=90)
        it.later(0)
        it.later(40)
        it.later(60)
        rest(it)
        assert [(each["event"], each["id"]) for each in there.documents] == [("done", long)]


def test_notice_is_retried_with_the_same_id_and_then_abandoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch) as (it, there):
        turn_on(it, there.url, when=(When.START,))
        there.answers = [500, 500, 204]
        it.submit("a")
        it.later(0)
        assert rest(it) == "delivered"
        there.answers = [500, 500, 500]
        it.submit("b")
        it.later(0)
        assert rest(it) == "localhost answered with status 500 (given up)"
        ids = [headers["x-runrig-delivery"] for headers, _ in there.got]
        assert (len(set(ids[:3])), len(set(ids[3:])), len(ids)) == (1, 1, 6)


def test_running_server_sends_notices_of_its_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch) as (it, there):
        turn_on(it, there.url, when=(When.START,))
        it.service.notices.thread.start()
        for name in ("a", "b"):
            it.submit(name)
            it.later(0)
        there.wait(2)
        assert [each["id"] for each in there.documents] == ["a-1", "b-1"]


def test_slow_receiver_does_not_delay_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch) as (it, there):
        turn_on(it, f"{there.url}/slow", "ann", (When.START,))
        turn_on(it, there.url, "bob", (When.START,))
        it.submit("a")
        submit(it.service, one_task("b"), "pool2", "bob", None)
        it.later(0)
        assert rest(it, "bob") == "delivered"
        shown = it.service.notices.shown("ann")
        assert (shown.waiting, shown.result) == (1, "")
        assert [each["user"] for each in there.documents] == ["bob"]


def test_damaged_settings_of_one_user_do_not_stop_notices_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving(tmp_path) as (there, trusts):
        with desk(tmp_path / "data", cluster=COHORT) as it:
            for user in ("ann", "bob"):
                turn_on(it, there.url, user, (When.START,))
            with it.store.transactions.writing() as connection:
                whose = schema.notice_settings.c.user == "ann"
                connection.execute(text('UPDATE notice_settings SET "when" = \'{"a": 1}\' WHERE "user" = \'ann\''))
                assert connection.execute(select(func.count()).where(whose)).scalar_one() == 1
        with desk(tmp_path / "data", cluster=COHORT) as it:
            it.service.notices._webhook = Webhook(HERE, trusts)
            submit(it.service, one_task("b"), "pool2", "bob", None)
            it.later(0)
            assert rest(it, "bob") == "delivered"
            assert it.service.notices.shown("ann").to is None
            turn_on(it, there.url, "ann")
            assert it.service.notices.shown("ann").to == there.url


def test_number_of_undelivered_notices_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runrig.store.notices.MOST_WAITING", 3)
    with world(tmp_path, monkeypatch) as (it, there):
        for user in ("ann", "bob"):
            turn_on(it, there.url, user)
        for first in (0, 5):
            deliveries = [
                Delivery(f"{user}{n}", user, "{}", 0, 0.0) for n in range(first, first + 5) for user in ("ann", "bob")
            ]
            it.store.notices.collected(1, deliveries[:-1])
            assert [it.store.notices.waiting(user) for user in ("ann", "bob")] == [3, 3]
        # They are due at 0. At -9 they have to wait, unless that is too long: then the system clock was set back.
        for now, latest, due in ((1.0, 5.0, {"ann7", "bob6"}), (-9.0, 5.0, set()), (-9.0, -5.0, {"ann7", "bob6"})):
            assert {each.id for each in it.store.notices.due(now, latest)} == due


def test_each_user_has_one_test_notice_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch) as (it, there):
        turn_on(it, f"{there.url}/slow")
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(it.service.notices.test, "ann")
            until(lambda: "ann" in it.service.notices._testing)
            with pytest.raises(Conflict, match="your last test notice is still being delivered"):
                it.service.notices.test("ann")
            there.free.set()
            assert first.result() != "delivered"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # SystemExit
def test_restart_loses_nothing_and_repeats_only_notices_in_transit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving(tmp_path) as (there, trusts):
        with desk(tmp_path / "data", cluster=COHORT) as it:
            turn_on(it, there.url, when=(When.START,))
            it.submit("a")
            it.later(0)
            it.service.notices.collect()
            it.submit("b")
            it.later(0)
            (first,) = it.store.notices.due(time.time(), time.time() + 60)
            monkeypatch.setattr(it.store.notices, "tried", dies)
            it.service.notices._webhook = Webhook(HERE, trusts)
            it.service.notices.send()
            there.wait(1)
        with desk(tmp_path / "data", cluster=COHORT) as it:
            it.service.notices._webhook = Webhook(HERE, trusts)
            assert rest(it) == "delivered"
    sent = [
        (each["id"], headers["x-runrig-delivery"])
        for each, (headers, _) in zip(there.documents, there.got, strict=True)
    ]
    assert [id for id, _ in sent] == ["a-1", "a-1", "b-1"]
    assert sent[0] == sent[1] == ("a-1", first.id)


def dies(*_: object) -> None:
    raise SystemExit("killed")


def test_secret_is_shown_once_and_changes_with_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path, monkeypatch) as (it, there):
        shown = [
            it.service.notices.set("ann", url, (When.FAIL,), 0, 1).secret
            for url in (there.url, there.url, f"{there.url}/other")
        ]
        assert (shown[0] is None, shown[1], shown[2] is None) == (False, None, False)
        assert shown[0] != shown[2]
        assert it.service.notices.shown("ann").secret is None
        assert it.service.notices.test("ann") == "delivered"
        it.service.notices.turn_off("ann")
        assert it.service.notices.shown("ann").to is None
        assert it.service.notices.test("ann").startswith("notices are off")


# ------------------------------------------------------------ mail

ANN, BOB = "ann@example.org", "bob@example.org"


@contextmanager
def post(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Desk, Mailbox, Receiver]]:
    with world(folder, monkeypatch) as (it, receiver), mailbox(folder) as (there, sends):
        it.service.notices._mail = sends
        yield it, there, receiver


def test_mail_tells_users_of_their_own_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with post(tmp_path, monkeypatch) as (it, there, _):
        turn_on(it, ANN, when=(When.DONE,))
        assert it.service.notices.shown("ann").secret is None
        it.submit("train", duration=30)
        submit(it.service, one_task("other"), "pool2", "bob", None)
        it.later(0)
        it.later(200)
        assert rest(it) == "delivered"
        assert it.service.notices.test("ann") == "delivered"
    assert [recipients for recipients, _ in there.got] == [[ANN], [ANN]]
    assert there.subjects == ["train-1 completed", "runrig: test notice"]


def test_notices_that_wait_share_a_mail_and_mails_to_one_user_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "MOST_MAILS", 1)
    with post(tmp_path, monkeypatch) as (it, there, _):
        turn_on(it, ANN, when=(When.START,))
        for name in ("a", "b"):
            it.submit(name)
        it.later(0)
        assert rest(it) == "delivered"
        for name in ("c", "d"):
            submit(it.service, one_task(name), "pool2", "ann", None)
        it.later(0)
        it.service.notices.collect()
        it.service.notices.send()
        assert (it.store.notices.waiting("ann"), there.subjects) == (2, ["2 notices: 2 started"])
        with pytest.raises(Conflict, match=r"you got 1 mails within 5 minutes. Try again later"):
            it.service.notices.test("ann")
        monkeypatch.setattr(notices, "MAILS_S", 0.0)
        assert rest(it) == "delivered"
    assert there.subjects[1:] == ["2 notices: 2 started"]


@pytest.mark.parametrize(("answer", "attempts"), [("451 4.7.1 try again later", 3), ("550 no such user", 1)])
def test_mail_that_is_refused_is_retried_unless_that_is_permanent_and_delays_no_other(
    answer: str, attempts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with post(tmp_path, monkeypatch) as (it, there, _):
        there.refuses = {ANN: answer}
        turn_on(it, ANN, "ann", (When.START,))
        turn_on(it, BOB, "bob", (When.START,))
        it.submit("a")
        submit(it.service, one_task("b"), "pool2", "bob", None)
        it.later(0)
        assert rest(it, "bob") == "delivered"
        assert rest(it, "ann") == f"localhost refused {ANN}: {answer} (given up)"
        assert there.refused == [ANN] * attempts
    assert [recipients for recipients, _ in there.got] == [[BOB]]


@pytest.mark.parametrize("body", ["{", "7", '{"id": "a-1"}'])
def test_damaged_row_of_one_user_delays_no_mail_of_another(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with post(tmp_path, monkeypatch) as (it, there, _):
        turn_on(it, ANN, "ann", (When.START,))
        turn_on(it, BOB, "bob", (When.START,))
        it.submit("a")
        submit(it.service, one_task("b"), "pool2", "bob", None)
        it.later(0)
        it.service.notices.collect()
        with it.store.transactions.writing() as connection:
            connection.execute(text("UPDATE deliveries SET body = :body WHERE \"user\" = 'ann'"), {"body": body})
        assert rest(it, "bob") == "delivered"
        assert rest(it, "ann").endswith("(given up)")
    assert [recipients for recipients, _ in there.got] == [[BOB]]


def test_mail_server_that_hangs_delays_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with post(tmp_path, monkeypatch) as (it, there, receiver):
        turn_on(it, "slow@example.org", "ann", (When.START,))
        turn_on(it, receiver.url, "bob", (When.START,))
        it.submit("a")
        submit(it.service, one_task("b"), "pool2", "bob", None)
        it.later(0)
        assert rest(it, "bob") == "delivered"
        assert (it.service.notices.shown("ann").waiting, there.got) == (1, [])
        # Nor the end of the server.
        assert [each.daemon for each in threading.enumerate() if each.name == "notice"][-1:] == [True]
        there.free.set()
        assert rest(it, "ann") == "delivered"
