"""The usage of a month as one HTML page that needs nothing else. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from runrig.cli.rendering import sanitize

Answer = Mapping[str, Any]
Row = Mapping[str, Any]

MOST_USERS = 30
HIGH, WIDE, GAP = 160, 22, 4
"""Height of the picture, width of a day, and space between days."""
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A day in the picture. *parts*: (class, top, height) from the bottom up. *words*: its numbers."""

    x: int
    day: int
    parts: tuple[tuple[str, float, float], ...]
    words: str


def page(server: str, pools: Answer, users: Answer, flavors: Answer, pool_days: Answer, flavor_days: Answer) -> str:
    """Returns the page for answers of `GET /api/v1/usage`: by pool, by user, by flavor, and by pool and by flavor for each day."""
    begin = datetime.fromisoformat(pools["since"])
    total, nodes = pools["total"], flavors["total"]
    used = sorted(users["rows"], key=lambda row: (row["others"], -row["held"], -row["waited"], row["user"] or ""))
    used = [row for row in used if row["held"] or row["waited"]]
    bars, most = _bars(pool_days["rows"], flavor_days["rows"])
    return _environment.get_template("usage_page.html").render(
        server=server,
        month=f"{begin:%B %Y}",
        complete=_incomplete(pools),
        says=list(_sentences(f"{begin:%B %Y}", total, nodes)),
        pools=sorted(pools["rows"], key=lambda row: (row["others"], -row["held"], row["pool"] or "")),
        total=total,
        flavors=flavors["rows"] if nodes["capacity"] is not None else (),
        users=used[:MOST_USERS],
        rest=used[MOST_USERS:],
        bars=bars,
        most=most,
        high=HIGH,
        wide=len(bars) * (WIDE + GAP),
    )


def _incomplete(answer: Answer) -> str:
    """Which part of the month is not known; "" if all is."""
    since, known, until = answer["since"], answer["complete_since"], answer["folded_until"]
    if known is None:
        return "No usage is recorded for this month."
    at = datetime.fromisoformat
    if at(known) > at(since):
        return f"Usage is recorded since {at(known):%Y-%m-%d %H:%M} UTC."
    if at(until) < at(answer["until"]):
        return f"Counted until {at(until):%Y-%m-%d %H:%M} UTC."
    return ""


def _sentences(month: str, total: Row, nodes: Row) -> Iterator[str]:
    if nodes["capacity"]:
        part = 100 * total["held"] / nodes["capacity"]
        yield f"In {month} the cluster had {hours(nodes['capacity'])} GPU-hours. {hours(total['held'])} of them ({part:.0f} %) were in use."
        yield f"{hours(nodes['idle_asked'])} GPU-hours were free while waiting work could have used them; {hours(nodes['down'])} were down."
    else:
        yield f"In {month}, {hours(total['held'])} GPU-hours were in use."
    if total["borrowed"] is not None:
        yield f"Pools borrowed {hours(total['borrowed'])} GPU-hours from quota that other pools did not use."
    lost = total["lost_preempted"] + total["lost_other"]
    yield (
        f"{hours(lost)} GPU-hours were lost: {hours(total['lost_preempted'])} to preemption, {hours(total['lost_other'])} to drains "
        "and lost nodes. Work that continues from a checkpoint loses less."
    )


def hours(seconds: float | None) -> str:
    """``12.5``, ``1,204``; "–" for what is not known."""
    if seconds is None:
        return "–"
    found = seconds / _HOUR_S
    return f"{found:,.1f}" if found < 99.95 else f"{found:,.0f}"


def _bars(pool_days: Sequence[Row], flavor_days: Sequence[Row]) -> tuple[list[Bar], int]:
    """Returns a bar for each day, and the average number of GPUs at the top of the picture."""
    days: dict[str, dict[str, float]] = {}
    for rows, names in ((pool_days, ("held", "borrowed", "waited")), (flavor_days, ("capacity", "idle_asked", "down"))):
        for row in rows:
            of = days.setdefault(row["time"], {})
            for name in names:
                of[name] = of.get(name, 0.0) + (row[name] or 0.0)
    gpus = {time: {name: amount / _HOUR_S / 24 for name, amount in of.items()} for time, of in sorted(days.items())}
    most = max((max(of.get("capacity", 0.0), of.get("held", 0.0)) for of in gpus.values()), default=0.0)
    top = max(1, -int(-most // 1))
    return [_bar(at, datetime.fromisoformat(time), of, top) for at, (time, of) in enumerate(gpus.items())], top


def _bar(at: int, time: datetime, of: Mapping[str, float], top: int) -> Bar:
    held, borrowed = of.get("held", 0.0), of.get("borrowed", 0.0)
    free = max(0.0, of.get("capacity", 0.0) - held - of.get("down", 0.0))
    asked = min(free, of.get("idle_asked", 0.0))
    below, parts = 0.0, []
    for kind, amount in (("own", held - borrowed), ("borrowed", borrowed), ("asked", asked), ("free", free - asked)):
        height = max(0.0, amount) / top * HIGH
        below += height
        parts.append((kind, round(HIGH - below, 1), round(height, 1)))
    words = (
        f"{time:%Y-%m-%d}: {held:,.1f} GPUs in use, {borrowed:,.1f} of them borrowed; {of.get('waited', 0.0):,.1f} waited for; "
        f"{free:,.1f} free, {asked:,.1f} of them while work waited"
    )
    return Bar(at * (WIDE + GAP), time.day, tuple(each for each in parts if each[2]), words)


_environment = Environment(
    loader=PackageLoader("runrig.cli.rendering", "."),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters |= {"hours": hours, "line": sanitize.line}
