"""The form of one command: previewed as the workflow file that it becomes, then submitted."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from runrig.domain.access import Permission
from runrig.http.permissions import Asking, needs
from runrig.http.routing import Route, Serving
from runrig.service.commands.submission import Submission
from runrig.service.rights import Asker
from runrig.service.service import Service
from runrig.spec.one_task import file_of
from runrig.web.asking import answered, form, form_shown
from runrig.web.forms import Fields, key_of, sent
from runrig.web.pages.acts import PRIORITIES, check_pool, priority_of, verdict_of, workflow_address
from runrig.web.pages.parts import Asked
from runrig.web.run_form import DEFAULTS, FIELDS, at_fields, task_of

router = APIRouter(route_class=Route, include_in_schema=False)


@form(router, "/run", dependencies=[needs(Permission.LIST_POOLS)])
async def run(request: Asked, service: Serving, asker: Asking) -> Response:
    fields = await sent(request)

    def typed(key: str | None = None) -> Submission:
        check_pool(asker, fields)
        return Submission(
            file_of(task_of(fields, service.queries.pool(fields["pool"], asker.visibility).pool.default_image)),
            fields["pool"],
            asker.identity.user,
            priority=priority_of(fields),
            uuid=key,
            visibility=asker.visibility,
        )

    async def do() -> str:
        wanted = await run_in_threadpool(typed, key_of(fields))
        with at_fields():
            return workflow_address((await service.arrivals.submit(wanted)).id)

    def check() -> Any:
        with at_fields():
            return service.submissions.check(typed())

    draw = partial(_run, request, service, asker, fields)
    return await answered(request, asker, fields, draw=draw, do=do, look=verdict_of(service, asker, check))


def _run(request: Request, service: Service, asker: Asker, fields: Fields, **more: Any) -> Response:
    pools = asker.submits_to()
    default = service.access.profile(asker.identity.user).default_of(pools)
    empty = dict.fromkeys(FIELDS, "") | DEFAULTS | {"pool": default or "", "priority": ""}
    return form_shown(
        request,
        service,
        "run.html",
        ("pool", "priority", *FIELDS),
        typed=empty | dict(fields),
        pools=pools,
        priorities=PRIORITIES,
        **{"accepted": None, "verdict": None} | more,
    )
