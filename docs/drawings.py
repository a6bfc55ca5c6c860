"""The drawings of docs/explanation/concepts.md as SVG. `make docs` writes them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from html import escape

INK, PAPER, LINE, GREY = "#1d2433", "#ffffff", "#9aa3b2", "#5b6475"
GUARANTEED, LOW, BORROWED, IDLE = "#2a7f78", "#8fc7c2", "#e9b872", "#eef1f5"


@dataclass(frozen=True)
class Work:
    name: str
    pool: str
    gpus: int
    low: bool = False


CAPACITY = 12
COHORTS = {"research": 2}
"""The cohorts, below the root, with their own quota."""
POOLS: Mapping[str, tuple[int, str | None]] = {"vision": (4, "research"), "speech": (2, "research"), "batch": (4, None)}
"""The quota and the cohort of each pool."""
BORROWING_LIMITS = {"batch": 2}
WORK = (
    Work("v1", "vision", 3),
    Work("b1", "batch", 2),
    Work("s1", "speech", 1, low=True),
    Work("v2", "vision", 2, low=True),
    Work("b2", "batch", 4, low=True),
)
"""Everything that runs in the example, in the order of submission and start."""


def used(pool: str, low: bool | None = None) -> int:
    """The GPUs that the work of *pool* uses; *low*: only LOW work, or only HIGH and NORMAL work."""
    return sum(each.gpus for each in WORK if each.pool == pool and low in (None, each.low))


# ---------------------------------------------------------------- pieces


def _svg(width: int, height: int, title: str, parts: Iterator[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}" font-family="Helvetica, Arial, sans-serif" font-size="14">'
    )
    paper = f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>'
    return "\n".join([head, paper, *parts, "</svg>", ""])


def _box(x: int, y: int, width: int, height: int, fill: str = PAPER) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" stroke="{LINE}"/>'


def _text(x: int, y: int, words: str, *, bold: bool = False, fill: str = INK, middle: bool = False) -> str:
    more = ' font-weight="bold"' * bold + ' text-anchor="middle"' * middle
    return f'<text x="{x}" y="{y}" fill="{fill}"{more}>{escape(words)}</text>'


def _line(x1: int, y1: int, x2: int, y2: int, *, arrow: bool = False) -> str:
    end = ' marker-end="url(#arrow)"' if arrow else ""
    return f'<path d="M{x1} {y1} L{x2} {y2}" stroke="{GREY}" fill="none"{end}/>'


# ---------------------------------------------------------------- the tree

_POOL_WIDTH, _CELL = 230, 24


def tree() -> str:
    """The quota tree of the example, with the GPUs in use."""
    return _svg(
        790, 430, "The quota tree of the example: root, cohort research, pools vision, speech and batch", _tree()
    )


def _tree() -> Iterator[str]:
    for x, y in ((265, 150), (655, 260)):
        yield _line(395, 76, x, y)
    for x in (135, 395):
        yield _line(265, 206, x, 260)
    yield _box(265, 20, 260, 56)
    yield _text(395, 43, "root", bold=True, middle=True)
    yield _text(395, 63, f"the cluster: {CAPACITY} GPUs", fill=GREY, middle=True)
    yield _box(135, 150, 260, 56)
    yield _text(265, 173, "research (cohort)", bold=True, middle=True)
    yield _text(265, 193, f"own quota {COHORTS['research']}, shared by its pools", fill=GREY, middle=True)
    for x, pool in zip((20, 280, 540), POOLS, strict=True):
        yield from _pool(x, 260, pool)
    for x, colour, words in (
        (20, GUARANTEED, "HIGH and NORMAL"),
        (180, LOW, "LOW, within the pool's quota"),
        (410, BORROWED, "LOW, borrowed"),
        (540, IDLE, "idle quota"),
    ):
        yield f'<rect x="{x}" y="396" width="14" height="14" fill="{colour}" stroke="{LINE}"/>'
        yield _text(x + 20, 408, words, fill=GREY)


def _pool(x: int, y: int, pool: str) -> Iterator[str]:
    """A box with a cell for each GPU, and a mark where the quota ends."""
    quota, _ = POOLS[pool]
    limit = BORROWING_LIMITS.get(pool)
    yield _box(x, y, _POOL_WIDTH, 116)
    limited = "" if limit is None else f", may borrow {limit}"
    yield _text(x + 12, y + 23, pool, bold=True)
    yield _text(x + 70, y + 23, f"quota {quota}{limited}", fill=GREY)
    guaranteed, total = used(pool, low=False), used(pool)
    for at in range(max(quota, total)):
        colour = GUARANTEED if at < guaranteed else IDLE if at >= total else BORROWED if at >= quota else LOW
        cell = f'<rect x="{x + 12 + at * _CELL}" y="{y + 40}" width="{_CELL - 3}" height="26"'
        yield f'{cell} fill="{colour}" stroke="{LINE}"/>'
    mark = x + 11 + quota * _CELL - 1
    yield f'<path d="M{mark} {y + 34} V{y + 72}" stroke="{INK}" stroke-width="2.5"/>'
    names = [f"{each.name} {'LOW' if each.low else 'NORMAL'} {each.gpus}" for each in WORK if each.pool == pool]
    yield _text(x + 12, y + 97, ",  ".join(names))


# ---------------------------------------------------------------- the cycle


def cycle() -> str:
    """The steps of a cycle."""
    return _svg(
        790, 400, "The steps of a cycle: the queue in order, fits now, may preempt, start, stop others, wait", _cycle()
    )


def _cycle() -> Iterator[str]:
    yield (
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 L10 5 L0 10 z" fill="{GREY}"/></marker></defs>'
    )
    for x, y, width, title, words in (
        (20, 30, 220, "1. Look", "what ended, which nodes are ready"),
        (285, 30, 220, "2. Take the next in the queue", "HIGH, NORMAL, LOW; then the oldest"),
        (285, 145, 220, "3. Does it fit now?", "in quota at every level, on nodes"),
        (285, 260, 220, "4. Is it guaranteed?", "HIGH or NORMAL, within guarantee"),
        (570, 145, 200, "Start it", "all of its pods together"),
        (570, 260, 200, "Stop LOW work, reserve", "as little as possible; then it starts"),
        (20, 260, 220, "It waits", "those behind it may still start"),
    ):
        yield _box(x, y, width, 62)
        yield _text(x + width // 2, y + 26, title, bold=True, middle=True)
        yield f'<g font-size="12">{_text(x + width // 2, y + 47, words, fill=GREY, middle=True)}</g>'
    yield _line(240, 61, 283, 61, arrow=True)
    yield _line(395, 92, 395, 143, arrow=True)
    yield _line(395, 207, 395, 258, arrow=True)
    yield _line(505, 176, 568, 176, arrow=True)
    yield _line(505, 291, 568, 291, arrow=True)
    yield _line(285, 291, 242, 291, arrow=True)
    for x, y, words in ((520, 168, "yes"), (405, 237, "no"), (520, 283, "yes"), (255, 283, "no")):
        yield _text(x, y, words, fill=GREY)
    yield f'<path d="M670 145 V70 H507" stroke="{GREY}" fill="none" marker-end="url(#arrow)"/>'
    yield f'<path d="M770 291 H780 V50 H507" stroke="{GREY}" fill="none" marker-end="url(#arrow)"/>'
    yield f'<path d="M130 260 V118 H262 V76 H283" stroke="{GREY}" fill="none" marker-end="url(#arrow)"/>'
    yield _text(
        20,
        362,
        "After the last one in the queue, all decisions are stored in one transaction, and tasks start and stop.",
        fill=GREY,
    )
    yield _text(20, 384, "The next cycle begins as soon as something changes.", fill=GREY)


DRAWINGS: Mapping[str, Callable[[], str]] = {"tree.svg": tree, "cycle.svg": cycle}
