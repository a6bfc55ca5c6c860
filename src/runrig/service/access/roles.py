"""Roles in a cluster file: grants missing ones; `--prune` revokes those of an earlier file."""

from collections.abc import Sequence
from dataclasses import dataclass

from runrig.domain.access import Grant, GrantRow, RoleKind
from runrig.domain.errors import Conflict
from runrig.service.access.access import Access


@dataclass(frozen=True, slots=True)
class RoleChanges:
    """Pairs of user and role."""

    granted: tuple[tuple[str, Grant], ...] = ()
    withdrawn: tuple[GrantRow, ...] = ()
    unchanged: tuple[tuple[str, Grant], ...] = ()


def changes(access: Access, declared: Sequence[tuple[str, Grant]], *, prune: str | None) -> RoleChanges:
    """Returns the changes that lead to the *declared* roles. *prune*: revoke undeclared grants by actors with this
    prefix.

    Raises Conflict if no admin would be left.
    """
    wanted = dict.fromkeys(declared)
    granted_rows = {(row.user, row.grant): row for row in access.users.grants()}
    gone = [
        row for key, row in granted_rows.items() if key not in wanted and prune and row.granted_by.startswith(prune)
    ]
    granted = tuple(key for key in wanted if key not in granted_rows)
    losing = {row.user for row in gone if row.grant.kind is RoleKind.ADMIN}
    if losing and not any(grant.kind is RoleKind.ADMIN for _, grant in granted) and not access.users.admins() - losing:
        raise Conflict(
            f"{', '.join(sorted(losing))} would lose the role admin, and no other administrator is left. Keep it in the file, or "
            "grant it to someone else first: `runrig role grant USER admin`"
        )
    return RoleChanges(granted, tuple(gone), tuple(key for key in wanted if key in granted_rows))
