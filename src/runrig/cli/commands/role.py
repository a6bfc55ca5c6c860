"""`runrig role`: manages roles; for administrators."""

import click

from runrig.cli import completing, options
from runrig.cli.lazy import command, group
from runrig.cli.printed.access import row
from runrig.cli.rendering import sanitize, times
from runrig.cli.rendering.tables import Column, Table
from runrig.cli.transport.session import Session, with_session
from runrig.client.transport import path

_COLUMNS = (Column("User"), Column("Role"), Column("Granted", 1), Column("By", 0))


@group("runrig role list", "runrig role grant alice vision-user")
def role() -> None:
    """Manage roles (administrators only).

    POOL-user: submit to a pool and its subpools, and see their workflows. POOL-admin: also change them.
    POOL-viewer: only see them. viewer: see everything. user: submit to all pools. admin: everything.
    """


@command("runrig role list", "runrig role list --pool vision", name="list", of=role)
@options.user(help="Show only this user.")
@options.pool(help="Show only this pool.")
@with_session
def list_roles(session: Session, user: str | None, pool: str | None) -> None:
    """List roles, who granted them and when."""
    found = session.client.items(path("roles"), {"user": user})
    roles = [row(each) for each in found if pool in (None, each["pool"])]
    if not roles and pool is not None:
        session.client.get(path("pools", pool))  # An unknown pool is an error, not a pool without roles.
    rows = [(each["user"], each["role"], times.local(each["granted_at"]), each["granted_by"]) for each in roles]
    session.table({"roles": roles}, Table(_COLUMNS, rows), "no roles")


@command("runrig role grant alice vision-user", "runrig role grant root admin", of=role)
@click.argument("user", shell_complete=completing.users)
@click.argument("role")
@with_session
def grant(session: Session, user: str, role: str) -> None:
    """Grant a role: admin, user, viewer, or POOL-ROLE.

    POOL-admin, POOL-user and POOL-viewer apply to a top-level pool and its subpools.
    """
    session.client.call("POST", path("roles"), body={"user": user, "role": role})
    _tell(session, user)


@command("runrig role revoke alice vision-user", of=role)
@click.argument("user", shell_complete=completing.users)
@click.argument("role")
@with_session
def revoke(session: Session, user: str, role: str) -> None:
    """Revoke a role.

    Takes effect on the next request.
    """
    session.client.call("DELETE", path("roles", user, role))
    _tell(session, user)


def _tell(session: Session, user: str) -> None:
    """Prints the roles of *user*."""
    answer = row(session.client.get(path("users", user)))
    session.say(answer, sanitize.line(f"roles of {answer['name']}: {', '.join(answer['roles']) or 'none'}"))
