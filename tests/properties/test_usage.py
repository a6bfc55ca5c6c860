"""Usage equals brute force under everything that can happen: a fold of the log against the state at each moment."""

import random

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.exploring import tries
from tests.properties.test_properties import CHECKS, Engine
from tests.properties.usage import Logged, Table, events_of, folded, integrated

pytestmark = pytest.mark.explored


def _differences(one: Table, other: Table) -> list[str]:
    pairs = {key: (one.get(key, 0), other.get(key, 0)) for key in sorted(one.keys() | other.keys())}
    return [f"{key}: {first} and {second}" for key, (first, second) in pairs.items() if first != second]


class Usage(Engine):
    """A unit of the machine's time takes some minutes here, so that hours begin in between."""

    def teardown(self) -> None:
        log: list[Logged] = [(action, at * 613 + at % 3 / 4) for action, at in self.driver.log]
        events, end = events_of(log), log[-1][1] + 9000.5
        whole = folded(events, end)
        assert not _differences(whole, integrated(log, self.driver.specs, end))
        chance = random.Random(len(log))
        cuts = [chance.randrange(len(events)) for _ in range(6)]
        assert not _differences(whole, folded(events, end, cuts))


def test_usage_of_any_history_equals_what_is_integrated_moment_by_moment() -> None:
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
