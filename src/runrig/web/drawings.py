"""Pictures without script, as SVG: bars of the quota tree, the graph of a workflow, the attempts of its groups.

Pure. Colours are classes of the style sheet, since the page allows no inline styles.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from runrig.domain.pools import SUBPOOL_DELIMITER

# All parts are numbers, class names, or escaped text.
_drawn = Markup

# ---------------------------------------------------------------- a bar

GUARANTEED, BEYOND, HIGH = 84, 44, 10
"""Widths of the guaranteed and borrowed parts, and height of a bar, in pixels."""


@dataclass(frozen=True, slots=True)
class Share:
    """GPUs of a pool or cohort. *guaranteed*: its quota, including subpools. *firm*, *low*: in use by HIGH and NORMAL,
    by LOW.

    *borrowed*: part of its usage. *lent*: part of its guaranteed quota, in use by others.
    """

    guaranteed: int
    firm: int
    low: int
    borrowed: int
    lent: int


@dataclass(frozen=True, slots=True)
class Bar:
    """Parts of a bar as (class, x, width).  *more*: it borrows more than fits."""

    parts: tuple[tuple[str, float, float], ...]
    more: bool


def bar_of(share: Share) -> Bar:
    """Returns the guaranteed parts in order, left of the line at `GUARANTEED`, and borrowed ones right of it, on the same
    scale.

    Without guaranteed quota, everything is borrowed and fills the right part.
    """
    scale = GUARANTEED / share.guaranteed if share.guaranteed else BEYOND / max(1, share.borrowed)
    inside = share.firm + share.low - share.borrowed
    firm = min(share.firm, max(0, inside))
    low = max(0, inside - firm)
    parts, at = [], 0.0
    for kind, amount in (("firm", firm), ("low", low)):
        width = _round(min(amount * scale, GUARANTEED - at))
        if width > 0:
            parts.append((kind, _round(at), width))
        at += width
    lent = _round(min(share.lent * scale, GUARANTEED - at))
    if lent > 0:
        parts.append(("lent", _round(GUARANTEED - lent), lent))
    beyond = share.borrowed * scale
    if beyond > 0:
        parts.append(("over", float(GUARANTEED), _round(max(1.0, min(beyond, BEYOND)))))
    return Bar(tuple(parts), beyond > BEYOND)


def bar(share: Share, words: str) -> Markup:
    """*words*: the same as text, for screen readers."""
    drawn = bar_of(share)
    width = GUARANTEED + BEYOND
    rects = [f'<rect class="ground" x="0" y="2" width="{GUARANTEED if share.guaranteed else 0}" height="{HIGH}"/>']
    rects += [f'<rect class="{kind}" x="{x:g}" y="2" width="{w:g}" height="{HIGH}"/>' for kind, x, w in drawn.parts]
    if drawn.more:
        rects.append(f'<path class="more" d="M{width - 5} 3l4 4l-4 4"/>')
    rects.append(f'<path class="line" d="M{GUARANTEED} 0v{HIGH + 4}"/>')
    return _drawn(
        f'<svg class="bar" width="{width}" height="{HIGH + 4}" viewBox="0 0 {width} {HIGH + 4}" role="img">'
        f"<title>{escape(words)}</title>{''.join(rects)}</svg>"
    )


def _round(value: float) -> float:
    return round(value, 1)


# ---------------------------------------------------------------- a graph

BOX_W, BOX_H, GAP_X, GAP_Y = 168, 54, 40, 14
NOTE_FITS = 24
"""Characters of an upper-case status that fit in a box; longer ones are narrowed."""


@dataclass(frozen=True, slots=True)
class Box:
    """A group. *kind*: class for its state. *lines*: text below its name."""

    name: str
    kind: str
    status: str
    line: str
    upstream: tuple[str, ...] = ()


def columns(boxes: Sequence[Box]) -> list[list[Box]]:
    """Returns the boxes in columns, each right of all its dependencies, in order."""
    by_name = {box.name: box for box in boxes}
    depth: dict[str, int] = {}

    def depth_of(box: Box) -> int:
        if box.name not in depth:
            depth[box.name] = 0  # A cycle is refused at submission.
            above = [depth_of(by_name[name]) for name in box.upstream if name in by_name]
            depth[box.name] = max(above, default=-1) + 1
        return depth[box.name]

    found: list[list[Box]] = [[] for _ in range(max(map(depth_of, boxes), default=-1) + 1)]
    for box in boxes:
        found[depth[box.name]].append(box)
    return found


def graph(boxes: Sequence[Box]) -> Markup:
    """Draws the groups of a workflow, each right of its dependencies and connected to them."""
    placed = columns(boxes)
    at = {box.name: (x, y) for x, column in enumerate(placed) for y, box in enumerate(column)}
    width = len(placed) * (BOX_W + GAP_X) - GAP_X + 2
    height = max(map(len, placed), default=0) * (BOX_H + GAP_Y) - GAP_Y + 2
    lines = [_line(at[name], at[box.name]) for box in boxes for name in box.upstream if name in at]
    drawn = [_box(box, *at[box.name]) for box in boxes]
    return _drawn(
        f'<svg class="graph" width="{max(width, 0)}" height="{max(height, 0)}" viewBox="0 0 {max(width, 0)} {max(height, 0)}" '
        f'role="img" aria-label="Groups in order of execution, from left to right">{"".join(lines + drawn)}</svg>'
    )


def _line(one: tuple[int, int], other: tuple[int, int]) -> str:
    x1, y1 = one[0] * (BOX_W + GAP_X) + BOX_W + 1, one[1] * (BOX_H + GAP_Y) + BOX_H // 2 + 1
    x2, y2 = other[0] * (BOX_W + GAP_X) + 1, other[1] * (BOX_H + GAP_Y) + BOX_H // 2 + 1
    half = (x2 - x1) // 2
    return f'<path class="edge" d="M{x1} {y1}C{x1 + half} {y1} {x2 - half} {y2} {x2} {y2}"/>'


def _box(box: Box, column: int, row: int) -> str:
    x, y = column * (BOX_W + GAP_X) + 1, row * (BOX_H + GAP_Y) + 1
    note = _cut(f"{box.status} · {box.line}" if box.line else box.status, 32)
    narrower = f' textLength="{BOX_W - 20}" lengthAdjust="spacingAndGlyphs"' if len(note) > NOTE_FITS else ""
    texts = (
        f'<text class="name" x="{x + 12}" y="{y + 22}">{escape(_cut(box.name, 20))}<title>{escape(box.name)}</title></text>'
        f'<text class="note" x="{x + 12}" y="{y + 41}"{narrower}>{escape(note)}</text>'
    )
    return (
        f'<g class="box {escape(box.kind)}"><rect x="{x}" y="{y}" width="{BOX_W}" height="{BOX_H}" rx="6"/>'
        f'<rect class="edge-mark" x="{x}" y="{y}" width="4" height="{BOX_H}" rx="2"/>{texts}</g>'
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


# ---------------------------------------------------------------- times

SPAN = 1000
"""Width of a row in its own units; it is stretched to the available width."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a group, in seconds since the epoch. *start*: admitted; None: it is waiting. *ran*: its first pod
    ran; None: none has. *end* None: it has not ended.

    *outcome*: a class. *words*: its description.
    """

    group: str
    number: int
    queued: float
    start: float | None
    ran: float | None
    end: float | None
    outcome: str
    words: str


def times(attempt: Attempt, begin: float, end: float) -> Markup:
    """Draws an attempt from *begin* to *end*: thin while waiting, pale while starting, then thick."""
    parts = []
    over = attempt.end or end
    # An attempt that ended before it ran still shows how it ended.
    ran = attempt.ran or (attempt.start if attempt.end else None)
    for kind, since, until, y, height in (
        ("waits", attempt.queued, attempt.start or over, 6, 4),
        ("starts", attempt.start, ran or over, 1, 14),
        (attempt.outcome, ran, over, 1, 14),
    ):
        if since is not None and until > since:
            x, width = _scaled(since, begin, end), _scaled(until, begin, end) - _scaled(since, begin, end)
            parts.append(f'<rect class="{escape(kind)}" x="{x}" y="{y}" width="{max(width, 2)}" height="{height}"/>')
    return _drawn(
        f'<svg class="times" viewBox="0 0 {SPAN} 16" preserveAspectRatio="none" aria-hidden="true">{"".join(parts)}</svg>'
    )


def _scaled(at: float, begin: float, end: float) -> int:
    return round((at - begin) / max(end - begin, 1e-6) * SPAN)


# ---------------------------------------------------------------- GPU use

USE_HIGH = 100


@dataclass(frozen=True, slots=True)
class UsePoint:
    """*at*: when it begins.  *busy*: percent.  *memory*: GiB.  None: not measured."""

    at: float
    busy: float | None
    memory: float | None


def use(
    points: Sequence[UsePoint], begin: float, end: float, each_s: float, top: float, said: Callable[[UsePoint], str]
) -> Markup:
    """Draws how busy GPUs were as an area, and their memory as a line, up to *top* GiB. A point stands for *each_s* seconds; where
    nothing was measured, there is a gap.
    """

    def steps(values: Iterable[tuple[float, float | None]], closed: bool) -> str:
        paths: list[str] = []
        last: float | None = None
        for start, value in values:
            if value is None:
                continue
            x, y = _scaled(start, begin, end), USE_HIGH - round(min(1.0, value) * USE_HIGH)
            if last != start:
                paths.append(f"V{USE_HIGH}M{x} {USE_HIGH}" if closed else f"M{x} {y}")
            paths.append(f"V{y}H{_scaled(min(start + each_s, end), begin, end)}")
            last = start + each_s
        return "".join((*paths, f"V{USE_HIGH}" if closed else "")).removeprefix(f"V{USE_HIGH}")

    busy = steps(((each.at, None if each.busy is None else each.busy / 100) for each in points), True)
    memory = steps(((each.at, None if each.memory is None else each.memory / top) for each in points), False)
    titles = [
        f'<rect class="step" x="{_scaled(each.at, begin, end)}" y="0" width="{max(1, _scaled(begin + each_s, begin, end))}" '
        f'height="{USE_HIGH}"><title>{escape(said(each))}</title></rect>'
        for each in points
    ]
    return _drawn(
        f'<svg class="chart" viewBox="0 0 {SPAN} {USE_HIGH}" preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="grid" d="M0 0h{SPAN}M0 50h{SPAN}"/><path class="busy" d="{busy}"/><path class="memory" d="{memory}"/>'
        f"{''.join(titles)}</svg>"
    )


# ---------------------------------------------------------------- colours

HUES = 9
"""Colours in the style sheet; other pools are grey."""


def colours(pools: Iterable[str]) -> Mapping[str, str]:
    """Returns a class for each pool, by name. Subpools share their parent's colour; pools beyond the last colour are grey."""
    tops = sorted({pool.partition(SUBPOOL_DELIMITER)[0] for pool in pools})
    return {top: f"c{place}" if place < HUES else "grey" for place, top in enumerate(tops)}
