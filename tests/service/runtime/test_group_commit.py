"""Commands that come while the lock is held are decided one after the other and stored in one transaction."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from runrig.domain.errors import Conflict, InvalidInput, Refused, Unavailable
from runrig.domain.plan import Submit
from runrig.service.commands.submissions import ParsedSubmission, Submission, read
from runrig.service.runtime.transactor import MOST_JOBS
from runrig.service.runtime.writing import Writing
from tests.patience import until
from tests.replaying import replayed
from tests.service.runtime.scrape import scraped
from tests.worlds.service import T0, Desk, desk, one_task, second_server

KEY = "5f0c3a1e-8d2b-4c47-9a3e-2f6b7c1d0e9f"


@contextmanager
def held(it: Desk) -> Iterator[Callable[[int], float]]:
    """Holds the lock meanwhile; gives what waits until so many threads wait for it."""
    turns = it.service._transactor._turns
    with it.service._transactor.reading():
        yield lambda many: until(lambda: len(turns._waiting) == many)


def together(it: Desk, commands: Sequence[Callable[[], object]], waiting: Sequence[int] = ()) -> list[object]:
    """What each command answers or raises, if all come while somebody else has the lock, in this order.

    *waiting*: how many wait for the lock then, after each; empty: all.
    """
    found: list[object] = [None] * len(commands)

    def run(at: int, command: Callable[[], object]) -> None:
        try:
            found[at] = command()
        except Exception as error:  # noqa: BLE001 - it is what is found
            found[at] = error

    threads = [threading.Thread(target=run, args=each) for each in enumerate(commands)]
    with held(it) as wait:
        for thread, many in zip(threads, waiting or range(1, len(threads) + 1), strict=True):
            thread.start()
            wait(many)
    for thread in threads:
        thread.join()
    return found


def submitting(it: Desk, text: str, *, key: str | None = None, pool: str = "pool1") -> Callable[[], str]:
    submission = Submission(text, pool, "ann", uuid=key)
    return lambda: it.service.submissions.submit(submission).id


def parsed(name: str) -> ParsedSubmission:
    return read(Submission(one_task(name), "pool1", "ann"))


def transactions(it: Desk) -> float:
    return scraped(it.service.metrics.text().decode())["runrig_commit_seconds_count"][()]


def check_memory(it: Desk) -> None:
    """W2: memory is what is stored, and the log leads there."""
    with it.service._transactor.reading() as state:
        assert state.rows() == it.store.load()
        assert replayed(it.store).rows() == state.rows()


def test_they_are_stored_together_and_each_has_its_own_answer_and_revision(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        before, stored = it.revision, transactions(it)
        texts = [one_task("a"), one_task("b", gpus=3), one_task("a", duration=5), one_task("c", gpus=2)]
        found = together(it, [submitting(it, text) for text in texts])
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


def test_what_one_command_did_the_next_one_sees(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.submit("a")
        cancel = partial(it.service.submissions.cancel, "a-1", user="eve")
        first, second, third = together(it, [cancel, cancel, submitting(it, one_task("a"))])
        assert (first, third) == ("a-1", "a-2")
        assert isinstance(second, Conflict)
        assert second.message == "a-1 is FAILED_CANCELED already: there is nothing to cancel"
        assert it.status("a-1") == "FAILED_CANCELED"
        check_memory(it)


def test_a_command_that_cannot_be_stored_hurts_no_other(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.submit("b")
        before = it.revision
        odd = partial(it.service.submissions.cancel, "b-1", user="eve", message="\0")
        found = together(it, [submitting(it, one_task("a")), odd, submitting(it, one_task("c"))])
        assert [found[0], type(found[1]), found[2]] == ["a-1", InvalidInput, "c-1"]
        assert it.status("b-1") == "PENDING"
        assert it.revision == before + 2
        check_memory(it)


def test_a_file_that_came_with_a_command_that_cannot_be_stored_comes_with_the_next(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        odd = Submission(one_task("a"), "pool1", "\0")
        found = together(it, [lambda: it.service.submissions.submit(odd), submitting(it, one_task("a"))])
        assert [type(found[0]), found[1]] == [InvalidInput, "a-1"]
        check_memory(it)


def test_a_command_with_a_bug_changes_nothing_and_hurts_no_other(tmp_path: Path) -> None:
    def buggy(*, applies: bool) -> Callable[[], object]:
        def decide(writing: Writing) -> None:
            writing.state.numbers["a"] = 17
            if applies:
                it.service.submissions.commit(parsed("x"), writing)
            raise ZeroDivisionError

        return lambda: it.service._transactor.command("eve", decide)

    with desk(tmp_path) as it:
        submits = [submitting(it, one_task("a")) for _ in range(3)]
        found = together(it, [submits[0], buggy(applies=False), submits[1], buggy(applies=True), submits[2]])
        assert [found[0], found[2], found[4]] == ["a-1", "a-2", "a-3"]
        assert [type(found[1]), type(found[3])] == [ZeroDivisionError] * 2
        check_memory(it)


def test_if_the_transaction_fails_all_of_it_fail_and_nothing_has_changed(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        other = second_server(tmp_path, T0 + 50)
        other.submissions.submit(Submission(one_task("theirs"), "pool1", "eve"))
        other.close()
        refused = submitting(it, one_task("much", gpus=9))
        found = together(it, [submitting(it, one_task("a")), refused, submitting(it, one_task("b"))])
        assert [type(each) for each in found] == [Unavailable, Refused, Unavailable]
        check_memory(it)
        assert together(it, [submitting(it, one_task("a")), submitting(it, one_task("theirs"))]) == ["a-1", "theirs-2"]
        check_memory(it)


def test_commands_with_one_key_at_once_are_one_submission(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        before = it.revision
        keyed = [*[submitting(it, one_task("a"), key=KEY)] * 3, submitting(it, one_task("b"), key=KEY)]
        found = together(it, [*keyed, submitting(it, one_task("a"))], waiting=(1, 1, 1, 1, 2))
        assert [*found[:3], type(found[3]), found[4]] == ["a-1", "a-1", "a-1", Conflict, "a-2"]
        assert it.revision == before + 2
        check_memory(it)


def test_a_transaction_has_few_enough_commands_that_the_lock_is_free_soon(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        decide = partial(it.service.submissions.commit, parsed("a"))
        several = MOST_JOBS // 2 + 1
        before, stored = it.revision, transactions(it)
        found = together(it, [lambda: len(it.service._transactor.commands("ann", [decide] * several))] * 3)
        assert found == [several] * 3
        assert (it.revision, transactions(it)) == (before + 3 * several, stored + 3)
        check_memory(it)
