"""`runrig pool`: list, show, history, default, create, update, close, open, delete. `runrig pool subpool` is in subpool."""

import shlex
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click

from runrig.cli import completing, options
from runrig.cli.commands import history, pool_changes, pool_warnings
from runrig.cli.commands.subpool import subpool
from runrig.cli.confirm import confirmed
from runrig.cli.lazy import command, group, together
from runrig.cli.printed import pools as printed
from runrig.cli.quota_options import edited, quota_options, request, setting_option
from runrig.cli.rendering import balances, pool_table, sanitize
from runrig.cli.rendering.output import say, tell, to_apply, warn
from runrig.cli.rendering.plan_text import print_plan
from runrig.cli.rendering.tables import Table, facts, show
from runrig.cli.rendering.times import local
from runrig.cli.transport.session import Session, with_session
from runrig.client.caller import PLAN_S
from runrig.client.transport import Transport, path
from runrig.domain.errors import RunrigError
from runrig.domain.quantities import GPU, amount_in_words, counted
from runrig.domain.settings import SETTINGS
from runrig.osmo import pools as shaped
from runrig.osmo.shape import naive, page


@group("runrig pool list --wide", "runrig pool create vision --quota 8")
def pool() -> None:
    """Manage pools, the shares of GPUs that users submit to."""


pool.add_command(subpool)


_settings = together(
    quota_options,
    *(setting_option(each, completing.cohorts if each.name == "cohort" else None) for each in SETTINGS),
)


@command("runrig pool list", "runrig pool list --pool team --wide", "runrig pool list -t json", name="list", of=pool)
@options.pools(help="Show only this pool (repeatable).")
@click.option("--mode", "-m", type=click.Choice(["used", "free"]), default="used", help="Show used or free amounts.")
@click.option(
    "--wide", is_flag=True, help="Also show LOW, Total, Borrowed, Lent and Capacity, and parents with their subpools."
)
@click.option("--all", "archived", is_flag=True, help="Include ARCHIVED pools.")
@with_session
def list_pools(session: Session, pools: tuple[str, ...], mode: str, wide: bool, archived: bool) -> None:
    """List pools with quota and usage in GPUs.

    Used counts HIGH and NORMAL workflows of the pool itself, without LOW workflows and subpools.
    """
    client = session.client
    found = list(client.items(path("pools"), {"name": pools, "archived": archived or None}))
    answer = shaped.pool_quota(found, shaped.platforms_of(session.flavors() if found else ()))
    table = pool_table.table(answer, free=mode == "free", wide=wide, archived=archived)
    session.table(answer, table, "No pools yet. Create one with `runrig pool create NAME --quota GPUS`.")


@command("runrig pool show vision", "runrig pool show vision --at '2026-01-31 13:00:00'", name="show", of=pool)
@click.argument("name", shell_complete=completing.pools)
@history.at_option
@with_session
def show_pool(session: Session, name: str, at: str | None) -> None:
    """Show settings and usage of a pool.

    With --at, only its settings, quotas and state at that time.
    """
    if at is not None:
        history.show_at(session, name, at)
    else:
        _print(session, session.client.get(path("pools", name)))


pool.add_command(history.history)


@command("runrig pool default", "runrig pool default vision", "runrig pool default --none", of=pool)
@click.argument("name", required=False, metavar="[POOL]", shell_complete=completing.pools)
@click.option("--none", "removed", is_flag=True, help="Remove your default pool.")
@with_session
def default(session: Session, name: str | None, removed: bool) -> None:
    """Show or set your default pool.

    Commands use it if you omit --pool. The server stores it, and the osmo client uses the same one.
    """
    if name is not None and removed:
        raise click.UsageError("name a POOL or use --none, not both")
    client, route = session.client, path("me")
    changes = name is not None or removed
    me = client.call("PATCH", route, body={"default_pool": name}) if changes else client.get(route)
    if not session.show(me):
        tell(_default_sentence(client, me["default_pool"], me["pools"]))


def _default_sentence(client: Transport, default: str | None, pools: list[str]) -> str:
    if default is not None:
        gpus = client.get(path("pools", default))["gpus"]
        left = f"{max(0, gpus['available'] + gpus['shared_left']):,} left"
        return f"Your default pool is {default}: quota {amount_in_words(GPU, gpus['quota'])}, {left}."
    if pools:
        return f"You have no default pool. Set one with `runrig pool default POOL`: {', '.join(pools)}."
    return "You have no default pool, and no pool that you can submit to. Ask an administrator for a role."


@command(
    "runrig pool create vision --quota 8",
    "runrig pool create batch --quota 4 --cohort research --borrowing-limit 8 --lending-limit 2",
    "runrig pool create mixed --quota h100=8,b200=4",
    of=pool,
)
@click.argument("name")
@_settings
@with_session
def create(session: Session, name: str, **settings: Any) -> None:
    """Create a pool, or restore an ARCHIVED one."""
    client, body = session.client, request(**settings)
    _print(session, client.call("POST", path("pools"), body={"name": name} | body), pool_changes.created)
    if not session.as_json:
        pool_warnings.warn_of(client, name, body)


@command(
    "runrig pool update vision --quota 12",
    "runrig pool update vision --borrowing-limit none",
    "runrig pool update vision --default-run-time 4h --max-run-time 2d",
    "runrig pool update vision --user-gpus 24 --user-waiting 20 --gpus-per-workflow 64",
    "runrig pool update vision --budget 1000 --dry-run",
    of=pool,
)
@click.argument("name", shell_complete=completing.pools)
@_settings
@click.option("--no-cohort", is_flag=True, help="Remove the pool from its cohort.")
@options.dry_run
@with_session
def update(session: Session, name: str, no_cohort: bool, dry_run: bool, **settings: Any) -> None:
    """Update a pool.

    Omitted options keep their values. Running workflows are not stopped.
    """
    body = edited("pool", "cohort", settings, removed=no_cohort)
    client, route = session.client, path("pools", name)
    if dry_run:
        plan = _plan(session, name, edit=body)
        if not session.show(plan):
            print_plan(plan)
            say(f"Nothing was changed (revision {plan['revision']}).")
        return
    before = {} if session.as_json else client.get(route)
    asked = body.get("topology_keys")
    if asked and before.get("topology_keys") not in (asked, [], None):
        keys = ", ".join(f"{each['key']}={each['label']}" for each in before["topology_keys"])
        warn(sanitize.line(f"Warning: these topology keys replace {keys}. Name all keys that the pool needs."))
    _print(session, client.call("PATCH", route, body=body), partial(pool_changes.updated, before))
    if not session.as_json:
        changed = {name: value for name, value in body.items() if value != before.get(name)}
        pool_warnings.warn_of(client, name, changed)


@command("runrig pool close vision --reason 'moves to the new racks on Friday'", of=pool)
@click.argument("name", shell_complete=completing.pools)
@click.option("--reason", default="", help="Reason to show to users whose submissions are refused.")
@with_session
def close(session: Session, name: str, reason: str) -> None:
    """Close a pool and its subpools to submissions.

    Queued workflows still start. Reopen it with `runrig pool open`.
    """
    found = session.client.call("POST", path("pools", name, "close"), body={"reason": reason})
    session.say(
        printed.shown(found, session.flavors()),
        f"pool {name} is closed to submissions; queued workflows still start. Reopen it with `runrig pool open {name}`.",
    )


@command("runrig pool open vision", name="open", of=pool)
@click.argument("name", shell_complete=completing.pools)
@with_session
def open_(session: Session, name: str) -> None:
    """Reopen a closed pool for submissions."""
    found = session.client.call("POST", path("pools", name, "open"))
    session.say(printed.shown(found, session.flavors()), f"pool {name} is open")


@command(
    "runrig pool pause vision --reason 'the file system is being checked'",
    "runrig pool pause vision --until 2h",
    of=pool,
)
@click.argument("name", shell_complete=completing.pools)
@click.option("--reason", default="", help="Reason to show to users whose workflows wait.")
@click.option(
    "--until",
    metavar="TIME",
    help="When the pause ends by itself: a duration such as 2h, or a time such as 2026-01-31T14:00.",
)
@options.dry_run
@with_session
def pause(session: Session, name: str, reason: str, until: str | None, dry_run: bool) -> None:
    """Start nothing new in a pool and its subpools.

    Running workflows continue, submissions are queued later, and other pools can borrow its idle quota.
    Resume it with `runrig pool resume`. If it is already paused, only the end of the pause changes.
    """
    body = {"reason": reason, "until": None if until is None else _in_utc(until)}
    if dry_run:
        words = [*(("--reason", reason) if reason else ()), *(("--until", until) if until else ())]
        _preview(session, name, "pause", *words, until=body["until"])
        return
    done = session.client.call("POST", path("pools", name, "pause"), body=body)
    found = done["pool"]
    answer = printed.shown(found, session.flavors())
    if session.show(answer | {"waiting": done["waiting"], "running": done["running"]}):
        return
    end = f" until {local(found['paused_until'])}" if found["paused_until"] else ""
    works = f"{_workflows(done['waiting'], 'wait')}, {_workflows(done['running'], 'continue')}"
    say(
        f"pool {name} is paused{end}: nothing new starts. {works}, and other pools can borrow its idle quota. "
        f"Resume it with `runrig pool resume {name}`."
    )


@command("runrig pool resume vision", "runrig pool resume vision --dry-run", of=pool)
@click.argument("name", shell_complete=completing.pools)
@options.dry_run
@with_session
def resume(session: Session, name: str, dry_run: bool) -> None:
    """Resume a paused pool; its workflows keep their queue positions.

    Shows what starts next.
    """
    if dry_run:
        _preview(session, name, "resume")
        return
    plan = None
    with suppress(RunrigError):  # A pool can be resumed without a plan; the resume reports other errors.
        plan = None if session.as_json else _plan(session, name, act="resume") | {"changes": []}
    found = session.client.call("POST", path("pools", name, "resume"))
    if session.show(printed.shown(found, session.flavors())):
        return
    say(f"pool {name} starts workflows again")
    if plan is not None:
        say("")
        print_plan(plan)


def _plan(session: Session, name: str, **edit: Any) -> dict[str, Any]:
    asked = {each: value for each, value in edit.items() if value is not None}
    answer: dict[str, Any] = session.client.call("POST", path("plan"), body={"pool": name, **asked}, timeout_s=PLAN_S)
    return answer


def _preview(session: Session, name: str, act: str, *words: str, until: str | None = None) -> None:
    plan = _plan(session, name, act=act, until=until) | {"changes": []}  # The pool's settings stay as they are.
    if not session.show(plan):
        print_plan(plan)
        to_apply(shlex.join(("runrig", "pool", act, name, *words)))


def _workflows(number: int, verb: str) -> str:
    """``1 workflow waits``, ``2 workflows wait``."""
    return counted(number, f"workflow {verb}s", f"workflows {verb}")


def _in_utc(until: str) -> str:
    """Returns a time in the zone of this machine as the server reads it. Durations, and what is neither, are left to the server."""
    if "-" not in until[1:]:
        return until
    with suppress(ValueError, OverflowError, OSError):
        return f"{options.utc_text(until, datetime.now(UTC))}Z"
    return until


@command("runrig pool delete vision", "runrig pool delete vision --yes", of=pool)
@click.argument("name", shell_complete=completing.pools)
@options.yes
@with_session
def delete(session: Session, name: str, yes: bool) -> None:
    """Delete a pool.

    Pending workflows are cancelled; running workflows finish.
    """
    confirmed(f"Delete pool {name}? Pending workflows are cancelled; running workflows finish.", yes=yes)
    deleted = session.client.call("DELETE", path("pools", name))
    answer = printed.deleted(deleted, session.flavors())
    session.say(answer, pool_changes.deleted(answer))


def _print(session: Session, found: dict[str, Any], headline: Callable[[dict[str, Any]], str] | None = None) -> None:
    """*headline*: the line before the pool, about the change."""
    answer = printed.shown(found, session.flavors())
    if session.show(answer):
        return
    if headline is not None:
        say(sanitize.line(headline(answer)) + "\n")
    facts(
        (
            ("Pool", answer["name"]),
            ("State", _state(answer)),
            ("Closed", _marked(found, "closed")),
            ("Paused", _marked(found, "paused")),
            ("Parent", answer["parent"]),
            ("Shared quota", pool_table.shared(answer)),
            *pool_changes.settings(answer),
            ("Overview", page("pool", answer["name"], session.client.url)),
        )
    )
    if answer.get("balances"):
        say("")
        show(Table(balances.COLUMNS, balances.rows(answer["balances"])))


def _marked(found: dict[str, Any], how: str) -> str | None:
    """``by ann at 2026-01-31T12:00:00 (moves)``; None for a pool that is not. *how*: closed or paused."""
    if not found.get(f"{how}_by"):
        return None
    reason = f" ({found[f'{how}_reason']})" if found[f"{how}_reason"] else ""
    until = f" until {naive(found['paused_until'])}" if how == "paused" and found["paused_until"] else ""
    return f"by {found[f'{how}_by']} at {naive(found[f'{how}_since'])}{until}{reason}"


def _state(answer: dict[str, Any]) -> str:
    """``ACTIVE (over-committed by 2 GPUs)`` for a pool that uses more than its limits allow (rule Q4)."""
    beyond = balances.over(answer.get("balances") or {})
    return f"{answer['state']} (over-committed by {beyond})" if beyond else str(answer["state"])
