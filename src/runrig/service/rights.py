"""Users who make requests: their permissions, and errors that name a sufficient role.

If a user may not see something, the error is the same as if it did not exist.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from runrig.domain.access import OF_OWNERS, Identity, Permission, allows
from runrig.domain.errors import Conflict, NotAllowed
from runrig.domain.pools import SUBPOOL_DELIMITER, PoolState
from runrig.domain.settings import PROMISED
from runrig.domain.workflows import Workflow
from runrig.service.access.dev_login import BY_TOKEN
from runrig.service.queries.visibility import Visibility
from runrig.service.service import Service
from runrig.spec.masked import masked


@dataclass(frozen=True, slots=True)
class About:
    """The subject of a request. *pool*: the pool whose roles count. *workflow*, *owner*: set if the subject is a
    workflow.

    *parent*: the subject is a new subpool of *pool*.
    """

    pool: str
    workflow: str | None = None
    owner: str | None = None
    parent: bool = False

    @property
    def subpool(self) -> bool:
        return self.parent or SUBPOOL_DELIMITER in self.pool


class Asker:
    """The user of a request, and their permissions."""

    def __init__(self, identity: Identity, service: Service) -> None:
        self.identity = identity
        self.visibility = Visibility(identity)
        self.service = service

    def head(self, id: str) -> Workflow:
        """Raises NotFound, also if the user may not see the workflow."""
        return self.service.workflow_queries.head(id, self.visibility)

    def workflow(self, id: str) -> About:
        """Returns the workflow's pool and owner. Raises as `head`."""
        head = self.head(id)
        return About(head.pool, head.id, head.submitted_by)

    def may(self, permission: Permission, about: About | None = None) -> bool:
        if about is None:
            return allows(self.identity, permission)
        return allows(self.identity, permission, pool=about.pool, owner=about.owner)

    def need(self, permission: Permission, about: About | None = None, doing: str | None = None) -> None:
        """Raises NotAllowed, or NotFound if the user may not see the pool. *doing*: the action in words, if the
        permission covers more.
        """
        if self.may(permission, about):
            return
        if about is not None:
            self.service.queries.check_pool(about.pool, self.visibility)
        raise _not_allowed(self.identity, permission, about, doing)

    def check_promise(self, name: str, fields: Collection[str]) -> None:
        """Raises NotAllowed: administrators of a pool may change the guarantees of its subpools, but not its own (rule
        S1).

        *fields*: the fields that an edit of the pool *name* mentions.
        """
        if SUBPOOL_DELIMITER not in name and not PROMISED.isdisjoint(fields):
            self.need(Permission.CHANGE_CLUSTER, About(name))

    def file_of(self, id: str, *, template: bool, parameter: str) -> str:
        """Returns the file of the workflow *id*, rendered or as submitted; without secrets for those who may not change it.

        *parameter*: with which *template* was asked for. Raises NotAllowed, because templates can contain secrets.
        """
        whole = self.may(Permission.CHANGE_WORKFLOW, self.workflow(id))
        if template and not whole:
            raise NotAllowed(
                f"the template of {id} may contain secrets, so only its owner and the pool's admins can see it. "
                f"Omit {parameter} to see the file without secrets"
            )
        found = self.service.workflow_queries.spec(id)
        return found.template if template else found.text if whole else masked(found.text)

    def known_users(self, asks: str) -> Collection[str]:
        """Returns the users whose existence this user may know. *asks*: the name that this user uses for the request."""
        listed = self.service.access.users.all() if self.may(Permission.ACCESS) else ()
        return {asks, self.identity.user, *(user.name for user in listed)}

    def submits_to(self) -> list[str]:
        """Returns the pools to which the user may submit, sorted by name."""
        there = self.service.queries.declared(self.visibility)
        names = (pool.name for pool in there if pool.state is PoolState.ACTIVE)
        return sorted(name for name in names if self.may(Permission.SUBMIT, About(name)))

    def need_submit(self, pool: str) -> None:
        """Raises NotFound, NotAllowed."""
        self.need(Permission.SUBMIT, About(pool))
        self.check_there(Permission.SUBMIT, pool)

    def check_submits(self, pool: str) -> None:
        """Raises NotFound, NotAllowed, or Conflict if the pool accepts no workflows any more."""
        pools = self.submits_to()
        if pool in pools:
            return
        self.need_submit(pool)
        raise Conflict(
            f"pool {pool} no longer accepts workflows. Use one of {', '.join(pools)}"
            if pools
            else f"pool {pool} no longer accepts workflows, and you can submit to no other pool",
            {"pool": pool},
        )

    def check_there(self, permission: Permission, pool: str) -> None:
        """Raises NotFound. The error of the command itself would list all pools."""
        if permission in _CHANGING:
            self.service.queries.check_pool(pool, self.visibility, live=permission is not Permission.SUBMIT)


_CHANGING = (Permission.SUBMIT, Permission.CHANGE_POOL, Permission.CHANGE_SUBPOOLS)


STILL_S = 5.0
"""Seconds between two checks whether the user may still read a stream."""

Stays = Callable[[], Identity | None]
"""Returns the user with their current roles; None if they may no longer read. Takes no lock and queries no database."""


def seeing_as_much(stays: Stays, visibility: Visibility) -> Callable[[], Visibility | None]:
    """Returns a function that returns the current visibility; None if it is no longer *visibility*: the client then has
    to start over.
    """

    def sees() -> Visibility | None:
        who = stays()
        now = None if who is None else Visibility(who)
        return now if now is not None and now.sight == visibility.sight else None

    return sees


# ---------------------------------------------------------------- in words

_SAID: Mapping[Permission, tuple[str, Sequence[str]]] = {
    Permission.READ_POOL: ("see pool {pool}", ("{top}-user", "{top}-viewer")),
    Permission.SUBMIT: ("submit to pool {pool}", ("{top}-user", "{top}-admin")),
    Permission.SEND_CODE: ("send code", ("{top}-user", "{top}-admin")),
    Permission.READ_WORKFLOW: ("see workflows of pool {pool}", ("{top}-user", "{top}-viewer")),
    Permission.CHANGE_WORKFLOW: (
        "cancel, hold or restart workflow {workflow} of {owner}, or read its code",
        ("{top}-admin",),
    ),
    Permission.EXEC_WORKFLOW: (
        "run commands in the tasks of workflow {workflow} of {owner}, or reach their ports and files",
        ("{top}-admin",),
    ),
    Permission.CHANGE_SUBPOOLS: ("change the subpools of pool {top}", ("{top}-admin",)),
    Permission.CHANGE_POOL: ("change the settings of pool {pool}", ("{top}-admin",)),
    Permission.READ_CLUSTER: ("see the nodes", ("POOL-user", "viewer")),
    Permission.READ_EVERYTHING: ("see data about all pools", ("viewer", "admin")),
    Permission.CHANGE_CLUSTER: ("change cohorts, flavors, top-level pools and their quotas", ("admin",)),
    Permission.ACCESS: ("manage users, roles and the tokens of others", ("admin",)),
}
"""The action of each permission in words, and the roles that have it, the smallest first."""


def _not_allowed(identity: Identity, permission: Permission, about: About | None, doing: str | None) -> NotAllowed:
    if permission is Permission.OWN_TOKENS:
        return NotAllowed(
            f"{identity.user} logged in without a token, so it cannot create or revoke tokens. Instead, {BY_TOKEN}"
        )
    if permission is Permission.CHANGE_OWN:
        return NotAllowed(
            f"this token grants only {', '.join(identity.narrowed or ())}, but {identity.user} has more roles. To change credentials "
            f"and settings, which all tokens of {identity.user} share, use a token that grants all of them",
            {"permission": permission.value},
        )
    pool = "" if about is None else about.pool
    top = pool.partition(SUBPOOL_DELIMITER)[0]
    words = {"pool": pool, "top": top, "workflow": about and about.workflow, "owner": about and about.owner}
    own = permission in OF_OWNERS and about is not None and about.owner == identity.user
    roles = [each.format(top=top or "POOL") for each in _SAID[Permission.SUBMIT if own else permission][1]]
    details: dict[str, object] = {"permission": permission.value, "roles": roles}
    return NotAllowed(
        f"{identity.user} cannot {doing or _SAID[permission][0].format(**words)}. Required role: {' or '.join(roles)}. "
        f"An administrator can grant it: `runrig role grant {identity.user} {roles[0]}`",
        details | ({"pool": pool} if pool else {}),
    )
