"""The clock of the machine is put forward or back under a server: its limits, its retention and its order do not follow."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runrig.backends.clock import ServerClock
from runrig.backends.simulated import SimulatedBackend, SimulatedClock
from runrig.domain.nodes import Node
from runrig.service.service import Service
from runrig.spec.cluster import read_cluster
from runrig.store import SqlStore
from runrig.wiring.process import going_on
from tests.service.runtime.scrape import scraped
from tests.worlds.service import T0, TWO_POOLS, one_task, submit

MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0


@dataclass
class Machine:
    """Its database, what its clock says, and what has passed; servers come and go."""

    url: str
    wall: float = T0
    elapsed: float = 0.0
    services: list[Service] = field(default_factory=list)

    @contextmanager
    def server(self) -> Iterator[Service]:
        store = SqlStore.open(self.url, exclusive=True)
        clock = going_on(store, ServerClock(lambda: self.wall, lambda: self.elapsed))
        # Tasks do not depend on the machine's clock: they run for the configured time.
        backend = SimulatedBackend((Node("n0", {"gpu": 4}),), SimulatedClock(real_time=lambda: self.elapsed))
        service = Service(store, backend, clock)
        try:
            service.prepare(read_cluster(TWO_POOLS), user="ann")
            yield service
        finally:
            service.close()

    def later(self, seconds: float) -> None:
        self.wall += seconds
        self.elapsed += seconds


def run(service: Service, name: str, *, duration: float = 10 * DAY, limit: str = "1h") -> str:
    text = one_task(name, duration=duration).replace("  tasks:", f"  timeout: {{exec_timeout: {limit}}}\n  tasks:")
    id = submit(service, text, "pool1", "ann")
    service.settle()
    return id


def status(service: Service, id: str) -> str:
    service.settle()
    return service.workflow_queries.status(id).value


def stopped(machine: Machine, service: Service, id: str) -> str:
    """Its status when its pods have had their time to stop."""
    service.settle()
    machine.later(MINUTE)
    return status(service, id)


def test_clock_that_jumps_forward_does_not_end_work_with_an_hour_limit(any_store: str) -> None:
    machine = Machine(any_store)
    with machine.server() as service:
        id = run(service, "a")
        machine.wall += 90 * MINUTE
        machine.later(50 * MINUTE)
        assert status(service, id) == "RUNNING"
        why = service.workflow_queries.why(id).sentence
        assert why.endswith(
            "The system clock is 90.0 minutes ahead of the server's time. "
            "Until `runrig admin accept-clock`, time limits count only measured time."
        )
        assert scraped(service.metrics.text().decode())["runrig_clock_difference_seconds"] == {(): 90 * MINUTE}
        machine.later(11 * MINUTE)
        assert stopped(machine, service, id) == "FAILED_EXEC_TIMEOUT"


def test_clock_that_jumps_forward_deletes_nothing_until_it_is_accepted(any_store: str) -> None:
    machine = Machine(any_store)
    with machine.server() as service:
        id = run(service, "a", duration=1.0)
        machine.later(10)
        assert status(service, id) == "COMPLETED"
        machine.wall += 91 * DAY
        assert not service.retention.step()
        assert status(service, id) == "COMPLETED"
    with machine.server() as service:  # nor after a restart
        assert not service.retention.step()
        service.clock.accept()
        assert service.retention.step()


def test_new_work_queues_behind_old_work_after_the_clock_was_set_back(any_store: str) -> None:
    machine = Machine(any_store)
    with machine.server() as service:
        for name in ("a", "b"):
            run(service, name)
        old = run(service, "old")
        machine.wall -= 2 * HOUR
        machine.elapsed += 1
        new = run(service, "new")
        assert [service.workflow_queries.why(id).groups[0].position for id in (old, new)] == [1, 2]
    with machine.server() as service:  # nor after a restart
        newest = run(service, "newest")
        assert [service.workflow_queries.why(id).groups[0].position for id in (old, new, newest)] == [1, 2, 3]
        times = [event.time for event in service.history._store.log.events()]
        assert times == sorted(times)


def test_gap_of_more_than_a_day_ends_no_running_work(any_store: str, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(any_store)
    with machine.server() as service:
        id = run(service, "a")
    machine.wall += 2 * DAY
    with machine.server() as service:
        assert status(service, id) == "RUNNING"
        assert 'event=clock_doubted why="the system clock is 2.0 days ahead of the server\'s time"' in caplog.text
        machine.later(61 * MINUTE)
        assert stopped(machine, service, id) == "FAILED_EXEC_TIMEOUT"


def test_pause_of_hours_counts_as_elapsed_time(tmp_path: Path) -> None:
    machine = Machine(f"sqlite:///{tmp_path}/runrig.db")
    with machine.server() as service:
        id = run(service, "a")
    machine.wall += 2 * HOUR
    with machine.server() as service:
        assert stopped(machine, service, id) == "FAILED_EXEC_TIMEOUT"
