"""The permission each route needs: declared on the route, checked before the request is trusted, shown in the OpenAPI document.

What somebody may not see does not exist for them (404, worded as for what really does not exist); what they see but may not do
is 403, with the roles that would allow it.
"""

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from runrig.api.problems import OURS
from runrig.api.routing import Found
from runrig.domain.access import OF_OWNERS, Identity, Permission, allows
from runrig.domain.errors import NotAllowed
from runrig.domain.pools import SUBPOOL_DELIMITER, PoolState
from runrig.service.access.dev_login import BY_TOKEN
from runrig.service.queries.visibility import Visibility
from runrig.service.queries.workflow_queries import Place
from runrig.service.service import Service

MOST_NAMED = 5
"""How many nodes a refusal names."""
OPENLY = "none"
"""The permission, in the document, of a route that needs no token."""


@dataclass(frozen=True, slots=True)
class About:
    """What a request is about.  *pool*: whose roles count.  *workflow*, *owner*: set if it is about a workflow.

    *parent*: it is about a subpool of *pool* that is not there yet.
    """

    pool: str
    workflow: str | None = None
    owner: str | None = None
    parent: bool = False

    @property
    def subpool(self) -> bool:
        return self.parent or SUBPOOL_DELIMITER in self.pool


class Asker:
    """The person who asks, with what they see and may do."""

    def __init__(self, identity: Identity, service: Service) -> None:
        self.identity = identity
        self.visibility = Visibility(identity)
        self.service = service

    def place(self, id: str) -> Place:
        """Raises NotFound, also for a workflow that is not seen."""
        return self.service.workflow_queries.place(id, self.visibility)

    def workflow(self, id: str) -> About:
        """The workflow's pool and owner.  Raises as `place`."""
        place = self.place(id)
        return About(place.pool, place.id, place.owner)

    def may(self, permission: Permission, about: About | None = None) -> bool:
        if about is None:
            return allows(self.identity, permission)
        return allows(self.identity, permission, pool=about.pool, owner=about.owner)

    def need(self, permission: Permission, about: About | None = None, doing: str | None = None) -> None:
        """Raises NotAllowed, or NotFound for a pool that is not seen.  *doing*: what was asked, if the permission is about more."""
        if self.may(permission, about):
            return
        if about is not None:
            self.service.queries.check_pool(about.pool, self.visibility)
        raise _not_allowed(self.identity, permission, about, doing)

    def known_users(self, asks: str) -> Collection[str]:
        """The users that they may know of before any work of theirs is seen.  *asks*: the name under which they ask."""
        listed = self.service.access.users.all() if self.may(Permission.ACCESS) else ()
        return {asks, self.identity.user, *(user.name for user in listed)}

    def submits_to(self) -> list[str]:
        """The pools that take what they submit, by name."""
        there = (view.pool for view in self.service.queries.pools(visibility=self.visibility))
        names = (pool.name for pool in there if pool.state is PoolState.ACTIVE)
        return sorted(name for name in names if self.may(Permission.SUBMIT, About(name)))

    def check_there(self, permission: Permission, pool: str) -> None:
        """Raises NotFound; checked before a command whose own error would name every pool."""
        if permission in _CHANGING:
            self.service.queries.check_pool(pool, self.visibility, live=permission is not Permission.SUBMIT)


_CHANGING = (Permission.SUBMIT, Permission.CHANGE_POOL, Permission.CHANGE_SUBPOOLS)


# ---------------------------------------------------------------- on the routes

Finds = Callable[[Asker, Request], About | None]
"""None: about no pool in particular."""


def named(parameter: str) -> Finds:
    """The pool in the path; for a subpool with its own part of the path, the parent, whose roles count (law S5)."""

    def find(_: Asker, request: Request) -> About:
        return About(request.path_params[parameter])

    return find


def workflow(parameter: str) -> Finds:
    """The pool of the workflow that the path names."""

    def find(asker: Asker, request: Request) -> About:
        return asker.workflow(request.path_params[parameter])

    return find


@dataclass(frozen=True, slots=True)
class Sent:
    """The pool in *field* of the body.  A body without it is about no pool, or is refused before the route begins."""

    field: str
    parent: bool = False

    def __call__(self, _: Asker, request: Request) -> About | None:
        pool = request.state.sent.get(self.field)
        return About(pool, parent=self.parent) if isinstance(pool, str) else None


async def _sent(request: Request) -> dict[str, Any]:
    """The body as the route will read it; empty if it is no object."""
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _nodes(sent: dict[str, Any]) -> str | None:
    """The nodes that a body names, in words; None if it names none."""
    found = sent.get("nodes")
    names = [name for name in found if isinstance(name, str)] if isinstance(found, list) else []
    rest = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    noun = "node" if len(names) == 1 else "nodes"
    return f"{noun} {', '.join(f'{name:.80}' for name in names[:MOST_NAMED])}{rest}" if names else None


class Needs:
    """A dependency of a route.  *of_subpool*: the permission needed instead if the pool is a subpool.

    *promise*: fields of the body that need `CHANGE_CLUSTER` for a top-level pool: a refusal names at once the role that is enough.
    *to_nodes*: what is done to the nodes in the body, which a refusal then names.
    """

    def __init__(
        self,
        permission: Permission,
        finds: Finds | None,
        of_subpool: Permission | None,
        promise: Collection[str],
        to_nodes: str | None,
    ) -> None:
        self.permission = permission
        self._finds = finds
        self._of_subpool = of_subpool
        self._promise = promise
        self._to_nodes = to_nodes

    def __str__(self) -> str:
        return self.permission.value + (f" (a subpool: {self._of_subpool.value})" if self._of_subpool else "")

    async def __call__(self, request: Request) -> None:
        asker = _asker(request)
        if asker.may(self.permission):
            return
        if self._finds is None:
            named = None if self._to_nodes is None else _nodes(await _sent(request))
            asker.need(self.permission, doing=named and f"{self._to_nodes} {named}")
            return
        if self._promise or isinstance(self._finds, Sent):
            request.state.sent = await _sent(request)
        await run_in_threadpool(self._check, self._finds, asker, request)

    def _check(self, finds: Finds, asker: Asker, request: Request) -> None:
        about, permission = finds(asker, request), self.permission
        if about is None:
            self._check_everywhere(asker)
            return
        if self._of_subpool is not None and about.subpool:
            permission = self._of_subpool
        if self._promise and not about.subpool and not request.state.sent.keys().isdisjoint(self._promise):
            permission = Permission.CHANGE_CLUSTER
        asker.need(permission, about)
        asker.check_there(permission, about.pool)

    def lasting(self, asker: Asker, request: Request) -> Callable[[Identity], bool]:
        """Whether somebody may have now what *asker* got; for routes that stream.  May ask the store, once."""
        about = None if self._finds is None else self._finds(asker, request)
        return lambda who: Asker(who, asker.service).may(self.permission, about)

    def _check_everywhere(self, asker: Asker) -> None:
        """Checks a body that names no pool: where one has to be named, reading it says so."""
        if self._of_subpool is not None:
            asker.need(self.permission)


class Open:
    """A dependency of a route that needs no token."""

    def __str__(self) -> str:
        return OPENLY

    async def __call__(self, request: Request) -> None:
        """Checks nothing."""


def needs(
    permission: Permission,
    finds: Finds | None = None,
    *,
    of_subpool: Permission | None = None,
    promise: Collection[str] = (),
    to_nodes: str | None = None,
) -> Any:
    """For ``dependencies=`` of a route.  Without *finds* a role on all pools is needed, or any role if that is enough."""
    return Depends(Needs(permission, finds, of_subpool, promise, to_nodes))


OPEN: Any = Depends(Open())


def install(app: FastAPI, router: APIRouter) -> None:
    """Adds the routes of *router*, each with the permission it needs, also in the document.

    One by one: an included router would be searched twice for each request, and each of its routes wrapped.
    """
    for route in router.routes:
        assert isinstance(route, APIRoute), f"{route} has no place for what it needs"
        said = [str(each) for each in declared(route)]
        assert said, f"{route.path} does not say what it needs"
        route.operation_id = route.unique_id = _operation_id(route)
        route.openapi_extra = {**(route.openapi_extra or {}), "x-permission": " and ".join(said)}
        app.router.routes.append(route)


def _operation_id(route: APIRoute) -> str:
    """The name of its function; at the door of the reference client with the name of that."""
    others = route.path.startswith("/api/") and not route.path.startswith(OURS)
    return f"osmo_{route.name}" if others else route.name


def declared(route: APIRoute) -> Iterator[Needs | Open]:
    for each in route.dependencies:
        if isinstance(each.dependency, Needs | Open):
            yield each.dependency


# ---------------------------------------------------------------- in the routes


def _asker(request: Request) -> Asker:
    return Asker(request.state.identity, request.app.state.service)


def _visibility(request: Request) -> Visibility:
    return Visibility(request.state.identity)


Asking = Annotated[Asker, Found(_asker)]
Seeing = Annotated[Visibility, Found(_visibility)]


# ---------------------------------------------------------------- in words

_DOING = {
    Permission.READ_POOL: "see pool {pool}",
    Permission.SUBMIT: "submit to pool {pool}",
    Permission.READ_WORKFLOW: "see workflows of pool {pool}",
    Permission.CHANGE_WORKFLOW: "cancel, hold or repeat workflow {workflow} of {owner}",
    Permission.EXEC_WORKFLOW: "run commands in the tasks of workflow {workflow} of {owner}, or reach their ports and files",
    Permission.CHANGE_SUBPOOLS: "change the subpools of pool {top}",
    Permission.CHANGE_POOL: "change the settings of pool {pool}",
    Permission.READ_CLUSTER: "see the nodes",
    Permission.READ_EVERYTHING: "see data about all pools",
    Permission.CHANGE_CLUSTER: "change cohorts, flavors, top-level pools and their quotas",
    Permission.ACCESS: "manage users, roles and the tokens of others",
}
_WITH = {
    Permission.READ_POOL: ("{top}-user", "{top}-viewer"),
    Permission.SUBMIT: ("{top}-user", "{top}-admin"),
    Permission.READ_WORKFLOW: ("{top}-user", "{top}-viewer"),
    Permission.CHANGE_WORKFLOW: ("{top}-admin",),
    Permission.EXEC_WORKFLOW: ("{top}-admin",),
    Permission.CHANGE_SUBPOOLS: ("{top}-admin",),
    Permission.CHANGE_POOL: ("{top}-admin",),
    Permission.READ_CLUSTER: ("POOL-user", "viewer"),
    Permission.READ_EVERYTHING: ("viewer", "admin"),
    Permission.CHANGE_CLUSTER: ("admin",),
    Permission.ACCESS: ("admin",),
}


def _not_allowed(identity: Identity, permission: Permission, about: About | None, doing: str | None) -> NotAllowed:
    if permission is Permission.OWN_TOKENS:
        return NotAllowed(f"{identity.user} got in without a token, and so can neither make nor end one: {BY_TOKEN}")
    if permission is Permission.CHANGE_OWN:
        return NotAllowed(
            f"this token gives only {', '.join(identity.narrowed or ())}, and {identity.user} has more roles: credentials and settings, "
            f"which all tokens of {identity.user} share, are changed only with a token that gives all of them",
            {"permission": permission.value},
        )
    pool = "" if about is None else about.pool
    top = pool.partition(SUBPOOL_DELIMITER)[0]
    words = {"pool": pool, "top": top, "workflow": about and about.workflow, "owner": about and about.owner}
    own = permission in OF_OWNERS and about is not None and about.owner == identity.user
    roles = [each.format(top=top or "POOL") for each in _WITH[Permission.SUBMIT if own else permission]]
    details: dict[str, object] = {"permission": permission.value, "roles": roles}
    return NotAllowed(
        f"{identity.user} may not {doing or _DOING[permission].format(**words)}: that needs the role {' or '.join(roles)}; "
        f"an admin gives it with `runrig role grant {identity.user} {roles[0]}`",
        details | ({"pool": pool} if pool else {}),
    )
