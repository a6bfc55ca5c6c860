"""A pool over time on a page: the picture, its axes and its numbers, and who used how much."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from runrig.domain.shown.usage import UsageRow
from runrig.domain.usage import DAY_S, HOUR_S, MINUTE_S
from runrig.service.queries.visibility import Visibility
from runrig.service.service import Service
from runrig.service.usage.over_time import PoolPoint
from runrig.service.usage.usage_queries import By, UsageQuery
from runrig.web.charts import chart_of, gpus, in_words

MOST_USERS = 10


@dataclass(frozen=True, slots=True)
class Range:
    """*step_s*: of the numbers. The picture ends at a whole *edge_s*, and has a time below every *mark_s*."""

    words: str
    length_s: int
    step_s: int
    edge_s: int
    mark_s: int
    written: str


RANGES: Mapping[str, Range] = {
    "1h": Range("the last hour", HOUR_S, MINUTE_S, MINUTE_S, HOUR_S // 4, "%H:%M"),
    "24h": Range("the last 24 hours", DAY_S, HOUR_S, HOUR_S, DAY_S // 4, "%H:%M"),
    "7d": Range("the last 7 days", 7 * DAY_S, HOUR_S, DAY_S, DAY_S, "%m-%d"),
    "30d": Range("the last 30 days", 30 * DAY_S, DAY_S, DAY_S, 6 * DAY_S, "%m-%d"),
}
USUAL = "24h"
SPANS: Mapping[str, int] = {"24h": DAY_S, "7d": 7 * DAY_S, "30d": 30 * DAY_S}
"""For which times a page shows who used how much, in seconds."""
USUAL_SPAN = "7d"


def drawn(service: Service, pool: str, over: str, now: float, visibility: Visibility) -> dict[str, Any]:
    """The range *over*, or the usual one, up to *now*. Raises NotFound.

    *range*: a key of `RANGES`. *marks*: times below the picture. *points*: newest first. *even_until*: as in `PoolOverTime`.
    """
    name = over if over in RANGES else USUAL
    of = RANGES[name]
    end = int(now // of.edge_s + 1) * of.edge_s
    shown = service.usage_queries.over_time(pool, end - of.length_s, end, of.step_s, visibility)
    marks = tuple(_written(at, of.written) for at in range(end - of.length_s, end + 1, of.mark_s))
    every = "day" if of.step_s == DAY_S else "hour"
    return {
        "pool": pool,
        "range": name,
        "words": of.words,
        "chart": chart_of(shown, in_words(pool, shown), lambda each: f"{from_to(each)}: {numbers(each)}"),
        "marks": marks,
        "points": shown.points[::-1],
        "even_until": "" if shown.even_until is None else _written(shown.even_until, "%H:%M"),
        "command": f"runrig usage --pool {pool} --every {every} --since {name} -t json",
    }


def _written(at: float, form: str) -> str:
    return datetime.fromtimestamp(at, UTC).strftime(form)


def from_to(each: PoolPoint) -> str:
    return f"{_written(each.begin, '%m-%d %H:%M')} to {_written(each.begin + each.length_s, '%H:%M')} UTC"


def numbers(each: PoolPoint) -> str:
    parts = [f"HIGH and NORMAL {gpus(each.firm)}", f"LOW {gpus(each.low)}", f"borrowed {gpus(each.borrowed)}"]
    parts += [f"waiting {gpus(each.waited)}", f"lent {gpus(each.lent)}", f"idle {gpus(each.idle)}"]
    return f"{', '.join(parts)}, quota {gpus(each.quota)}"


# ---------------------------------------------------------------- who used how much


def users_of(service: Service, pool: str | None, span: str, now: float, visibility: Visibility) -> dict[str, Any]:
    """*pool* None: all pools. Raises NotFound."""
    name = span if span in SPANS else USUAL_SPAN
    query = UsageQuery((By.USER,), now - SPANS[name], now, pools=() if pool is None else (pool,))
    found = service.usage_queries.usage(query, visibility)
    most = max((row.held for row in found.rows), default=0.0)
    rows = sorted(found.rows, key=lambda row: (-row.held, -row.waited, row.user or ""))
    shown = [_used(row, most) for row in rows if row.held or row.waited]
    rest = shown[MOST_USERS:]
    return {
        "span": name,
        "users": shown[:MOST_USERS],
        "rest": len(rest),
        "rest_held": sum(each["held"] for each in rest),
    }


def _used(row: UsageRow, most: float) -> dict[str, Any]:
    """GPU-hours of a user; *part*: of what all held, in percent."""
    return {
        "name": "users of other pools" if row.others else row.user or "deleted workflows",
        "held": row.held / HOUR_S,
        "waited": row.waited / HOUR_S,
        "lost": (row.lost_preempted + row.lost_other) / HOUR_S,
        "part": round(100 * row.held / most) if most else 0,
    }
