"""The server's time goes on with what has passed, whatever is done to the clock of the machine."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runrig.backends.clock import ServerClock
from runrig.domain.errors import ServerFault

T0 = 1_800_000_000.0
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0


class Machine:
    """*wall*: what its clock says; *elapsed*: what has passed; *kept*: the file for what was accepted."""

    def __init__(self, kept: Path | None = None) -> None:
        self.wall, self.elapsed, self._kept = T0, 500.0, kept

    def clock(self, last: float | None = None, *, busy: bool = True) -> ServerClock:
        clock = ServerClock(lambda: self.wall, lambda: self.elapsed, self._kept)
        clock.resume(last, busy=busy)
        return clock

    def later(self, seconds: float) -> None:
        self.wall += seconds
        self.elapsed += seconds

    def step(self, seconds: float) -> None:
        self.wall += seconds


def test_clock_change_does_not_count_as_elapsed_time() -> None:
    for step, said in (
        (90 * MINUTE, "90.0 minutes ahead of"),
        (90 * DAY, "90.0 days ahead of"),
        (-2 * HOUR, "2.0 hours behind"),
    ):
        machine = Machine()
        clock = machine.clock()
        machine.later(10)
        machine.step(step)
        machine.later(5)
        assert (clock.now(), clock.difference_s) == (T0 + 15, step)
        assert clock.doubt == f"the system clock is {said} the server's time"


def test_time_of_other_machines_follows_the_system_clock_except_forward_until_that_is_accepted() -> None:
    machine = Machine()
    clock = machine.clock(T0 + DAY)
    machine.later(10)
    found = [clock.outside()]
    for step in (-HOUR, 3 * HOUR):
        machine.step(step)
        found.append(clock.outside())
    clock.accept()
    machine.later(5)
    assert [*found, clock.outside()] == [T0 + 10, T0 + 10 - HOUR, T0 + 10, T0 + 15 + 2 * HOUR]


def test_difference_of_up_to_a_minute_is_accepted() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.step(MINUTE)
    assert clock.doubt is None
    machine.step(1)
    assert clock.doubt == "the system clock is 61 s ahead of the server's time"


def test_accepting_moves_the_time_forward_and_never_back() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.step(HOUR)
    clock.accept()
    assert (clock.now(), clock.doubt) == (T0 + HOUR, None)
    machine.step(-3 * HOUR)
    clock.accept()
    assert (clock.now(), clock.doubt) == (T0 + HOUR, None)
    machine.step(3 * HOUR)
    assert clock.doubt is not None


def test_two_concurrent_acceptances_move_the_time_once() -> None:
    machine = Machine()
    others: list[ServerClock] = []

    def elapsed() -> float:
        """Somebody else accepts while it is read."""
        if others:
            others.pop().accept()
        return machine.elapsed

    clock = ServerClock(lambda: machine.wall, elapsed)
    machine.step(HOUR)
    others.append(clock)
    clock.accept()
    assert (clock.now(), clock.doubt) == (T0 + HOUR, None)


def test_server_continues_from_the_end_of_the_log() -> None:
    behind = Machine().clock(T0 + 2 * HOUR)
    assert (behind.now(), behind.doubt) == (T0 + 2 * HOUR, "the system clock is 2.0 hours behind the server's time")
    usual = Machine().clock(T0 - 20 * HOUR)
    assert (usual.now(), usual.doubt) == (T0, None)


def test_gap_of_more_than_a_day_must_be_accepted() -> None:
    busy = Machine().clock(T0 - 3 * DAY)
    assert (busy.now(), busy.doubt) == (T0 - 3 * DAY, "the system clock is 3.0 days ahead of the server's time")
    idle = Machine().clock(T0 - 3 * DAY, busy=False)
    assert (idle.now(), idle.doubt) == (T0, "the system clock is 3.0 days later than the last log entry")
    for clock in (busy, idle):
        clock.accept()
        assert (clock.now(), clock.doubt) == (T0, None)


def test_accepted_difference_survives_a_restart(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "accepted")
    clock = machine.clock()
    machine.step(-2 * HOUR)
    clock.accept()
    last = clock.now()
    machine.later(10 * MINUTE)
    again = machine.clock(last)
    assert (again.now(), again.difference_s, again.doubt) == (T0 + 10 * MINUTE, -2 * HOUR, None)
    machine.step(-HOUR)
    assert machine.clock(again.now()).doubt == "the system clock is 3.0 hours behind the server's time"
    machine.step(3 * HOUR)
    right = machine.clock(last)
    assert (right.now(), right.difference_s, right.doubt) == (T0 + 10 * MINUTE, 0.0, None)
    machine.step(-2 * HOUR)
    assert machine.clock(right.now()).doubt is not None, "it was right in between, so this is news"


def test_gap_behind_an_accepted_clock_must_be_accepted_too(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "accepted")
    clock = machine.clock()
    machine.step(-90 * DAY)
    clock.accept()
    last = clock.now()
    machine.step(3 * DAY)
    again = machine.clock(last)
    assert (again.now(), again.doubt) == (last, "the system clock is 87.0 days behind the server's time")


@pytest.mark.parametrize("text", ["", "soon", "nan", "-inf", "7200.0"])
def test_invalid_file_counts_as_none(tmp_path: Path, text: str) -> None:
    machine = Machine(tmp_path / "accepted")
    (tmp_path / "accepted").write_text(text)
    clock = machine.clock(T0 + HOUR)
    assert (clock.now(), clock.doubt) == (T0 + HOUR, "the system clock is 60.0 minutes behind the server's time")


def test_unwritable_file_is_reported(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "gone" / "accepted")
    clock = machine.clock()
    machine.step(-HOUR)
    with pytest.raises(ServerFault, match=r"cannot be written .No such file or directory.*accept the clock again"):
        clock.accept()


@given(st.lists(st.tuples(st.sampled_from(["later", "step", "accept", "restart"]), st.floats(0, 1e7), st.booleans())))
def test_times_never_decrease(steps: list[tuple[str, float, bool]]) -> None:
    with TemporaryDirectory() as folder:
        _check_times(Machine(Path(folder) / "accepted"), steps)


def _check_times(machine: Machine, steps: list[tuple[str, float, bool]]) -> None:
    clock = machine.clock()
    latest = clock.now()
    for what, seconds, flag in steps:
        match what:
            case "later":
                machine.later(seconds)
            case "step":
                machine.step(seconds if flag else -seconds)
            case "accept":
                clock.accept()
            case _:
                clock = machine.clock(latest, busy=flag)
        assert clock.now() >= latest
        latest = max(latest, clock.now())
