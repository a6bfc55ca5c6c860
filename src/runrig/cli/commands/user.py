"""`runrig user`: manages users; for administrators."""

from collections.abc import Mapping
from typing import Any

import click

from runrig.cli import completing, options
from runrig.cli.confirm import confirmed
from runrig.cli.lazy import command, group
from runrig.cli.printed import access
from runrig.cli.rendering import sanitize, times
from runrig.cli.rendering.tables import Column, Table, facts
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path

_COLUMNS = (Column("User"), Column("State", 1), Column("Roles", prose=True), Column("Created", 0))
_HISTORY = (Column("Time"), Column("By", 0), Column("User", 3), Column("What"), Column("Which", 2))


@group("runrig user list", "runrig user create alice --role vision-user")
def user() -> None:
    """Manage users (administrators only)."""


@command("runrig user list", "runrig user list -t json", name="list", of=user)
@with_session
def list_users(session: Session) -> None:
    """List users and their roles."""
    answer = {"users": [access.row(each) for each in session.client.items(path("users"))]}
    rows = [(each["name"], _state(each), _roles(each), times.local(each["created_at"])) for each in answer["users"]]
    session.table(answer, Table(_COLUMNS, rows), "no users")


@command("runrig user show alice", name="show", of=user)
@click.argument("name", shell_complete=completing.users)
@with_session
def show_user(session: Session, name: str) -> None:
    """Show a user and their roles."""
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


@command("runrig user create alice --role vision-user", "runrig user create root --role admin", of=user)
@click.argument("name")
@click.option(
    "--role", "-r", "roles", multiple=True, metavar="ROLE", help="Role to grant, such as vision-user (repeatable)."
)
@with_session
def create(session: Session, name: str, roles: tuple[str, ...]) -> None:
    """Create a user.

    To let them log in, create a token: `runrig token create TOKEN --user NAME`.
    """
    made = session.client.call("POST", path("users"), body={"name": name, "roles": list(roles)})
    _tell(session, made, "created")


@command("runrig user disable alice", of=user)
@click.argument("name", shell_complete=completing.users)
@options.yes
@with_session
def disable(session: Session, name: str, yes: bool) -> None:
    """Disable a user.

    Their tokens stop working; their workflows keep running. The name cannot be reused.
    """
    confirmed(f"Disable {sanitize.line(name)}? Their tokens stop working; their workflows keep running.", yes=yes)
    _tell(session, session.client.call("PATCH", path("users", name), body={"disabled": True}), "disabled")


@command("runrig user enable alice", of=user)
@click.argument("name", shell_complete=completing.users)
@with_session
def enable(session: Session, name: str) -> None:
    """Enable a disabled user.

    Tokens that are still valid work again.
    """
    _tell(session, session.client.call("PATCH", path("users", name), body={"disabled": False}), "enabled")


@command("runrig user history", "runrig user history alice -t json", of=user)
@click.argument("name", required=False, shell_complete=completing.users)
@options.limit
@with_session
def history(session: Session, name: str | None, limit: int) -> None:
    """Show changes to users, roles and tokens, newest first.

    With NAME, only those of this user. History is kept forever.
    """
    found = list(session.client.items(path("access-events"), {"user": name}, most=limit + 1))
    answer = access.events(found[:limit], more=len(found) > limit)
    rows = [
        (times.local(each["time"]), each["actor"], each["user"], each["what"], each["subject"] or "-")
        for each in answer["events"]
    ]
    session.table(answer, Table(_HISTORY, rows), "nothing was changed")


def _tell(session: Session, found: Mapping[str, Any], what: str) -> None:
    answer = access.row(found)
    session.say(answer, sanitize.line(f"{what} user {answer['name']} (roles: {_roles(answer)})"))


def _state(each: Mapping[str, Any]) -> str:
    return "disabled" if each["disabled"] else "enabled"


def _roles(each: Mapping[str, Any]) -> str:
    return ", ".join(each["roles"]) or "no roles"
