"""A pool over time as SVG."""

import re

from runrig.service.usage.over_time import PoolOverTime, PoolPoint
from runrig.web.charts import chart_of, gpus, in_words


def point(begin: float, firm: float = 0, low: float = 0, borrowed: float = 0, waited: float = 0) -> PoolPoint:
    return PoolPoint(begin, 10.0, 8.0, firm, low, borrowed, 0.0, waited)


def paths(*points: PoolPoint, end: float = 40.0) -> dict[str, str]:
    chart = chart_of(PoolOverTime(0.0, end, points), "words", lambda _: "said")
    return dict(re.findall(r'<path class="(firm|low|over|quota|waiting)" d="(.*?)"/>', chart.picture))


def test_parts_are_stacked_and_equal_neighbours_are_one_step() -> None:
    assert paths(point(0, 4), point(10, 4), point(20, 2, 6, 4), point(30, waited=4)) == {
        "firm": "M0 133H500V200H0zM500 167H750V200H500z",
        "low": "M500 67H750V167H500z",
        "over": "M500 0H750V67H500z",
        "quota": "M0 67H1000",
        "waiting": "M0 200H750V133H1000",
    }


def test_a_long_queue_is_cut_where_the_axis_ends() -> None:
    chart = chart_of(PoolOverTime(0.0, 10.0, (point(0, 4, waited=1_000),)), "words", lambda _: "said")
    assert (chart.ticks, chart.cut) == ((12, 9, 6, 3, 0), 1_000)
    assert chart_of(PoolOverTime(0.0, 10.0, ()), "words", lambda _: "said").ticks == (4, 3, 2, 1, 0)


def test_each_step_has_its_numbers_and_text_is_escaped() -> None:
    picture = chart_of(PoolOverTime(0.0, 20.0, (point(0), point(10))), '"<&', lambda each: f"<{each.begin:g}>").picture
    assert re.findall(r"<title>(.*?)</title>", picture) == ["&lt;0&gt;", "&lt;10&gt;"]
    assert 'aria-label="&#34;&lt;&amp;"' in picture


def test_amounts_have_only_significant_digits() -> None:
    assert [gpus(each) for each in (0.0, 0.04, 0.06, 7.96, 8.0, 1234.5)] == ["0", "0", "0.1", "8", "8", "1,234.5"]


def test_picture_is_described_in_a_sentence() -> None:
    shown = PoolOverTime(0.0, 20.0, (point(0, 8, 0, 4), point(10, 2, waited=16)))
    assert in_words("vision", shown) == (
        "vision: from 2 to 12 GPUs in use, now 2 of a quota of 8; at most 4 borrowed and 16 waiting. The table below has all numbers"
    )
    assert in_words("vision", PoolOverTime(0.0, 20.0, ())) == "No usage of vision is recorded for this time yet"
