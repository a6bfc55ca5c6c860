"""`runrig user`: the people and programs that the server knows; for admins."""

from collections.abc import Mapping
from typing import Any

import click

from runrig.cli import completing
from runrig.cli.confirm import confirmed
from runrig.cli.lazy import examples
from runrig.cli.printed import access
from runrig.cli.rendering import sanitize, times
from runrig.cli.rendering.output import say
from runrig.cli.rendering.tables import Column, Table, facts, show
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path

_COLUMNS = (Column("User"), Column("State", 1), Column("Roles", prose=True), Column("Created", 0))
_HISTORY = (Column("Time"), Column("By", 0), Column("User", 3), Column("What"), Column("Which", 2))


@click.group(epilog=examples("runrig user list", "runrig user create alice --role vision-user"))
def user() -> None:
    """Users: who may have tokens and roles; for admins."""


@user.command("list", epilog=examples("runrig user list", "runrig user list -t json"))
@with_session
def list_users(session: Session) -> None:
    """All users with their roles."""
    answer = {"users": [access.row(each) for each in session.client.items(path("users"))]}
    if session.show(answer):
        return
    if not answer["users"]:
        say("no users")
        return
    rows = [(each["name"], _state(each), _roles(each), times.local(each["created_at"])) for each in answer["users"]]
    show(Table(_COLUMNS, rows))


@user.command("show", epilog=examples("runrig user show alice"))
@click.argument("name", shell_complete=completing.users)
@with_session
def show_user(session: Session, name: str) -> None:
    """The user NAME with the roles."""
    answer = access.row(session.client.get(path("users", name)))
    if not session.show(answer):
        facts(
            (
                ("User", answer["name"]),
                ("State", _state(answer)),
                ("Roles", _roles(answer)),
                ("Created", times.local(answer["created_at"])),
            )
        )


@user.command(
    "create", epilog=examples("runrig user create alice --role vision-user", "runrig user create root --role admin")
)
@click.argument("name")
@click.option("--role", "-r", "roles", multiple=True, metavar="ROLE", help="Such as vision-user; repeat it for more.")
@with_session
def create(session: Session, name: str, roles: tuple[str, ...]) -> None:
    """Make the user NAME.  'runrig token create NAME --user' then makes what lets this user in."""
    made = session.client.call("POST", path("users"), body={"name": name, "roles": list(roles)})
    _tell(session, made, "created")


@user.command("disable", epilog=examples("runrig user disable alice"))
@click.argument("name", shell_complete=completing.users)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@with_session
def disable(session: Session, name: str, yes: bool) -> None:
    """Keep the user NAME out: no token works, while the work goes on.  The name stays taken, because the logs name it."""
    confirmed(f"Disable {sanitize.line(name)}? None of the tokens works then; the work goes on.", yes=yes)
    _tell(session, session.client.call("PATCH", path("users", name), body={"disabled": True}), "disabled")


@user.command("enable", epilog=examples("runrig user enable alice"))
@click.argument("name", shell_complete=completing.users)
@with_session
def enable(session: Session, name: str) -> None:
    """Let the user NAME in again, with the tokens that are still good."""
    _tell(session, session.client.call("PATCH", path("users", name), body={"disabled": False}), "enabled")


@user.command("history", epilog=examples("runrig user history", "runrig user history alice -t json"))
@click.argument("name", required=False, shell_complete=completing.users)
@click.option("--limit", "-n", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
@with_session
def history(session: Session, name: str | None, limit: int) -> None:
    """Who changed users, roles and tokens, newest first; of the user NAME only, if one is named.  Nothing is ever deleted."""
    found = list(session.client.items(path("access-events"), {"user": name}, most=limit + 1))
    answer = access.events(found[:limit], more=len(found) > limit)
    if session.show(answer):
        return
    if not found:
        say("nothing was changed")
        return
    rows = [
        (times.local(each["time"]), each["actor"], each["user"], each["what"], each["subject"] or "-")
        for each in answer["events"]
    ]
    show(Table(_HISTORY, rows))


def _tell(session: Session, found: Mapping[str, Any], what: str) -> None:
    answer = access.row(found)
    if not session.show(answer):
        say(sanitize.line(f"{what} user {answer['name']} (roles: {_roles(answer)})"))


def _state(each: Mapping[str, Any]) -> str:
    return "disabled" if each["disabled"] else "enabled"


def _roles(each: Mapping[str, Any]) -> str:
    return ", ".join(each["roles"]) or "no roles"
