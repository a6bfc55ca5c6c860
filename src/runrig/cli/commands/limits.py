"""`runrig limits`: what each user may use in a pool and over all pools (rules W6, W7)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from runrig.cli import options
from runrig.cli.lazy import command, group
from runrig.cli.options import Parsed
from runrig.cli.rendering import sanitize
from runrig.cli.rendering.output import say
from runrig.cli.rendering.tables import Column, Table
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path
from runrig.domain.quantities import whole_number
from runrig.domain.settings import MOST_BUDGET, MOST_LIMIT

Answer = Mapping[str, Any]

NONE = "none"
BUDGET = "budget"
_WORDS = {
    "gpus": "GPUs at the same time",
    "waiting": "workflows waiting",
    "gpus_per_workflow": "GPUs in one workflow",
    BUDGET: "GPU-hours this month",
}
_COLUMNS = (
    Column("User"),
    Column("Pool"),
    Column("Limit", prose=True),
    Column("Used"),
    Column("At most"),
    Column("Left", 1),  # Left out first if space is short: it follows from Used and At most.
    Column("Renews", 1),
)


def _at_most(most: int = MOST_LIMIT) -> Parsed:
    def parse(typed: str) -> int | str:
        text = typed.strip().lower()
        number = whole_number(text)
        if text != NONE and (number is None or not 1 <= number <= most):
            raise click.BadParameter(f"{typed!r:.80} is not a limit. Use a whole number from 1 to {most}, or none.")
        return text if number is None else number

    return Parsed("N|none", parse)


@group("runrig limits show", "runrig limits set --user cy --gpus 8", "runrig limits list --pool vision")
def limits() -> None:
    """Limit what users may use.

    A limit of a pool applies to each of its users; a limit of a user applies to all pools together.
    """


@command("runrig limits show", "runrig limits show --user cy", name="show", of=limits)
@options.user(help="Limits of this user; default: you.")
@with_session
def show_limits(session: Session, user: str | None) -> None:
    """Show your limits, and what counts towards them."""
    who = user or session.client.get(path("me"))["user"]
    _print(session, {"user": who}, f"{who} has no limits.")


@command("runrig limits list", "runrig limits list --pool vision", "runrig limits list -t json", name="list", of=limits)
@options.pools(help="Show only limits in this pool (repeatable).")
@options.users(help="Show only limits of this user (repeatable).")
@with_session
def list_limits(session: Session, pools: tuple[str, ...], users: tuple[str, ...]) -> None:
    """List limits, the nearest to being reached first.

    Administrators see the limits of all users.
    """
    _print(session, {"pool": pools, "user": users}, "No limits. Set one with `runrig limits set`.")


@command(
    "runrig limits set --user cy --gpus 8",
    "runrig limits set --user cy --gpus none",
    "runrig limits set --user cy --budget 500",
    "runrig limits set --pool vision --gpus 24 --waiting 20 --gpus-per-workflow 64 --dry-run",
    name="set",
    of=limits,
)
@options.user(help="Limit this user over all pools.")
@options.pool(help="Limit each user of this pool.")
@click.option("--gpus", type=_at_most(), help="Maximum number of GPUs that a user uses at the same time.")
@click.option("--waiting", type=_at_most(), help="Maximum number of waiting workflows of a user.")
@click.option("--gpus-per-workflow", type=_at_most(), help="Maximum number of GPUs in one workflow.")
@click.option(
    "--budget", type=_at_most(MOST_BUDGET), help="Maximum number of GPU-hours of the user, or of the pool, in a month."
)
@click.option("--dry-run", is_flag=True, help="Show which users exceed the new limit, without changing anything.")
@with_session
def set_limits(session: Session, user: str | None, pool: str | None, dry_run: bool, **values: int | str | None) -> None:
    """Limit a user, or each user of a pool.

    Omitted options keep their values. Running and waiting workflows are not affected.
    """
    if (user is None) == (pool is None):
        raise click.UsageError("specify --user or --pool" if user is None else "specify --user or --pool, not both")
    body = {name: None if value == NONE else value for name, value in values.items() if value is not None}
    if not body:
        raise click.UsageError("nothing to change. Specify a limit, such as --gpus 8")
    route = path("limits", "users", user) if user is not None else path("limits", "pools", pool or "")
    found = session.client.call("PATCH", route, body=body, query={"dry_run": dry_run or None})
    if session.show(found):
        return
    if dry_run:
        say("Dry run: nothing was changed.")
    for line in _changed(found):
        say(sanitize.line(line))


def _changed(found: Answer) -> Iterator[str]:
    whose = f"user {found['user']}, over all pools" if found["user"] else f"each user of pool {found['pool']}"
    changed = [name for name in _WORDS if found["before"][name] != found["after"][name]]
    if not changed:
        yield f"{whose}: no change."
    for name in changed:
        before, after = found["before"][name], found["after"][name]
        now = "no limit before" if before is None else f"{before} before"
        whose = whose.removeprefix("each user of ") if name == BUDGET else whose
        yield f"{whose}: {f'no limit of {_WORDS[name]}' if after is None else f'at most {_amount(name, after)}'} ({now})"
    if found["budget"]:
        yield f"{found['budget']['sentence']}"
    for each in found["above"]:
        if found["budget"] and each["limit"] == BUDGET:
            continue
        who = each["user"] or f"pool {each['pool']}"
        yield f"{who} has {_amount(each['limit'], each['used'])}, above the limit of {each['most']}; nothing is stopped"


def _amount(limit: str, amount: int) -> str:
    """``1 GPU at the same time``."""
    what, _, rest = _WORDS[limit].partition(" ")
    return f"{amount} {what.removesuffix('s') if amount == 1 else what} {rest}"


def _print(session: Session, query: Mapping[str, str | Sequence[str]], nothing: str) -> None:
    found = sorted(session.client.items(path("limits"), query), key=_nearest)
    columns = _COLUMNS if any(each["renews"] for each in found) else _COLUMNS[:-1]
    session.table({"limits": found}, Table(columns, [_row(each)[: len(columns)] for each in found]), nothing)


def _nearest(limit: Answer) -> tuple[float, str, str, str]:
    used = -1.0 if limit["used"] is None else limit["used"] / limit["most"]
    return -used, limit["user"] or "", limit["pool"] or "", limit["limit"]


def _row(limit: Answer) -> tuple[str, ...]:
    used, most = limit["used"], limit["most"]
    left = "-" if used is None else str(max(0, most - used) if limit["limit"] == BUDGET else most - used)
    everybody = "all users" if limit["limit"] == BUDGET else "each user"
    who, pool = limit["user"] or everybody, limit["pool"] or "all pools"
    renews = limit["renews"][:10] if limit["renews"] else "-"
    return who, pool, _WORDS[limit["limit"]], "-" if used is None else str(used), str(most), left, renews
