"""`runrig pool history` and `runrig pool show --at`: changes of a pool, and its earlier settings."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from runrig.cli import completing, options
from runrig.cli.commands import pool_changes
from runrig.cli.lazy import command
from runrig.cli.options import MOMENT, Parsed
from runrig.cli.printed import pools
from runrig.cli.rendering import sanitize, times
from runrig.cli.rendering.output import say, tell
from runrig.cli.rendering.tables import Column, Table, facts, show, show_any
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.domain.quantities import format_quantity
from runrig.domain.settings import PARTS, called, in_words

Entry = Mapping[str, Any]

_DEFAULT_FLAVOR = "default"
_CHANGES = (
    Column("Time"),
    Column("By", 1),
    Column("Pool", 2),
    Column("What", 0, prose=True),
    Column("Changes", prose=True),
)
_THEN = (
    Column("Pool"),
    Column("State", 3),
    Column("GPU Quota", 2),
    Column("Flavor/Resource"),
    Column("Quota"),
    Column("Borrowing Limit", 1),
    Column("Lending Limit", 0),
)


def _whole_second(typed: str) -> str:
    """A time without a fraction means the end of its second, so that printed times can be used as input."""
    text = options.moment(typed)
    return text if "." in text else f"{text}.999999"


_WHOLE_SECOND = Parsed("TIME", _whole_second)


@command(
    "runrig pool history team",
    "runrig pool history team --by ann --since 2026-01-31",
    "runrig pool history team --pool a -t json",
)
@click.argument("name", shell_complete=completing.pools)
@click.option("--since", type=MOMENT, help="Show only changes at or after this time.")
@click.option("--until", type=_WHOLE_SECOND, help="Show only changes at or before this time.")
@click.option(
    "--by",
    shell_complete=completing.users,
    metavar="PERSON",
    help="Show only changes by this user; runrig selects automatic changes.",
)
@options.pool(metavar="SUB", help="Show only this subpool; NAME again: the pool without its subpools.")
@options.limit
@with_session
def history(session: Session, name: str, limit: int, **filters: Any) -> None:
    """Show who changed a pool and its subpools, newest first.

    History is kept forever, including for ARCHIVED pools.
    """
    found = list(session.client.items(path("pools", name, "history"), filters, most=limit + 1))
    answer = pools.history(name, found[:limit], more=len(found) > limit)
    if session.show(answer):
        return
    show_any(_table(answer["entries"]), sanitize.line(_nothing(name, **filters)))
    if answer["next"] is not None:
        say(f"Older entries exist: use --limit {limit * 2}, or --until with the time of the last line.")


def _nothing(name: str, *, since: str | None, until: str | None, by: str | None, pool: str | None) -> str:
    where = f"pool {name}" if pool is None else f"{pool} of pool {name}"
    who = "" if by is None else f" by {by!r}"
    return f"nothing was changed in {where}{who}{' in that time' if since or until else ''}"


def _table(entries: list[Entry]) -> Table:
    rows = [
        (
            times.local(entry["time"]),
            _who(entry),
            entry["pool"],
            ", ".join(entry["what"]),
            ", ".join(changes(entry)) or "-",
        )
        for entry in entries
    ]
    return Table(_CHANGES, rows)


def _who(entry: Entry) -> str:
    return f"{entry['by']} (apply)" if entry["via"] == "apply" else str(entry["by"])


def changes(entry: Entry) -> Iterator[str]:
    """``quota gpu 30 → 40``; of a new pool ``quota gpu 30``."""
    new = "created" in entry["what"]
    for each in entry["changes"]:
        flavor, _, resource = (each["resource"] or "").partition("/")
        place = resource if flavor == _DEFAULT_FLAVOR else each["resource"]
        name = " ".join(filter(None, (called(PARTS.get(each["field"], each["field"])), place)))
        before, after = (_shown(each["field"], resource, each[side]) for side in ("before", "after"))
        if not new:
            yield f"{name} {before} → {after}"
        elif each["after"] is not None:
            yield f"{name} {after}"


def _shown(field: str, resource: str, value: Any) -> str:
    return format_quantity(resource, value) if resource and isinstance(value, int) else in_words(field, value)


# ---------------------------------------------------------------- the cluster at an earlier time

at_option = click.option(
    "--at",
    type=_WHOLE_SECOND,
    help="Show settings, quotas and state at this time, from the audit trail, without usage.",
)


def show_at(session: Session, name: str, at: str) -> None:
    """Prints the pool NAME and its subpools at an earlier time."""
    answer = pools.past(session.client.get(path("pools", name, "past"), {"at": at}))
    if session.show(answer):
        return
    pool = answer["pool"]
    facts(
        (
            ("As of", times.local(answer["at"])),
            ("Pool", pool["name"]),
            ("State", pool["state"]),
            ("Parent", pool["parent"]),
            *pool_changes.settings(pool),
            ("Last change", f"{times.local(pool['changed']['time'])} by {_who(pool['changed'])}"),
        )
    )
    say("")
    show(_quotas([pool, *answer["subpools"]]))
    tell(f"\nThese are {answer['note']}.")


def _quotas(shown: list[Mapping[str, Any]]) -> Table:
    """A row per pool and resource. Shows the unallocated part of a parent in GPUs."""
    rows = []
    for pool in shown:
        whole = pool["quota"] == pool["unallocated"]
        gpus = str(pool["quota"]) if whole else f"{pool['unallocated']} (Total: {pool['quota']})"
        for place, quota in _places(pool):
            resource = place.partition("/")[2]
            limits = [_shown(each, resource, quota.get(each)) for each in PARTS]
            rows.append((pool["name"], pool["state"], gpus, place, *limits))
    return Table(_THEN, rows)


def _places(pool: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    found = [
        (f"{flavor}/{resource}", quota)
        for flavor, by_resource in pool["quotas"].items()
        for resource, quota in by_resource.items()
    ]
    return found or [("-", {})]
