"""`python -m bench`: what it prints can be read by programs.  How fast anything is, is no matter of tests."""

import json

import pytest
from bench.__main__ import main

from bench import decisions, reference


def test_a_scenario_checks_its_decisions_and_stands_beside_its_reference(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["Q3_reclaim_1", "--runs", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report) == ["calibration", "decisions"]
    assert [(row["scenario"], row["reference"]) for row in report["decisions"]] == [("Q3_reclaim_1", 5.6)]


def test_every_scenario_has_a_reference_figure() -> None:
    assert set(decisions.SCENARIOS) == set(reference.MILLISECONDS)


def test_an_unknown_scenario_is_named_with_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["Q9"])
    assert stopped.value.code == 2
    assert "no scenario 'Q9': there are Q1_admit10k, Q2_nofit" in capsys.readouterr().err
