"""The scenarios and replays of imported queues, small: what comes out is checked, how fast is no matter of tests."""

import dataclasses
import json

import pytest
from bench.__main__ import main
from bench.kueue import MODES, SCENARIOS, Size, admit, declared, nofit, pending, reclaim, timed_cycle, world
from bench.replay import BASELINE, LARGE_SCALE, REPLAYS, Batch, Outcome, Trace, arrivals, replay

from bench import reference, report
from runrig.domain.kueue import Settings

pytestmark = pytest.mark.slow

SMALL = Size(branches=(2, 1), queues=2)
BOTH = pytest.mark.parametrize("settings", MODES.values(), ids=("classical", "fair"))


def test_full_tree_has_156_cohorts_and_1000_queues() -> None:
    system = declared(Size())
    assert (len(system.cohorts), len(system.queues)) == (156, 1000)
    assert (system.cohorts[0].name, system.queues[-1].name, system.queues[-1].cohort) == (
        "root",
        "root-4-4-4-q7",
        "root-4-4-4",
    )


@BOTH
def test_scenarios_check_their_own_outcome(settings: Settings) -> None:
    assert admit(settings, SMALL) > 0
    assert nofit(settings, SMALL) > 0
    assert reclaim(settings, 1, SMALL) > 0
    assert reclaim(settings, 2, SMALL) > 0


def test_wrong_outcome_stops_a_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.kueue.GPUS_PER_POOL", 7)
    with pytest.raises(AssertionError, match="a100"):
        admit(Settings(), SMALL)


@BOTH
def test_one_head_per_queue_and_cycle(settings: Settings) -> None:
    system = declared(SMALL)
    waiting = [pending(f"w{each}", system.queues[each % 4], each) for each in range(8)]
    made = world(system, waiting, settings)
    admitted = [sorted(each.workload for each in timed_cycle(made, at)[1].admitted) for at in range(3)]
    assert admitted == [["w0", "w1", "w2", "w3"], ["w4", "w5", "w6", "w7"], []]


def test_traces_submit_the_same_work_as_the_reference() -> None:
    handed_in = arrivals(BASELINE)
    assert (len(handed_in), handed_in[0].at_ms, handed_in[-1].at_ms) == (15_000, 100, 60_000)
    assert (
        LARGE_SCALE.cohorts * LARGE_SCALE.queues_per_cohort * sum(each.count for each in LARGE_SCALE.batches) == 50_000
    )


TINY = Trace(
    cohorts=1,
    queues_per_cohort=2,
    batches=(
        Batch("small", count=4, interval_ms=100, runtime_ms=400, priority=50, cores=10),
        Batch("large", count=1, interval_ms=300, runtime_ms=100, priority=200, cores=20),
    ),
)


@BOTH
def test_a_replay_of_two_queues(settings: Settings) -> None:
    """Two small ones fill a queue at 200; the large one takes their place from 300 to 400; then two by two until 1200."""
    outcome = dataclasses.replace(replay(settings, TINY), seconds=0, around=0, slowest=0)
    assert outcome == Outcome(
        makespan_ms=1200,
        cycles=10,
        idle=2,
        admissions=14,
        evictions=4,
        waits_first={"small": (0 + 0 + 500 + 400) / 4, "large": 0.0},
        waits_last={"small": (300 + 200 + 500 + 400) / 4, "large": 0.0},
    )


@BOTH
def test_small_baseline_finishes(settings: Settings) -> None:
    """Two queues of each of two cohorts, a tenth of the work: they do not meet across cohorts."""
    batches = tuple(dataclasses.replace(each, count=each.count // 10) for each in BASELINE.batches)
    one, two = (replay(settings, Trace(cohorts, 2, batches)) for cohorts in (1, 2))
    assert (two.makespan_ms, two.admissions, two.evictions) == (one.makespan_ms, 2 * one.admissions, 2 * one.evictions)
    assert (two.waits_first, two.waits_last) == (one.waits_first, one.waits_last)
    assert one.admissions == 2 * (35 + 10 + 5) + one.evictions


def test_every_scenario_and_replay_has_reference_figures() -> None:
    assert set(SCENARIOS) == set(reference.IMPORTED)
    assert set(REPLAYS) == set(reference.REPLAYS)


def test_imported_queues_are_shown_next_to_their_reference(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.calibration.once", lambda *_: 0.02)
    assert main(["K3_reclaim_1", "--runs", "1", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["calibration", "decisions", "summary"]
    assert [(row["scenario"], row["reference"], row["target"]) for row in printed["decisions"]] == [
        ("K3_reclaim_1", 5.6, "1/10")
    ]


def test_replay_prints_two_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.calibration.once", lambda *_: 0.02)
    theirs = reference.Replayed(1.0, 1100, 9, None, 14, 4, {"small": 225}, {})
    tiny = {"tiny": lambda: replay(Settings(), TINY)}
    for module in ("report", "peer_tables"):
        monkeypatch.setattr(f"bench.{module}.REPLAYS", tiny)
    monkeypatch.setattr("bench.reference.REPLAYS", {"tiny": theirs})
    sections = {section.name: section.rows() for job in report.jobs(["tiny"], 1) for section in job.run()}
    assert [(row["figure"], row["reference"], row["here"], row["is"]) for row in sections["replay outcomes"]] == [
        ("makespan", 1100, 1200, "MISSED"),
        ("mean wait to first admission, large", "-", 0, ""),
        ("mean wait to first admission, small", 225, 225, "met"),
        ("mean wait to last admission, large", "-", 0, ""),
        ("mean wait to last admission, small", "-", 350, ""),
        ("cycles", 9, 10, ""),
        ("cycles that changed nothing", "-", 2, ""),
        ("admissions", 14, 14, ""),
        ("evictions", 4, 4, ""),
    ]
    assert [row["replay"] for row in sections["replays"]] == ["tiny"]
