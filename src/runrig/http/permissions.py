"""The permission of each route: declared on the route, checked before the request is trusted, shown in the OpenAPI
document.

The response is 404 for objects that a user may not see, and 403 for actions that they may not perform
(`service.rights`).
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.routing import BaseRoute

from runrig.domain.access import Identity, Permission
from runrig.domain.quantities import few
from runrig.http.problems import OURS
from runrig.http.routing import Found
from runrig.service.queries.visibility import Visibility
from runrig.service.rights import About, Asker

MOST_NAMED = 5
"""Maximum nodes named in a refusal."""
OPENLY = "none"
"""The permission shown for a route that does not require a token."""

Finds = Callable[[Asker, Request], About | None]
"""None: no particular pool."""


def named(parameter: str) -> Finds:
    """Returns the pool in the path; if the path has a part for the subpool, the parent, whose roles count (rule S5)."""
    return lambda _, request: About(request.path_params[parameter])


def workflow(parameter: str) -> Finds:
    """Returns the pool of the workflow in the path."""
    return lambda asker, request: asker.workflow(request.path_params[parameter])


@dataclass(frozen=True, slots=True)
class Sent:
    """The pool in *field* of the body. A body without it refers to no pool, or is refused before the route runs."""

    field: str
    parent: bool = False

    def __call__(self, _: Asker, request: Request) -> About | None:
        pool = request.state.sent.get(self.field)
        return About(pool, parent=self.parent) if isinstance(pool, str) else None


async def _sent(request: Request) -> dict[str, Any]:
    """Returns the body as the route will read it; empty if it is not an object."""
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _nodes(sent: dict[str, Any]) -> str | None:
    """Returns the nodes in a body, in words, or None."""
    found = sent.get("nodes")
    names = [f"{name!r:.80}" for name in found if isinstance(name, str)] if isinstance(found, list) else []
    noun = "node" if len(names) == 1 else "nodes"
    return f"{noun} {few(names, MOST_NAMED)}" if names else None


@dataclass(frozen=True, slots=True, eq=False)
class Needs:
    """A dependency of a route. *of_subpool*: the permission needed instead if the pool is a subpool.

    *guarantees*: body fields that require `CHANGE_CLUSTER` for a top-level pool, so that a refusal names the
    sufficient role. *to_nodes*: the action on the nodes in the body, for refusals.
    """

    permission: Permission
    finds: Finds | None = None
    of_subpool: Permission | None = None
    guarantees: Collection[str] = ()
    to_nodes: str | None = None

    def __str__(self) -> str:
        return self.permission.value + (f" (a subpool: {self.of_subpool.value})" if self.of_subpool else "")

    async def __call__(self, request: Request) -> None:
        asker = _asker(request)
        if asker.may(self.permission):
            return
        if self.finds is None:
            named = None if self.to_nodes is None else _nodes(await _sent(request))
            asker.need(self.permission, doing=named and f"{self.to_nodes} {named}")
            return
        if self.guarantees or isinstance(self.finds, Sent):
            request.state.sent = await _sent(request)
        await run_in_threadpool(self._check, self.finds, asker, request)

    def _check(self, finds: Finds, asker: Asker, request: Request) -> None:
        about, permission = finds(asker, request), self.permission
        if about is None:  # The body is without a pool. If one is required, the parser reports it.
            if self.of_subpool is not None:
                asker.need(self.permission)
            return
        if self.of_subpool is not None and about.subpool:
            permission = self.of_subpool
        if self.guarantees and not about.subpool and not request.state.sent.keys().isdisjoint(self.guarantees):
            permission = Permission.CHANGE_CLUSTER
        asker.need(permission, about)
        asker.check_there(permission, about.pool)

    def lasting(self, asker: Asker, request: Request) -> Callable[[Identity], bool]:
        """Returns whether the user still has the permission that *asker* was granted, for streams. May query the store,
        once.
        """
        about = None if self.finds is None else self.finds(asker, request)
        return lambda who: Asker(who, asker.service).may(self.permission, about)


class Open:
    """A dependency of a route that does not require a token."""

    def __str__(self) -> str:
        return OPENLY

    async def __call__(self, request: Request) -> None:
        """Checks nothing."""


def needs(permission: Permission, finds: Finds | None = None, **more: Any) -> Any:
    """For ``dependencies=`` of a route. Without *finds*, a role on all pools is required, or any role if that is
    sufficient. *more*: as in `Needs`.
    """
    return Depends(Needs(permission, finds, **more))


OPEN: Any = Depends(Open())


def install(app: FastAPI, routes: Iterable[BaseRoute]) -> None:
    """Adds *routes*, each with its permission, also in the document.

    One by one, because an included router would be searched twice for each request and each of its routes wrapped.
    """
    for route in routes:
        assert isinstance(route, APIRoute), f"{route} does not support permissions"
        said = [str(each) for each in declared(route)]
        assert said, f"{route.path} does not declare a permission"
        route.operation_id = route.unique_id = _operation_id(route)
        route.openapi_extra = {**(route.openapi_extra or {}), "x-permission": " and ".join(said)}
        app.router.routes.append(route)


def _operation_id(route: APIRoute) -> str:
    """Returns the name of its function; in the osmo API, with a prefix."""
    others = route.path.startswith("/api/") and not route.path.startswith(OURS)
    return f"osmo_{route.name}" if others else route.name


def declared(route: APIRoute) -> Iterator[Needs | Open]:
    for each in route.dependencies:
        if isinstance(each.dependency, Needs | Open):
            yield each.dependency


# ---------------------------------------------------------------- in the routes


def _asker(request: Request) -> Asker:
    return Asker(request.state.identity, request.app.state.service)


Asking = Annotated[Asker, Found(_asker)]
Seeing = Annotated[Visibility, Found(lambda request: Visibility(request.state.identity))]
