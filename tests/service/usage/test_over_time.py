"""A pool over time: the worked example of docs/usage.md by hour, by day and by minute."""

from pathlib import Path

import pytest

from runrig.domain.access import Identity, role_named
from runrig.domain.errors import NotFound
from runrig.domain.usage import DAY_S, HOUR_S, MINUTE_S
from runrig.service.queries.visibility import ALL, Visibility
from runrig.service.service import Service
from runrig.service.usage.over_time import PoolOverTime, PoolPoint
from tests.worlds.service import T0, desk
from tests.worlds.usage import TEN, example_service


def shown(service: Service, pool: str, begin: float, end: float, step_s: int) -> PoolOverTime:
    return service.usage_queries.over_time(pool, begin, end, step_s, ALL)


def rounded(each: PoolPoint) -> tuple[float, ...]:
    """Minutes since ten, minutes, then quota, firm, low, borrowed, lent, waited."""
    gpus = (each.quota, each.firm, each.low, each.borrowed, each.lent, each.waited)
    return (*(round(seconds / 60, 1) for seconds in (each.begin - TEN, each.length_s)), *(round(of, 3) for of in gpus))


def test_each_hour_has_the_averages_of_the_example(tmp_path: Path) -> None:
    with example_service(tmp_path) as service:
        of = {pool: shown(service, pool, TEN - HOUR_S, TEN + 7200, HOUR_S) for pool in ("speech", "vision")}
        assert {pool: [rounded(each) for each in found.points] for pool, found in of.items()} == {
            "speech": [(0, 60, 2, 0, 1.533, 1.533, 0, 0.933), (60, 60, 2, 0, 1, 1, 0, 2)],
            "vision": [(0, 60, 6, 3.467, 0, 0, 1.533, 0.033), (60, 60, 6, 4, 0, 0, 1, 0)],
        }, "nothing is known before ten"
        assert of["vision"].even_until is None
        assert of["speech"].points[0].held == pytest.approx(11040 / 3600)
        assert of["vision"].points[0].idle == pytest.approx(6 - 12480 / 3600 - 5520 / 3600)


def test_unfinished_day_counts_only_elapsed_time(tmp_path: Path) -> None:
    with example_service(tmp_path) as service:
        day = TEN - TEN % DAY_S
        (found,) = shown(service, "vision", day, day + DAY_S, DAY_S).points
        assert rounded(found) == (0, 120, 6, 3.733, 0, 0, 1.267, 0.017)


def test_minutes_before_the_server_started_are_the_average_of_their_hour(tmp_path: Path) -> None:
    """The last event is at 11:30, from where the server counts."""
    with example_service(tmp_path, clock_at=TEN + 100 * 60) as service:
        found = shown(service, "vision", TEN + 40 * 60, TEN + 100 * 60, MINUTE_S)
        assert [(each.begin - TEN) / 60 for each in found.points] == list(range(40, 100))
        assert {(each.length_s, round(each.held, 3)) for each in found.points[:20]} == {(60, 3.467)}
        assert {(each.length_s, round(each.held, 3)) for each in found.points[20:50]} == {(60, 6)}
        assert {(each.length_s, round(each.held, 3)) for each in found.points[50:]} == {(60, 2)}
        assert found.even_until == TEN + 90 * 60


def test_minutes_are_exact_while_the_server_runs_and_add_up_to_their_hour(tmp_path: Path) -> None:
    with desk(tmp_path) as it:
        it.service.settle()
        it.service.usage.step()
        it.later(60)
        it.submit("a", gpus=2, duration=150.0)  # at 61 s
        it.service.settle()
        it.service.usage.step()
        it.later(149)  # 210 s
        it.later(10)
        it.service.usage.step()
        it.later(80)  # 300 s
        found = shown(it.service, "pool1", T0, T0 + 300, MINUTE_S)
        assert [round(each.held * each.length_s, 1) for each in found.points] == [0, 118, 120, 62 + 2 * (220 - 211), 0]
        (hour,) = shown(it.service, "pool1", T0, T0 + HOUR_S, HOUR_S).points
        assert hour.held * hour.length_s == pytest.approx(sum(each.held * each.length_s for each in found.points))


def test_pool_that_a_user_cannot_see_is_unknown(tmp_path: Path) -> None:
    with example_service(tmp_path) as service:
        ann = Visibility(Identity("ann", (role_named("vision-user"),)))
        assert service.usage_queries.over_time("vision", TEN, TEN + 7200, HOUR_S, ann).points
        with pytest.raises(NotFound):
            service.usage_queries.over_time("speech", TEN, TEN + 7200, HOUR_S, ann)
