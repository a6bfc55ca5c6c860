"""Many calls at once: all are made, and one error tells of all that failed."""

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from runrig.backends.kubernetes.answers import ApiRefusal
from runrig.backends.kubernetes.drift import Crew
from runrig.domain.errors import ServerFault, Unavailable
from tests.patience import PATIENCE_S


@pytest.fixture
def crew() -> Iterator[Crew]:
    made = Crew(workers=4)
    yield made
    made.close()


def failing(error: BaseException) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call


def test_all_calls_are_made_in_parallel(crew: Crew) -> None:
    together = threading.Barrier(4, timeout=PATIENCE_S)
    arrived: list[int] = []
    assert crew.run_all([lambda: arrived.append(together.wait())] * 8) == ()
    assert sorted(arrived) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_no_calls_need_no_threads(crew: Crew) -> None:
    assert crew.run_all([]) == ()


def test_failed_call_does_not_affect_others_and_is_reported_once(crew: Crew) -> None:
    done: list[int] = []
    calls: list[Callable[[], object]] = [partial(done.append, number) for number in range(40)]
    calls[3] = failing(ApiRefusal(422, "Invalid", "no such field"))
    calls[9] = failing(Unavailable("busy", {"retry_after_s": 2.0}))
    calls[20] = failing(ServerFault("no login"))
    calls[30] = failing(Unavailable("busier", {"retry_after_s": 7.0}))
    with pytest.raises(Unavailable) as raised:
        crew.run_all(calls)
    assert sorted(done) == [number for number in range(40) if number not in (3, 9, 20, 30)]
    assert raised.value.message == "4 of 40 calls failed; the first: busy"
    assert raised.value.details == {"retry_after_s": 7.0}


def test_unreachable_server_is_not_called_by_every_thread(crew: Crew) -> None:
    with pytest.raises(Unavailable) as raised:
        crew.run_all([failing(Unavailable("away"))] * 1000)
    words = raised.value.message.replace(",", "").replace(";", "").split()
    failed, left = int(words[0]), int(words[5])
    assert failed + left == 1000
    assert 4 <= failed <= 8, "as many as there are threads, and those under way"


def test_server_that_refuses_everything_is_called_by_every_thread(crew: Crew) -> None:
    refused = crew.run_all([*[failing(ApiRefusal(403, "Forbidden", f"no {number}")) for number in range(100)], int])
    assert [each.message for each in refused] == [f"no {number}" for number in range(100)]


def test_single_call_is_not_limited(crew: Crew) -> None:
    with pytest.raises(Unavailable, match=r"^away$"):
        crew.run_all([failing(Unavailable("away"))])


def test_bug_is_raised_unchanged(crew: Crew) -> None:
    done: list[int] = []
    with pytest.raises(ZeroDivisionError):
        crew.run_all([failing(Unavailable("away")), lambda: 1 / 0, lambda: done.append(1)])
    assert done == [1]


def test_crew_can_be_used_again_after_a_failure(crew: Crew) -> None:
    with pytest.raises(Unavailable):
        crew.run_all([failing(Unavailable("away"))] * 20)
    done: list[int] = []
    crew.run_all([lambda: done.append(1)] * 20)
    assert len(done) == 20
