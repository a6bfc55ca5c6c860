"""Commands that come at once, or while others are at work, are decided one after the other and stored in one transaction."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from runrig.domain.errors import Conflict, InvalidInput, Refused, Unavailable
from runrig.domain.plan import Submit
from runrig.domain.shown.workflows import WorkflowSubmitted
from runrig.service.commands.arrivals import MOST_JOBS
from runrig.service.commands.submission import ParsedSubmission, Submission, read
from runrig.service.runtime import logs
from runrig.service.runtime.writing import Command, Job, Writing
from tests.patience import until
from tests.replaying import replayed
from tests.service.runtime.scrape import scraped
from tests.worlds.service import T0, Desk, desk, one_task, second_server, submit

KEY = "5f0c3a1e-8d2b-4c47-9a3e-2f6b7c1d0e9f"


Asked = Callable[[], Awaitable[object]]


def together(it: Desk, *commands: Asked, meanwhile: Asked | None = None) -> list[object]:
    """What each command answers or raises, if all come at once, in this order.

    *meanwhile*: comes when they are at work, and its answer is the last one.
    """

    async def asked() -> list[object]:
        with it.service._transactor.reading():
            first = [asyncio.ensure_future(_outcome(each)) for each in commands]
            await asyncio.to_thread(
                until, lambda: it.service._transactor._lock._waited > it.service._transactor._lock._got
            )
            late = [asyncio.ensure_future(_outcome(each)) for each in (meanwhile,) if each is not None]
            await asyncio.sleep(0)
        return await asyncio.gather(*first, *late)

    return asyncio.run(asked())


async def _outcome(command: Asked) -> object:
    try:
        return await command()
    except Exception as error:  # noqa: BLE001 - it is what is found
        return error


def submitting(it: Desk, text: str, *, key: str | None = None, pool: str = "pool1", user: str = "ann") -> Asked:
    async def submit() -> str:
        return (await it.service.arrivals.submit(Submission(text, pool, user, uuid=key))).id

    return submit


def cancelling(it: Desk, id: str, message: str = "") -> Asked:
    return lambda: it.service.arrivals.do(it.service.submissions.cancelling(id, user="eve", message=message))


def parsed(name: str) -> ParsedSubmission:
    return read(Submission(one_task(name), "pool1", "ann"))


def transactions(it: Desk) -> float:
    return scraped(it.service.metrics.text().decode())["runrig_commit_seconds_count"][()]


def check_memory(it: Desk) -> None:
    """W2: memory is what is stored, and the log leads there."""
    with it.service._transactor.reading() as state:
        assert state.rows() == it.store.load()
        assert replayed(it.store).rows() == state.rows()


def test_concurrent_commands_share_a_transaction_but_have_their_own_answers_and_revisions(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        before, stored = it.revision, transactions(it)
        texts = [one_task("a"), one_task("b", gpus=3), one_task("a", duration=5), one_task("c", gpus=2)]
        found = together(it, *(submitting(it, text) for text in texts))
        assert [found[0], type(found[1]), *found[2:]] == ["a-1", Refused, "a-2", "c-1"]
        assert transactions(it) == stored + 1
        made = [
            (event.revision, event.action.workflow.id, event.actor)
            for event in it.store.log.events(after=before)
            if isinstance(event.action, Submit)
        ]
        assert made == [(before + 1, "a-1", "ann"), (before + 2, "a-2", "ann"), (before + 3, "c-1", "ann")]
        assert it.revision == before + 3
        check_memory(it)


def test_each_concurrent_command_sees_the_effect_of_the_previous_one(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.submit("a")
        cancel = cancelling(it, "a-1")
        first, second, third = together(it, cancel, cancel, submitting(it, one_task("a")))
        assert (first, third) == ("a-1", "a-2")
        assert isinstance(second, Conflict)
        assert second.message == "a-1 is already FAILED_CANCELED and can no longer be changed"
        assert it.status("a-1") == "FAILED_CANCELED"
        check_memory(it)


def test_command_that_cannot_be_stored_does_not_affect_others(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.submit("b")
        before = it.revision
        odd = cancelling(it, "b-1", message="\0")
        found = together(it, submitting(it, one_task("a")), odd, submitting(it, one_task("c")))
        assert [found[0], type(found[1]), found[2]] == ["a-1", InvalidInput, "c-1"]
        assert it.status("b-1") == "PENDING"
        assert it.revision == before + 2
        check_memory(it)


def test_file_of_a_command_that_was_not_stored_is_stored_with_the_next(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        found = together(it, submitting(it, one_task("a"), user="\0"), submitting(it, one_task("a")))
        assert [type(found[0]), found[1]] == [InvalidInput, "a-1"]
        check_memory(it)


def test_command_that_crashes_changes_nothing_and_does_not_affect_others(tmp_path: Path) -> None:
    def buggy(*, applies: bool) -> Command[object]:
        def decide(writing: Writing) -> None:
            writing.state.numbers["a"] = 17
            if applies:
                it.service.submissions.commit(parsed("x"), writing)
            raise ZeroDivisionError

        return (yield Job("eve", decide))

    def early() -> Command[object]:
        raise ZeroDivisionError
        yield

    with desk(tmp_path) as it:
        a, b, c = (it.service.submissions.submitting(parsed("a")) for _ in range(3))
        commands = [a, buggy(applies=False), early(), b, buggy(applies=True), c]
        found = it.service._transactor.carry_out_all(commands)
        ids = [each.id if isinstance(each, WorkflowSubmitted) else type(each) for each in found]
        assert ids == ["a-1", ZeroDivisionError, ZeroDivisionError, "a-2", ZeroDivisionError, "a-3"]
        check_memory(it)


def test_if_the_transaction_fails_all_its_commands_fail_and_nothing_changes(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        other = second_server(tmp_path, T0 + 50)
        submit(other, one_task("theirs"), "pool1", "eve")
        other.close()
        refused = submitting(it, one_task("much", gpus=9))
        found = together(it, submitting(it, one_task("a")), refused, submitting(it, one_task("b")))
        assert [type(each) for each in found] == [Unavailable, Refused, Unavailable]
        check_memory(it)
        assert together(it, submitting(it, one_task("a")), submitting(it, one_task("theirs"))) == ["a-1", "theirs-2"]
        check_memory(it)


def test_concurrent_commands_with_the_same_key_are_one_submission(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        before = it.revision
        keyed = [*[submitting(it, one_task("a"), key=KEY)] * 3, submitting(it, one_task("b"), key=KEY)]
        found = together(it, *keyed, submitting(it, one_task("a")))
        assert [*found[:3], type(found[3]), found[4]] == ["a-1", "a-1", "a-1", Conflict, "a-2"]
        assert it.revision == before + 2
        check_memory(it)


def test_transaction_has_a_limited_number_of_commands_so_that_the_lock_is_soon_free(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        many = MOST_JOBS + 1
        before, stored = it.revision, transactions(it)
        found = together(it, *[submitting(it, one_task("a"))] * many)
        assert found == [f"a-{number}" for number in range(1, many + 1)]
        assert (it.revision, transactions(it)) == (before + many, stored + 2)
        check_memory(it)


def test_commands_that_arrive_during_a_batch_form_the_next_batch(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        stored = transactions(it)
        assert together(it, submitting(it, one_task("a")), meanwhile=submitting(it, one_task("b"))) == ["a-1", "b-1"]
        assert transactions(it) == stored + 2


def test_client_that_disconnects_does_not_affect_others_and_its_command_completes(tmp_path: Path) -> None:
    async def asked(it: Desk) -> object:
        with it.service._transactor.reading():
            gone, stays = (asyncio.ensure_future(submitting(it, one_task(name))()) for name in ("a", "b"))
            await asyncio.sleep(0)
            gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        return await stays

    with desk(tmp_path) as it:
        assert asyncio.run(asked(it)) == "b-1"
        assert it.status("a-1") == "PENDING"
        check_memory(it)


def test_slow_file_does_not_delay_other_submissions(tmp_path: Path) -> None:
    """The second is read and stored while the first is still being rendered."""

    async def asked(it: Desk) -> list[object]:
        order: list[object] = []

        async def noted(command: Asked) -> None:
            order.append(await command())

        slow = one_task("{{ 'slow' }}") + "{% for each in range(20000) %}{% endfor %}"
        await asyncio.gather(noted(submitting(it, slow)), noted(submitting(it, one_task("soon"))))
        return order

    with desk(tmp_path) as it:
        assert asyncio.run(asked(it)) == ["soon-1", "slow-1"]


def test_each_log_line_has_its_own_request_id(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def of(request: str, command: Asked) -> Asked:
        async def asked() -> object:
            logs.enter(request)
            return await command()

        return asked

    with desk(tmp_path) as it, caplog.at_level(logging.INFO):
        together(it, *(of(name, submitting(it, one_task(name))) for name in ("r-a", "r-b")))
        found = [line.rpartition(" ")[2] for line in caplog.messages if "Submit:1" in line]
    assert found == ["request=r-a", "request=r-b"]
