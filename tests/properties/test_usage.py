"""Usage equals brute force under everything that can happen: a fold of the log against the state at each moment."""

import random

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from runrig.domain.gangs import Assignment, Gang, NodeShare, PodSet, Priority
from runrig.domain.nodes import Flavor, Node
from runrig.domain.plan import Admit, PutCohort, PutNode, PutPool, Queue, Release, SetFlavors
from runrig.domain.pools import Cohort, Pool, Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.usage import MICROSECONDS
from tests.exploring import tries
from tests.properties.machine import Driver
from tests.properties.test_properties import CHECKS, Engine
from tests.properties.usage import Logged, Table, events_of, folded, integrated

pytestmark = pytest.mark.explored


def _differences(one: Table, other: Table) -> list[str]:
    pairs = {key: (one.get(key, 0), other.get(key, 0)) for key in sorted(one.keys() | other.keys())}
    return [f"{key}: {first} and {second}" for key, (first, second) in pairs.items() if first != second]


class Usage(Engine):
    """A unit of the machine's time takes some minutes here, so that hours begin in between.

    What the engine itself does is checked by `test_properties`.
    """

    hour_s = 6.0

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(checked=False)

    def teardown(self) -> None:
        log: list[Logged] = [(action, at * 613 + at % 3 / 4) for action, at in self.driver.log]
        events, end = events_of(log), log[-1][1] + 9000.5
        whole = folded(events, end)
        assert not _differences(whole, integrated(log, self.driver.specs, end))
        chance = random.Random(len(log))
        cuts = [chance.randrange(len(events)) for _ in range(6)]
        assert not _differences(whole, folded(events, end, cuts))


def test_usage_of_any_history_equals_its_integral_over_time() -> None:
    """And a fold that was stopped and stored anywhere goes on as if it had not been."""
    often = settings(
        max_examples=tries(60),
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=CHECKS,
    )
    run_state_machine_as_test(Usage, settings=often)


def test_drawn_quota_changes_when_others_release_work_beyond_a_cut_guarantee() -> None:
    """Both pools draw 2 GPUs of their cohort, which is then cut to 2: neither draws, until one of them lets go."""
    gpus = FlavorResource("default", GPU)
    log: list[Logged] = [
        (SetFlavors((Flavor("default"),)), 0.0),
        (PutNode(Node("n0", {GPU: 8})), 0.0),
        (PutCohort(Cohort("c", None, {gpus: Quota(4)})), 0.0),
    ]
    for name in ("a", "b"):
        placed = (Assignment("main", "default", 1, (NodeShare("n0", 1, (0, 1) if name == "a" else (2, 3)),)),)
        gang = Gang(f"{name}-1/main", name, Priority.NORMAL, 0.0, (PodSet("main", 1, ((GPU, 2),)),))
        log += [(PutPool(Pool(name, cohort="c")), 0.0), (Queue(gang), 0.0), (Admit(gang.id, placed), 0.0)]
    log += [(PutCohort(Cohort("c", None, {gpus: Quota(2)})), 3600.0), (Release("a-1/main"), 7200.0)]
    log.append((Release("b-1/main"), 9000.0))
    found = folded(events_of(log), 10800.0)
    assert not _differences(found, integrated(log, {}, 10800.0))
    hour = 2 * 3600 * MICROSECONDS
    drawn = {key: amount for key, amount in found.items() if key[1][-1] == "drawn"}
    assert drawn == {
        (0, ("quota", "a", "default", "drawn")): hour,
        (0, ("quota", "b", "default", "drawn")): hour,
        (7200, ("quota", "b", "default", "drawn")): hour // 2,
    }
