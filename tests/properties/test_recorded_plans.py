"""The engine decides of recorded histories what the release decided that recorded them (same state, same time, same plan)."""

from dataclasses import replace

import pytest

from tests.properties.record_plans import KINDS, Kind, Recorder
from tests.properties.recorded import difference, read

DECISIONS = {"Admit", "Nominate", "Withdraw", "Preempt", "Stop", "Replace", "Refuse", "TryAgain", "Release", "Queue"}


@pytest.mark.parametrize("family", [kind.name for kind in KINDS])
def test_every_recorded_plan_and_explanation_is_reproduced(family: str) -> None:
    differences = [difference(history) for history in read(family)]
    assert len(differences) >= 15
    assert [found for found in differences if found is not None][:3] == []


def test_histories_have_every_kind_of_decision() -> None:
    cycles = [step["cycle"] for history in read() for step in history["steps"] if "cycle" in step]
    assert {kind for actions in cycles for kind, _ in actions} >= DECISIONS
    laws = {fields["law"] for actions in cycles for kind, fields in actions if kind == "Preempt"}
    assert laws == {"PRIORITY", "RECLAIM"}


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_newly_recorded_history_is_reproduced(kind: Kind) -> None:
    assert difference(Recorder(replace(kind, steps=15), number=1000).record()) is None
