"""`runrig usage`: who used how much."""

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click

from runrig.cli import options
from runrig.cli.lazy import group
from runrig.cli.options import MOMENT, words
from runrig.cli.rendering import sanitize
from runrig.cli.rendering.output import say
from runrig.cli.rendering.tables import Column, Table, show
from runrig.cli.transport.session import CSV, JSON, TEXT, Session, with_session
from runrig.client.transport import path
from runrig.domain.pools import top_level

Row = Mapping[str, Any]

KEYS = ("user", "pool", "flavor", "priority")
_AMOUNTS = {
    "capacity": Column("Capacity", 3),
    "quota": Column("Quota", 5),
    "held": Column("Held"),
    "free": Column("Free", 2),
    "down": Column("Down", 1),
    "idle_asked": Column("Idle while requested"),
    "guaranteed": Column("Guaranteed", 4),
    "drawn": Column("Drawn", 0),
    "borrowed": Column("Borrowed"),
    "lent": Column("Lent"),
    "waited": Column("Waited", 6),
    "lost": Column("Lost"),
}
_OF_HELD = (Column("Portion lost"), "lost", "held")
_OF_CAPACITY = (Column("In use"), "held", "capacity")
_HOUR_S = 3600.0
_BEHIND_S = 10.0
_OTHERS = "others"
_ITSELF = "without subpools"
_RUN_BY_SPREADSHEETS = ("=", "+", "-", "@", "\t", "\r")


@group(
    "runrig usage",
    "runrig usage --by user,pool --since 30d --every week",
    "runrig usage --tree --since 30d",
    "runrig usage --by flavor --since 2026-10-01 --until 2026-11-01",
    "runrig usage --by user,pool,flavor,priority --since 30d -t csv",
    "runrig usage report --month 2026-10 --html october.html",
    invoke_without_command=True,
    lazy={"report": ("runrig.cli.commands.usage_report:report", "Write a report on the usage of a month.")},
)
@click.option(
    "--by", type=words("key", KEYS), default="pool", show_default=True, help="Group by user, pool, flavor, priority."
)
@click.option("--since", type=MOMENT, help="From the beginning of this hour. Default: 7 days before --until.")
@click.option("--until", type=MOMENT, help="Until the end of this hour. Default: now.")
@click.option(
    "--every",
    type=click.Choice(["hour", "day", "week", "month"], case_sensitive=False),
    help="A row for each hour, day, week or month, in UTC.",
)
@options.pools(help="Show only this pool and its subpools (repeatable).")
@options.users(help="Show only this user (repeatable).")
@click.option("--flavor", "flavors", multiple=True, metavar="NAME", help="Show only this flavor of nodes (repeatable).")
@click.option("--tree", is_flag=True, help="Also show each pool together with its subpools.")
@partial(with_session, formats=(TEXT, JSON, CSV))
def usage(session: Session, by: tuple[str, ...], every: str | None, tree: bool, **filters: Any) -> None:
    """Show who used how many GPUs, in GPU-hours.

    GPUs are held from start to release. Lost: held by attempts that were preempted, drained or lost with a node. A pool with more
    than its quota borrowed the rest.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    query = {"by": by, "every": every, "since": filters["since"], "until": filters["until"], "tree": tree or None}
    names = {"pool": filters["pools"], "user": filters["users"], "flavor": filters["flavors"]}
    answer = session.client.get(path("usage"), {**query, **names})
    if session.show(answer):
        return
    if session.as_csv:
        _write_csv(answer)
        return
    for line in _head(answer):
        say(line)
    if answer["rows"]:
        show(_table(answer))
    else:
        say("no matching usage" if any(names.values()) else "no GPUs were used")


# ---------------------------------------------------------------- the table


def _head(answer: Row) -> Iterator[str]:
    since, until = _time(answer["since"]), _time(answer["until"])
    shown = f"{until:%H:%M}" if since.date() == until.date() else f"{until:%Y-%m-%d %H:%M}"
    yield f"GPU-hours, {since:%Y-%m-%d %H:%M} to {shown} UTC"
    if answer["complete_since"] is None:
        yield "no usage is recorded yet. Try again in a few seconds"
        return
    known, folded = _time(answer["complete_since"]), _time(answer["folded_until"])
    if known > since:
        yield f"complete since {known:%Y-%m-%d %H:%M:%S}"
    if (min(until, datetime.now(UTC)) - folded).total_seconds() > _BEHIND_S:
        yield f"until {folded:%Y-%m-%d %H:%M:%S}: later usage is not counted yet"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _table(answer: Row) -> Table:
    rows = [_with_lost(row) for row in answer["rows"]]
    total = _with_lost(answer["total"])
    amounts = [(_AMOUNTS[name], [_hours(row[name]) for row in (*rows, total)]) for name in _shown(total, answer["by"])]
    title, part, whole = _OF_CAPACITY if total["capacity"] is not None else _OF_HELD
    amounts.append((title, [_percent(row[part], row[whole]) for row in (*rows, total)]))
    keys = [*(["From"] if answer["every"] else []), *(each.capitalize() for each in answer["by"])]
    columns, cells = [Column(key) for key in keys], list[list[str]]()
    for title, column in amounts:
        width = max(map(len, (title.name, *column)))
        columns.append(replace(title, name=title.name.rjust(width)))
        cells.append([cell.rjust(width) for cell in column])
    parents = {row["pool"] for row in rows if row["subtree"]}
    names = [_names(row, answer["by"], parents, every=answer["every"]) for row in rows]
    whole_rows = [(*name, *(column[at] for column in cells)) for at, name in enumerate(names)]
    return Table(tuple(columns), whole_rows, ("SUM", *("" for _ in keys[1:]), *(column[-1] for column in cells)))


def _shown(total: Row, by: Sequence[str]) -> list[str]:
    """The amounts that have a column: of flavors, what their nodes did; of people, what they used; else what pools did."""
    wanted: tuple[str, ...]
    if total["capacity"] is not None:
        wanted = ("capacity", "held", "free", "down", "idle_asked", "waited", "lost")
    elif total["quota"] is None or "user" in by or "priority" in by:
        wanted = ("held", "waited", "lost")
    else:
        wanted = ("quota", "held", "guaranteed", "drawn", "borrowed", "lent", "waited", "lost")
    return [name for name in _AMOUNTS if name in wanted and (name != "drawn" or total[name])]


def _with_lost(row: Row) -> dict[str, Any]:
    return {**row, "lost": row["lost_preempted"] + row["lost_other"]}


def _names(row: Row, by: Sequence[str], parents: Set[str], *, every: str | None) -> tuple[str, ...]:
    """*parents*: the pools that are also shown together with their subpools; their parts are indented."""
    begin = f"{_time(row['time']):{'%Y-%m-%d %H:%M' if every == 'hour' else '%Y-%m-%d'}}"
    pool = row["pool"]
    inside = pool is not None and top_level(pool) in parents and not row["subtree"]
    shown = {**row, "pool": f"  {_ITSELF if pool in parents else pool}"} if inside else row
    names = [shown[key] or "-" for key in by]
    if row["others"]:
        at = next((at for at, key in enumerate(by) if key != "flavor"), 0)
        names[at] = _OTHERS if by[at] != "flavor" else f"{names[at]} ({_OTHERS})"
    return ((begin,) if every else ()) + tuple(names)


def _hours(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / _HOUR_S:,.1f}"


def _percent(part: float | None, whole: float | None) -> str:
    return f"{100 * part / whole:.0f}%" if part is not None and whole else "-"


# ---------------------------------------------------------------- for spreadsheets


def _write_csv(answer: Row) -> None:
    """RFC 4180, in GPU-seconds, with the names of the JSON."""
    total = answer["total"]
    hidden = set() if any(row["subtree"] for row in answer["rows"]) else {"subtree"}
    asked = {name: name in answer["by"] if name in KEYS else total[name] is not None for name in total}
    names = [name for name, shown in asked.items() if shown and name not in hidden]
    writer = csv.writer(sys.stdout)
    writer.writerow(names)
    for row in answer["rows"]:
        writer.writerow([_cell(row[name]) for name in names])


def _cell(value: Any) -> Any:
    """A quote before text that spreadsheets would run as a formula."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'{sanitize.line(value)}" if value.startswith(_RUN_BY_SPREADSHEETS) else sanitize.line(value)
    return value
