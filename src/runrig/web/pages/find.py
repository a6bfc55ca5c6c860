"""The field at the top of each page: it finds workflows, pools, users and nodes by name."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query, Response
from fastapi.responses import RedirectResponse

from runrig.domain.access import Permission
from runrig.domain.errors import NotFound
from runrig.http.permissions import Asking, needs
from runrig.http.routing import Asked, Serving
from runrig.osmo.shape import page
from runrig.ports.store import WorkflowQuery
from runrig.service.rights import Asker
from runrig.web.rendering import html
from runrig.web.routes import router

LONGEST = 200
MOST = 20
"""Shown of each kind."""


@router.get("/find", dependencies=[needs(Permission.LIST_POOLS)])
def find(
    request: Asked, service: Serving, asker: Asking, q: Annotated[str, Query(max_length=LONGEST)] = ""
) -> Response:
    """Leads to the only hit; else shows all hits."""
    word = q.strip()
    if not word:
        return html(request, "find.html", word="", hits={}, more=False)
    if ":" in word:
        return _to(f"/workflows?{urlencode({'q': word})}")
    exact = next(_exact(asker, word), None)
    if exact is not None:
        return _to(exact)
    found, more = service.workflow_queries.workflows(WorkflowQuery(name=word, limit=MOST), asker.visibility)
    pools = (pool.name for pool in service.queries.declared(asker.visibility))
    hits = {
        "Workflows": [(each.id, page("workflow", each.id)) for each in found],
        "Pools": [(each, page("pool", each)) for each in _with(word, pools)],
        "Users": [(each, _work_of(each)) for each in _with(word, asker.known_users(asker.identity.user))],
    }
    every = [each for kind in hits.values() for each in kind]
    if len(every) == 1:
        return _to(every[0][1])
    return html(request, "find.html", word=word, hits={name: some for name, some in hits.items() if some}, more=more)


def _exact(asker: Asker, word: str) -> Iterator[str]:
    service, visibility = asker.service, asker.visibility
    with suppress(NotFound):
        yield page("workflow", asker.head(word).id)
    if word in (pool.name for pool in service.queries.declared(visibility)):
        yield page("pool", word)
    if asker.may(Permission.READ_CLUSTER):
        with suppress(NotFound):
            yield page("node", service.queries.node(word, visibility).name)
    with suppress(NotFound):
        service.workflow_queries.check_users([word], asker.known_users(asker.identity.user), visibility)
        yield _work_of(word)


def _with(word: str, names: Iterable[str]) -> list[str]:
    return sorted(each for each in names if word.casefold() in each.casefold())[:MOST]


def _work_of(user: str) -> str:
    return f"/workflows?{urlencode({'q': f'by:{user}'})}"


def _to(address: str) -> Response:
    return RedirectResponse(address, 303)
