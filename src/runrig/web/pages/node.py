"""A node, and its cordon, uncordon and drain forms."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import Response

from runrig.domain.access import Permission
from runrig.domain.quantities import counted, format_quantity
from runrig.domain.shown.nodes import Node
from runrig.http.permissions import Asking, needs
from runrig.http.routing import Asked, Serving
from runrig.osmo.shape import page
from runrig.service.foresight.questions import OfDrain
from runrig.service.past.past import Then
from runrig.service.queries.nodes import NodeWork
from runrig.service.rights import Asker
from runrig.web.asking import Filled, Form
from runrig.web.pages.past import At, looking
from runrig.web.rendering import html
from runrig.web.routes import form, router

_CHANGE = [needs(Permission.CHANGE_CLUSTER)]


@router.get("/node/{name}", dependencies=[needs(Permission.READ_CLUSTER)])
def node(request: Asked, service: Serving, asker: Asking, name: str, at: At = "") -> Response:
    with looking(request, service, at) as (views, bar):
        if isinstance(views, Then):
            views.bring_to(name)
        it = views.queries.node(name, asker.visibility)
        work = views.queries.work_on(name, asker.visibility)
    amounts = [
        (resource, format_quantity(resource, amount), format_quantity(resource, it.free.get(resource, 0)))
        for resource, amount in sorted(it.resources.items())
    ]
    return html(
        request,
        "node.html",
        it=it,
        amounts=amounts,
        work=work,
        closed=closed(it, work),
        acts=[] if at else acts_on(it, work, asker),
        bar=bar,
    )


def acts_on(node: Node, work: Sequence[NodeWork], asker: Asker) -> list[tuple[str, str]]:
    """Returns the allowed actions on a node as (address, label)."""
    if not asker.may(Permission.CHANGE_CLUSTER):
        return []
    cordoned = node.cordoned
    found = ["uncordon" if cordoned else "cordon"]
    if not cordoned or any(not each.stops for each in work):
        found.append("drain")
    return [(page("node", node.name) + f"/{each}", each.capitalize()) for each in found]


def closed(node: Node, work: Sequence[NodeWork]) -> str:
    """Returns what has to finish before a cordoned node is empty; "" if runrig did not cordon it."""
    if not node.cordoned:
        return ""
    stopping = sum(each.stops for each in work)
    waits = [
        f"{counted(count, 'group')} to {verb}"
        for count, verb in ((len(work) - stopping, "finish"), (stopping, "stop"))
        if count
    ]
    what = "Draining: no new pods, LOW workflows are being stopped." if stopping else "Cordoned: no new pods."
    return f"{what} {'Waiting for ' + ' and '.join(waits) if waits else 'The node is empty'}."


# ---------------------------------------------------------------- cordon, uncordon, drain


@form("/node/{name}/cordon", dependencies=_CHANGE)
async def cordon(it: Filled, name: str) -> Response:
    return await _marked(it, name, "cordon", "No new pods until it is uncordoned. Running pods stay.")


@form("/node/{name}/uncordon", dependencies=_CHANGE)
async def uncordon(it: Filled, name: str) -> Response:
    says = "It accepts new pods again, unless it is also cordoned in Kubernetes."
    return await _marked(it, name, "uncordon", says)


async def _marked(it: Form, name: str, how: str, says: str) -> Response:
    do = partial(it.service.nodes.cordon, [name], user=it.user, cordoned=how == "cordon")
    check = partial(it.service.queries.node, name, it.asker.visibility)
    return await it.sure(f"{how.capitalize()} {name}", says, do, page("node", name), check)


@form("/node/{name}/drain", dependencies=_CHANGE)
async def drain(it: Filled, name: str) -> Response:
    """Opens with the plan of a drain without force."""
    force = bool(it.fields.get("force"))
    it = replace(it, fields=it.fields or {"step": "check"})
    do = partial(it.service.nodes.drain, [name], user=it.user, force=force)
    plan = it.plan(lambda: OfDrain((name,), force, it.user))
    return await it.answered(partial(_drain, it, name, force=force), do, page("node", name), plan)


def _drain(it: Form, name: str, **more: Any) -> Response:
    found = it.service.queries.node(name, it.asker.visibility)
    return it.shown("drain.html", name=found.name, **more)
