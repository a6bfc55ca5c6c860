"""A fold of the event log: the worked example of docs/usage.md, worked out by hand."""

from collections import Counter

from runrig.domain.plan import Decision, Declaration
from runrig.domain.records import Event
from runrig.domain.usage import MICROSECONDS, Key, microseconds, nothing_folded
from runrig.engine.usage.fold import Fold
from tests.worlds.usage import SUBMITTERS, TEN, the_example

NOON = microseconds(TEN + 7200)


def _read(events: list[Event]) -> list[Event]:
    return [event for event in events if isinstance(event.action, Decision | Declaration)]


def _hours(upto: int) -> dict[str, dict[Key, float]]:
    """GPU-seconds by hour of day."""
    fold = Fold(nothing_folded(microseconds(TEN)))
    hours = [*fold.apply(_read(the_example()), SUBMITTERS), *fold.until(upto)]
    return {
        f"{(hour.begin - TEN) // 3600 + 10}": {key: amount / MICROSECONDS for key, amount in hour.sums.items()}
        for hour in hours
    }


def test_the_worked_example_gives_the_hand_computed_numbers() -> None:
    ann, sam = ("work", "vision", "h100", "NORMAL", "ann"), ("work", "speech", "h100", "LOW", "sam")
    speech, vision, flavor = ("quota", "speech", "h100"), ("quota", "vision", "h100"), ("flavor", "h100")
    assert _hours(NOON) == {
        "10": {
            (*sam, "held"): 11040,
            (*sam, "waited"): 3360,
            (*sam, "lost_preempted"): 11040,
            (*ann, "held"): 12480,
            (*ann, "waited"): 120,
            (*speech, "quota"): 7200,
            (*speech, "borrowed"): 5520,
            (*vision, "quota"): 21600,
            (*vision, "lent"): 5520,
            (*flavor, "capacity"): 28800,
            (*flavor, "free"): 5280,
            (*flavor, "idle_asked"): 1680,
        },
        "11": {
            (*sam, "held"): 7200,
            (*sam, "waited"): 7200,
            (*ann, "held"): 14400,
            (*speech, "quota"): 7200,
            (*speech, "borrowed"): 3600,
            (*vision, "quota"): 21600,
            (*vision, "lent"): 3600,
            (*flavor, "capacity"): 28800,
            (*flavor, "free"): 7200,
            (*flavor, "idle_asked"): 3600,
        },
        "12": {},
    }


def test_a_fold_that_looks_ahead_changes_nothing() -> None:
    events = _read(the_example())
    fold = Fold(nothing_folded(microseconds(TEN)))
    for at, event in enumerate(events):
        before = fold.folded()
        fold.until(before.at + at * 977 * MICROSECONDS)
        assert fold.folded() == before
        assert [*fold.apply([event], SUBMITTERS)] == [] or event.time >= TEN + 3600


def test_the_minutes_of_the_last_hour_add_up_to_its_sums_without_users() -> None:
    for number in range(1, len(_read(the_example()))):
        events = _read(the_example())
        fold = Fold(nothing_folded(microseconds(TEN)))
        hours = [*fold.apply(events[:number], SUBMITTERS)]
        fold.count_minutes()
        counted = fold.at // MICROSECONDS
        hours += fold.apply(events[number:], SUBMITTERS)
        since, minutes = fold.minutes(NOON)
        assert since == max(counted, TEN + 3600)
        found: Counter[Key] = Counter()
        for minute in minutes:
            found.update(minute.sums)
        if counted <= TEN + 3600:
            whole: Counter[Key] = Counter()
            for key, amount in next(
                each for each in (*hours, *fold.until(NOON)) if each.begin == TEN + 3600
            ).sums.items():
                if key[0] != "flavor" and not key[-1].startswith("lost"):
                    whole[(*key[:-2], key[-1]) if key[0] == "work" else key] += amount
            assert found == whole, number


def test_minutes_skip_a_weekend_without_events() -> None:
    events = _read(the_example())
    fold = Fold(nothing_folded(microseconds(TEN)))
    [*fold.apply(events, SUBMITTERS)]
    fold.count_minutes()
    monday = TEN + 3 * 24 * 3600
    late = Event(events[-1].revision + 1, 0, monday, "runrig", events[0].action)
    [*fold.apply([late], SUBMITTERS)]
    since, minutes = fold.minutes(microseconds(monday + 90))
    assert (since, len(minutes)) == (monday - 3510, 60)
    assert minutes[0].sums["work", "vision", "h100", "NORMAL", "held"] == 2 * 60 * MICROSECONDS


def test_hours_in_which_nothing_happens_are_summed_up_too() -> None:
    """And each hour only once, when an event lies beyond it."""
    events = _read(the_example())
    late = Event(events[-1].revision + 1, 0, TEN + 5.5 * 3600, "runrig", events[0].action)
    fold = Fold(nothing_folded(microseconds(TEN)))
    first = [*fold.apply(events, SUBMITTERS)]
    rest = [*fold.apply([late], SUBMITTERS)]
    assert [hour.begin - TEN for hour in (*first, *rest)] == [0, 3600, 7200, 10800, 14400]
    assert rest[-1].sums["work", "vision", "h100", "NORMAL", "ann", "held"] == 2 * 3600 * MICROSECONDS
