"""A pool over time as SVG: what is held, stacked, with the quota and what waits as lines.

Pure. The picture is stretched to its place, so it has no text: the axes are HTML next to it, and each step has its numbers as a title.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup, escape

from runrig.service.usage.over_time import PoolOverTime, PoolPoint

WIDE, HIGH = 1000, 200
TICKS = 4
MOST_WAITING = 1.5
"""The axis ends at this many times what is held or guaranteed; a longer queue is cut there."""

# All parts are numbers or escaped text.
_drawn = Markup


@dataclass(frozen=True, slots=True)
class Chart:
    """*picture*: of all points. *ticks*: numbers of GPUs from the top down to 0. *cut*: the largest number of waiting GPUs, if the
    line of what waits is cut at the top; None: it is not.
    """

    picture: Markup
    ticks: tuple[int, ...]
    cut: float | None


def chart_of(shown: PoolOverTime, words: str, said: Callable[[PoolPoint], str]) -> Chart:
    """*words*: the same as text, in one sentence. *said*: the numbers of a point as text."""
    points = shown.points
    held = max((max(each.held, each.quota) for each in points), default=0.0)
    waited = max((each.waited for each in points), default=0.0)
    tick = _tick(max(1.0, held, min(waited, MOST_WAITING * max(held, 1.0))))
    top = tick * TICKS
    draw = _Draw(points, shown.begin, shown.end, top)
    parts = [
        *(f'<path class="grid" d="M0 {HIGH * line // TICKS}h{WIDE}"/>' for line in range(TICKS)),
        draw.area("firm", lambda _: 0.0, lambda each: each.firm),
        draw.area("low", lambda each: each.firm, lambda each: each.firm + each.low),
        draw.area("over", lambda each: each.firm + each.low, lambda each: each.held),
        draw.line("quota", lambda each: each.quota),
        draw.line("waiting", lambda each: min(each.waited, float(top))),
        *draw.titles(said),
    ]
    picture = (
        f'<svg class="chart" viewBox="0 0 {WIDE} {HIGH}" preserveAspectRatio="none" role="img" aria-label="{escape(words)}">'
        f"{''.join(parts)}</svg>"
    )
    return Chart(_drawn(picture), tuple(tick * at for at in range(TICKS, -1, -1)), waited if waited > top else None)


def _tick(most: float) -> int:
    """The smallest round number that reaches *most* in `TICKS` steps."""
    unit = 1
    while True:
        for factor in (1, 2, 3, 4, 5, 6, 8):
            if unit * factor * TICKS >= most:
                return unit * factor
        unit *= 10


class _Draw:
    def __init__(self, points: Sequence[PoolPoint], begin: float, end: float, top: int) -> None:
        self._points = points
        self._begin, self._scale = begin, WIDE / max(1.0, end - begin)
        self._top = top

    def area(self, kind: str, below: Callable[[PoolPoint], float], above: Callable[[PoolPoint], float]) -> str:
        """Steps between *below* and *above*; equal neighbours are one step."""
        parts = [
            f"M{x} {self._y(high)}H{to}V{self._y(low)}H{x}z"
            for x, to, (low, high) in self._runs(lambda each: (below(each), above(each)))
            if self._y(high) != self._y(low)
        ]
        return f'<path class="{kind}" d="{"".join(parts)}"/>' if parts else ""

    def line(self, kind: str, of: Callable[[PoolPoint], float]) -> str:
        path = "".join(
            f"{'V' if at else f'M{x} '}{self._y(value)}H{to}"
            for at, (x, to, (value,)) in enumerate(self._runs(lambda each: (of(each),)))
        )
        return f'<path class="{kind}" d="{path}"/>' if path else ""

    def titles(self, said: Callable[[PoolPoint], str]) -> Iterator[str]:
        for each in self._points:
            x, to = self._x(each.begin), self._x(each.begin + each.length_s)
            yield (
                f'<rect class="step" x="{x}" y="0" width="{max(to - x, 1)}" height="{HIGH}"><title>{escape(said(each))}</title></rect>'
            )

    def _runs(self, of: Callable[[PoolPoint], tuple[float, ...]]) -> Iterator[tuple[int, int, tuple[float, ...]]]:
        """Yields (left, right, values) of points in a row with the same values."""
        for values, same in groupby(self._points, of):
            run = list(same)
            yield self._x(run[0].begin), self._x(run[-1].begin + run[-1].length_s), values

    def _x(self, at: float) -> int:
        return round(max(0.0, min(1.0 * WIDE, (at - self._begin) * self._scale)))

    def _y(self, gpus: float) -> int:
        return HIGH - round(min(1.0, gpus / self._top) * HIGH)


def gpus(amount: float) -> str:
    """``8``, ``7.5``: an average number of GPUs."""
    return f"{amount:,.0f}" if abs(amount - round(amount)) < 0.05 else f"{amount:,.1f}"


def in_words(pool: str, shown: PoolOverTime) -> str:
    """The picture in a sentence, for people who do not see it."""
    if not shown.points:
        return f"No usage of {pool} is recorded for this time yet"
    held = [each.held for each in shown.points]
    last = shown.points[-1]
    return (
        f"{pool}: from {gpus(min(held))} to {gpus(max(held))} GPUs in use, now {gpus(last.held)} of a quota of {gpus(last.quota)}; "
        f"at most {gpus(max(each.borrowed for each in shown.points))} borrowed and "
        f"{gpus(max(each.waited for each in shown.points))} waiting. The table below has all numbers"
    )
