"""`python -m bench`: what it prints can be read by programs.  How fast anything is, is no matter of tests."""

import json

import pytest
from bench.__main__ import main
from bench.section import Section

from bench import decisions, reference, report

pytestmark = pytest.mark.slow


def test_scenario_checks_its_decisions_and_is_shown_next_to_its_reference(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["Q3_reclaim_1", "--runs", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told) == ["calibration", "decisions", "summary"]
    assert [row["section"] for row in told["summary"]] == ["calibration", "decisions"]
    assert [(row["scenario"], row["reference"]) for row in told["decisions"]] == [("Q3_reclaim_1", 5.6)]


def test_failing_section_is_reported_and_the_others_continue(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: int) -> Section:
        raise RuntimeError("a wrong answer")

    good = Section("good", "", [{"is": "met"}, {"is": "MISSED"}, {"is": "met"}])
    monkeypatch.setattr(report, "NAMES", ("bad", "good"))
    monkeypatch.setattr(report, "SECTIONS", {"bad": fails, "good": lambda _: good})
    monkeypatch.setattr("bench.calibration.once", lambda *_: 0.02)
    assert main(["--json"]) == 1
    told = capsys.readouterr()
    assert [(row["section"], row["goals"], row["met"], row["is"]) for row in json.loads(told.out)["summary"]] == [
        ("calibration", 0, 0, ""),
        ("bad", 0, 0, "FAILED"),
        ("good", 3, 2, "1 MISSED"),
    ]
    assert "a wrong answer" in told.err
    assert "[3/3] good" in told.err
    assert main(["good"]) == 0


def test_every_scenario_has_a_reference_figure() -> None:
    assert set(decisions.SCENARIOS) == set(reference.MILLISECONDS)


def test_unknown_scenario_is_reported_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["Q9"])
    assert stopped.value.code == 2
    assert "no scenario 'Q9': there are Q1_admit10k, Q2_nofit" in capsys.readouterr().err
