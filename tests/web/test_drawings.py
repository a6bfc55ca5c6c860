"""Pictures as SVG, compared as a whole, and the attempts and lines that they are drawn from."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.gangs import Gang, Law, Priority
from runrig.domain.plan import Admit, MoveGroup, Preempt, Queue, Release, Stop
from runrig.domain.records import Event
from runrig.domain.shown.events import WorkflowEvent
from runrig.domain.workflows import Status
from runrig.web.attempts import attempts_of
from runrig.web.drawings import BEYOND, GUARANTEED, Attempt, Box, Share, bar, bar_of, colours, columns, graph, times
from runrig.web.folding import folded


def test_bar_has_the_guarantee_on_one_line() -> None:
    assert str(bar(Share(guaranteed=84, firm=42, low=62, borrowed=20, lent=0), "a <b>")) == (
        '<svg class="bar" width="128" height="14" viewBox="0 0 128 14" role="img"><title>a &lt;b&gt;</title>'
        '<rect class="ground" x="0" y="2" width="84" height="10"/><rect class="firm" x="0" y="2" width="42" height="10"/>'
        '<rect class="low" x="42" y="2" width="42" height="10"/><rect class="over" x="84" y="2" width="20" height="10"/>'
        '<path class="line" d="M84 0v14"/></svg>'
    )


AMOUNT = st.integers(0, 100_000)


@given(AMOUNT, AMOUNT, AMOUNT, AMOUNT, AMOUNT)
def test_bars_stay_within_their_width(promised: int, firm: int, low: int, borrowed: int, lent: int) -> None:
    drawn = bar_of(Share(promised, firm, low, min(borrowed, firm + low), lent))
    for kind, x, width in drawn.parts:
        assert width > 0
        assert (GUARANTEED, GUARANTEED + BEYOND) if kind == "over" else (0, GUARANTEED)
        assert x >= GUARANTEED if kind == "over" else x >= 0, (kind, x)
        assert x + width <= (GUARANTEED + BEYOND if kind == "over" else GUARANTEED) + 0.2
    assert ("over" in [kind for kind, _, _ in drawn.parts]) >= drawn.more


def test_graph_is_drawn_from_left_to_right() -> None:
    boxes = [
        Box("prepare", "done", "COMPLETED", "1 pod"),
        Box("train", "runs", "RUNNING", "", ("prepare",)),
        Box("<x>", "waits", "WAITING", "", ("train", "prepare")),
    ]
    assert [[box.name for box in column] for column in columns(boxes)] == [["prepare"], ["train"], ["<x>"]]
    drawn = str(graph(boxes))
    assert drawn.startswith('<svg class="graph" width="586" height="56" viewBox="0 0 586 56" role="img"')
    assert drawn.count('<path class="edge"') == 3
    assert "&lt;x&gt;" in drawn
    assert "<x>" not in drawn
    assert str(graph([])).count("<g ") == 0


def test_note_too_long_for_its_box_is_drawn_narrower() -> None:
    for status, line, narrower in (("FAILED_EXEC_TIMEOUT", "1 pod", True), ("FAILED_CANCELED", "8 pods", False)):
        drawn = str(graph([Box("main", "failed", status, line)]))
        assert (f"{status} · {line}" in drawn, 'textLength="148"' in drawn) == (True, narrower), status


def test_an_attempt_is_thin_while_it_waits_and_pale_while_it_starts() -> None:
    attempt = Attempt("train", 0, 0.0, 25.0, 30.0, 75.0, "taken", "preempted")
    assert str(times(attempt, 0.0, 100.0)) == (
        '<svg class="times" viewBox="0 0 1000 16" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="waits" x="0" y="6" width="250" height="4"/>'
        '<rect class="starts" x="250" y="1" width="50" height="14"/><rect class="taken" x="300" y="1" width="450" height="14"/></svg>'
    )
    failed = str(times(Attempt("train", 0, 0.0, 25.0, None, 75.0, "failed", ""), 0.0, 100.0))
    assert ('"failed" x="250"' in failed, "starts" in failed) == (True, False), "before it ran"
    assert 'width="1000"' in str(times(Attempt("train", 0, 0.0, None, None, None, "runs", ""), 0.0, 100.0))


def events(*actions: object) -> list[Event]:
    return [Event(number, 0, float(number), "engine", action, "") for number, action in enumerate(actions)]  # type: ignore[arg-type]


def gang(attempt: int) -> Gang:
    return Gang("a-1/train", "p", Priority.LOW, 0.0, (), attempt)


def test_each_attempt_shows_how_it_ended() -> None:
    found = attempts_of(
        events(
            Queue(gang(0)), Admit("a-1/train", ()), MoveGroup("a-1", "train", Status.RUNNING),
            Preempt("a-1/train", "b-1/x", Law.RECLAIM), Release("a-1/train"),
            Queue(gang(1)), Admit("a-1/train", ()), Stop("a-1/train", Status.FAILED_EVICTED), Release("a-1/train"),
            Queue(gang(2)), Admit("a-1/train", ()), Release("a-1/train"), MoveGroup("a-1", "train", Status.COMPLETED),
            Queue(gang(3)),
        )
    )  # fmt: skip
    assert found == (
        Attempt("train", 0, 0.0, 1.0, 2.0, 4.0, "taken", "preempted"),
        Attempt("train", 1, 5.0, 6.0, None, 8.0, "taken", "drained"),
        Attempt("train", 2, 9.0, 10.0, None, 11.0, "done", "completed"),
        Attempt("train", 3, 13.0, None, None, None, "runs", "waiting"),
    )


@pytest.mark.parametrize("status", [each for each in Status if each.finished and each is not Status.RESCHEDULED])
def test_attempt_is_drawn_as_failed_only_if_it_failed_and_was_not_preempted(status: Status) -> None:
    """Also one that was told to stop: the lead of a group may end all of it, and end well."""
    begun = (Queue(gang(0)), Admit("a-1/train", ()))
    (told,) = attempts_of(events(*begun, Stop("a-1/train", status), Release("a-1/train")))
    (ended,) = attempts_of(events(*begun, Release("a-1/train"), MoveGroup("a-1", "train", status)))
    taken = status in (Status.FAILED_EVICTED, Status.FAILED_PREEMPTED)
    outcome = "done" if status is Status.COMPLETED else "taken" if taken else "failed"
    assert (told.outcome, ended.outcome) == (outcome, outcome)
    assert "_" not in told.words + ended.words


def test_pools_have_colours_by_name_and_subpools_have_the_colour_of_their_parent() -> None:
    assert colours(["b--x", "a", "b"]) == {"a": "c0", "b": "c1"}
    assert colours(f"p{number:02}" for number in range(11))["p10"] == "grey"


def told(text: str, second: int = 0) -> WorkflowEvent:
    at = datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)
    return WorkflowEvent(revision=1, seq=0, time=at, actor="engine", kind="K", law="", text=text)


def test_equal_events_of_many_tasks_are_one_line() -> None:
    lines = [told(f"task w-{number} (attempt 0) is RUNNING") for number in range(3)]
    lines += [told("task w-0 (attempt 0) is COMPLETED with exit code 0", 1), told("a-1 is COMPLETED", 1)]
    assert [line.text for line in folded(lines)] == [
        "3 tasks are RUNNING",
        "task w-0 (attempt 0) is COMPLETED with exit code 0",
        "a-1 is COMPLETED",
    ]
    (long,) = folded([told("word " * 100)])
    assert (f"{long.text} {long.rest}", len(long.text) <= 140) == ("word " * 100, True)


def test_long_event_is_cut_between_parts_and_names_its_rule_once() -> None:
    places = ", ".join(f"gpu-{number} (GPU 0, 2)" for number in range(10, 30))
    taken = "a was preempted by b, whose pool reclaimed borrowed quota"
    (first,) = folded([replace(told(f"a reserved {places} (Reserve, then start, rule R4)"), law="R4")])
    assert (first.text[-19:], first.rest[:6], "law" in first.rest) == (", gpu-15 (GPU 0, 2)", "gpu-16", False)
    text = f"{taken} (Reclaim, rule R2); lower-cost candidates ruled out: {'c ' * 80}"
    (second,) = folded([replace(told(text), law="R2")])
    assert (second.text, second.rest[:8]) == (taken, "lower-co")
