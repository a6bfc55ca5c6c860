"""Usage: every pool over time, its sums, and the users, for the last day, week or month."""

from typing import Annotated, Any

from fastapi import Query, Response

from runrig.domain.access import Permission
from runrig.domain.pools import top_level
from runrig.domain.shown.usage import UsageRow
from runrig.domain.usage import HOUR_S
from runrig.http.permissions import Asking, needs
from runrig.http.routing import Asked, Serving
from runrig.service.usage.usage_queries import By, UsageQuery
from runrig.web.over_time import SPANS, USUAL_SPAN, drawn, users_of
from runrig.web.pages.parts import colours_of
from runrig.web.rendering import html
from runrig.web.routes import router

MOST_PICTURES = 8
"""The pools that held and waited most; each picture costs about 10 ms. The table has all pools."""

Over = Annotated[str, Query(description="24h, 7d or 30d")]


@router.get("/usage", dependencies=[needs(Permission.LIST_POOLS)])
def usage(request: Asked, service: Serving, asker: Asking, over: Over = "") -> Response:
    now, visibility = service.workflow_queries.now(), asker.visibility
    name = over if over in SPANS else USUAL_SPAN
    since = now - SPANS[name]
    sums = _by_pool(service.usage_queries.usage(UsageQuery((By.POOL,), since, tree=True), visibility).rows)
    flavors = service.usage_queries.usage(UsageQuery((By.FLAVOR,), since), visibility).rows
    shown = [each["name"] for each in sums if each["name"] and (each["held"] or each["waited"])]
    there = {pool.name for pool in service.queries.declared(visibility)}
    pictures = [drawn(service, pool, name, now, visibility) for pool in shown if pool in there][:MOST_PICTURES]
    return html(
        request,
        "usage.html",
        over=name,
        sums=sums,
        there=there,
        flavors=[row for row in flavors if row.capacity],
        pictures=pictures,
        colours=colours_of(service, [each["pool"] for each in pictures], visibility),
        **users_of(service, None, name, now, visibility),
    )


def _by_pool(rows: tuple[UsageRow, ...]) -> list[dict[str, Any]]:
    """GPU-hours of top-level pools with their subpools, those that held and waited most first. The last has no name: those that the
    user does not see. *idle*: unused quota.
    """
    found: dict[str, dict[str, Any]] = {}
    netted = {row.pool for row in rows if row.subtree and row.borrowed is not None}
    for row in rows:
        top = top_level(row.pool or "")
        if row.subtree != (top in netted):
            continue
        quota, guaranteed, drawn_, lent = row.quota or 0.0, row.guaranteed or 0.0, row.drawn or 0.0, row.lent or 0.0
        more = {
            "quota": quota,
            "held": row.held,
            "guaranteed": guaranteed + drawn_,
            "borrowed": row.borrowed or 0.0,
            "lent": lent,
            "idle": max(0.0, quota - guaranteed - lent),
            "waited": row.waited,
            "lost": row.lost_preempted + row.lost_other,
        }
        sums = found.setdefault(top, {"name": top} | dict.fromkeys(more, 0.0))
        for name, amount in more.items():
            sums[name] += amount / HOUR_S
    return sorted(found.values(), key=lambda each: (not each["name"], -each["held"] - each["waited"], each["name"]))
