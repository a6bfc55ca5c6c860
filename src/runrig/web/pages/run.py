"""The form of one command: previewed as the workflow file that it becomes, then submitted."""

from functools import partial
from typing import Any

from fastapi import Response

from runrig.domain.access import Permission
from runrig.http.permissions import needs
from runrig.service.commands.submission import Submission
from runrig.spec.one_task import file_of
from runrig.web.asking import Filled, Form
from runrig.web.pages.acts import PRIORITIES, check_pool, priority_of, submitted, verdict_of, workflow_address
from runrig.web.routes import form
from runrig.web.run_form import DEFAULTS, FIELDS, at_fields, task_of


@form("/run", dependencies=[needs(Permission.LIST_POOLS)])
async def run(it: Filled) -> Response:
    def typed(key: str | None = None) -> Submission:
        check_pool(it)
        pool = it.service.queries.pool(it.fields["pool"], it.asker.visibility).pool
        file = file_of(task_of(it.fields, pool.default_image))
        visibility = it.asker.visibility
        return Submission(file, pool.name, it.user, priority=priority_of(it), uuid=key, visibility=visibility)

    def do() -> str:
        wanted = typed(it.key)
        with at_fields():
            return submitted(it, wanted)

    def check() -> Any:
        with at_fields():
            return it.service.submissions.check(typed())

    return await it.answered(partial(_run, it), do, workflow_address, verdict_of(it, check))


def _run(it: Form, **more: Any) -> Response:
    pools = it.asker.submits_to()
    default = it.service.access.profile(it.user).default_of(pools)
    typed = it.typed(**dict.fromkeys(FIELDS, "") | DEFAULTS, pool=default or "", priority="")
    return it.shown("run.html", typed, pools=pools, priorities=PRIORITIES, **more)
