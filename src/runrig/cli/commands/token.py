"""`runrig token`: manages access tokens."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import click

from runrig.cli import options
from runrig.cli.confirm import confirmed
from runrig.cli.lazy import command, group
from runrig.cli.options import Parsed
from runrig.cli.printed.access import row
from runrig.cli.rendering import sanitize, times
from runrig.cli.rendering.output import say, warn
from runrig.cli.rendering.tables import Column, Table
from runrig.cli.transport.session import Session, with_session
from runrig.client.paths import tokens
from runrig.domain.instants import seconds_of

_COLUMNS = (
    Column("Name"),
    Column("User", 4),
    Column("State", 5),
    Column("Created", 0),
    Column("Expires", 3),
    Column("Last used", 2),
    Column("Roles", 1, prose=True),
    Column("Description", 1, prose=True),
)


def _lifetime(text: str) -> float | None:
    """``90d``, ``12h``; never is None."""
    if text == "never":
        return None
    if (found := seconds_of(text)) is None:
        raise click.BadParameter(f"{sanitize.line(text)!r} is not a lifetime. Use for example 90d, 12h or never.")
    return float(found)


_roles = click.option(
    "--role",
    "-r",
    "roles",
    multiple=True,
    metavar="ROLE",
    help="Grant only this role of the user (repeatable). Default: all.",
)
_description = click.option("--description", metavar="TEXT", help="Purpose of the token.")
_user = options.user(help="Act on another user's token (administrators only).")


@group("runrig token list", "runrig token create laptop --expires 30d")
def token() -> None:
    """Manage access tokens."""


@command("runrig token list", "runrig token list --user alice --all", name="list", of=token)
@_user
@click.option("--all", "-a", "ended", is_flag=True, help="Include expired and revoked tokens.")
@with_session
def list_tokens(session: Session, user: str | None, ended: bool) -> None:
    """List your tokens with their roles, expiry and last use."""
    answer = {"tokens": [row(each) for each in session.client.items(tokens(user), {"ended": ended or None})]}
    rows = [
        (
            each["name"],
            each["user"],
            _state(each),
            *_times(each),
            _gives(each),
            each["description"],
        )
        for each in answer["tokens"]
    ]
    session.table(answer, Table(_COLUMNS, rows), "no tokens")


def _state(each: Mapping[str, Any]) -> str:
    return "valid" if each["state"] == "good" else str(each["state"])


def _gives(each: Mapping[str, Any]) -> str:
    return "all" if each["roles"] is None else ", ".join(each["roles"]) or "none"


def _times(each: Mapping[str, Any]) -> tuple[str, str, str]:
    expires = times.local(each["expires_at"]) if each["expires_at"] else "never"
    return times.local(each["created_at"]), expires, times.local(each["last_used_at"])


@command(
    "runrig token create laptop",
    "runrig token create ci --expires 30d --user builds > token",
    "runrig token create nightly --role vision-user --description 'the nightly run'",
    of=token,
)
@click.argument("name")
@click.option(
    "--expires",
    type=Parsed("TIME|never", _lifetime),
    default="90d",
    show_default=True,
    help="Lifetime, such as 90d, 12h or never.",
)
@_roles
@_description
@_user
@with_session
def create(
    session: Session,
    name: str,
    expires: float | None,
    roles: tuple[str, ...],
    description: str | None,
    user: str | None,
) -> None:
    """Create a token and print it, only this once.

    stdout contains only the token. It grants all roles of its user, or those of --role, but never more than the
    user has.
    """
    body = {"name": name, "expires_in_s": expires, "description": description or "", "roles": list(roles) or None}
    answer = row(session.client.call("POST", tokens(user), body=body, key=str(uuid4())))
    if session.show(answer):
        return
    ends = f"until {times.local(answer['expires_at'])}" if answer["expires_at"] else "until it is deleted"
    warn(sanitize.line(f"token {answer['name']} of {answer['user']} is valid {ends}; it is shown only once:"))
    say(answer["token"])


@command("runrig token update nightly --role vision-viewer", "runrig token update nightly --all-roles", of=token)
@click.argument("name")
@_roles
@click.option("--all-roles", is_flag=True, help="Grant all roles of the user.")
@_description
@_user
@with_session
def update(
    session: Session, name: str, roles: tuple[str, ...], all_roles: bool, description: str | None, user: str | None
) -> None:
    """Change a token's roles or description.

    Takes effect on the next request.
    """
    if roles and all_roles:
        raise click.UsageError("--role and --all-roles exclude each other. Use one of them.")
    body: dict[str, Any] = {"roles": list(roles) or None} if roles or all_roles else {}
    body |= {} if description is None else {"description": description}
    if not body:
        raise click.UsageError("nothing to change. Use --role, --all-roles or --description.")
    answer = row(session.client.call("PATCH", tokens(user, name), body=body))
    session.say(answer, sanitize.line(f"token {answer['name']} of {answer['user']} grants: {_gives(answer)}"))


@command("runrig token delete laptop", "runrig token delete ci --user builds --yes", of=token)
@click.argument("name")
@_user
@options.yes
@with_session
def delete(session: Session, name: str, user: str | None, yes: bool) -> None:
    """Revoke a token.

    It stops working immediately.
    """
    confirmed(f"Revoke the token {sanitize.line(name)}? It stops working immediately.", yes=yes)
    answer = row(session.client.call("DELETE", tokens(user, name)))
    session.say(answer, sanitize.line(f"token {answer['name']} of {answer['user']} is revoked"))
