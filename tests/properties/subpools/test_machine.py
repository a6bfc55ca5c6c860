"""Laws S1-S3, S6, P2, P3, R2, R7 and W2 under every order of commands, deaths and ends (a Hypothesis state machine), on both stores."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.exploring import tries
from tests.properties.subpools.machine import Subpools
from tests.stores import KINDS

CHECKS = tuple(HealthCheck)
EXAMPLES = {"sqlite": tries(14), "postgresql": tries(10)}


def machine(kind: str) -> type[Subpools]:
    return type(f"SubpoolsOn{kind.capitalize()}", (Subpools,), {"kind": kind})


@pytest.mark.explored
@pytest.mark.parametrize("kind", KINDS)
def test_no_history_of_subpools_breaks_a_rule(kind: str) -> None:
    deterministic = settings(
        max_examples=EXAMPLES[kind],
        stateful_step_count=25,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=CHECKS,
    )
    run_state_machine_as_test(machine(kind), settings=deterministic)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_no_long_history_of_subpools_breaks_a_rule(kind: str) -> None:
    many = settings(max_examples=1000, stateful_step_count=60, deadline=None, suppress_health_check=CHECKS)
    run_state_machine_as_test(machine(kind), settings=many)
