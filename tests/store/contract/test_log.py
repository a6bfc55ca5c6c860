"""The event log: in order, whole revisions, by workflow and by pool, every action equal to what was committed."""

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings

from runrig.domain.plan import Action, PutPool, Submit
from runrig.domain.records import Event
from runrig.ports.store import Store

from ..strategies import TEXTS, TIMES, values_of
from ..values import EVENTS, HISTORY, LATER, TEAM, Commit, fill


def numbered(events: tuple[Event, ...]) -> list[tuple[int, int]]:
    return [(event.revision, event.seq) for event in events]


def test_history_has_every_kind_of_action_of_the_first_release() -> None:
    assert {type(event.action) for event in EVENTS} == set(get_args(Action)) - set(LATER)


def test_the_log_reads_back_equal_and_in_order(store: Store) -> None:
    fill(store)
    assert store.log.events() == EVENTS


def test_page_ends_with_a_complete_revision_so_that_the_next_begins_after_it(store: Store) -> None:
    fill(store)
    first = len(HISTORY[0].events)
    assert store.log.events(limit=1) == EVENTS[:first]
    assert store.log.events(limit=first) == EVENTS[:first]
    assert store.log.events(after=1, limit=1) == HISTORY[1].events
    assert store.log.events(after=5, limit=1) == ()


def test_log_of_one_workflow_has_its_actions(store: Store) -> None:
    fill(store)
    assert numbered(store.log.events(workflow="train-4")) == [(5, 2), (5, 8)]
    assert numbered(store.log.events(workflow="train-2")) == [(3, 1), (3, 2), (5, 4), (5, 6), (5, 7)]
    assert numbered(store.log.events(workflow="train-2", after=3)) == [(5, 4), (5, 6), (5, 7)]
    assert numbered(store.log.events(workflow="eval-2", limit=1)) == [(4, 1)]
    assert store.log.events(workflow="train") == ()


def test_the_log_can_be_read_for_some_actions_only(store: Store) -> None:
    fill(store)
    wanted = ("Preempt", "Submit")
    expected = tuple(event for event in EVENTS if type(event.action).__name__ in wanted)
    assert store.log.events(actions=wanted) == expected
    assert store.log.events(actions=wanted, after=expected[0].revision, limit=1)[0] == next(
        event for event in expected if event.revision > expected[0].revision
    )
    assert store.log.events(workflow="train-4", actions=("Admit",)) == tuple(
        event for event in store.log.events(workflow="train-4") if type(event.action).__name__ == "Admit"
    )


def test_log_of_one_pool_has_only_changes_of_that_pool(store: Store) -> None:
    fill(store)
    actions = [event.action for event in store.log.events(pool="team")]
    assert actions == [PutPool(TEAM), HISTORY[1].events[2].action]
    assert numbered(store.log.events(pool="team--b")) == [(1, 10)]


@pytest.mark.parametrize("kind", get_args(Action), ids=lambda kind: kind.__name__)
def test_any_action_is_read_back_unchanged(store: Store, kind: type) -> None:
    revision = 0

    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
    @given(action=values_of(kind), time=TIMES, actor=TEXTS, law=TEXTS)
    def each(action: Action, time: float, actor: str, law: str) -> None:
        nonlocal revision
        revision += 1
        if isinstance(action, Submit):  # the times of a workflow follow from the log, so actions do not contain them
            action = replace(action, workflow=replace(action.workflow, times=None))
        event = Event(revision, 0, time, actor, action, law)
        Commit(revision, (event,), ()).to(store)
        assert store.log.events(after=revision - 1) == (event,)

    each()
