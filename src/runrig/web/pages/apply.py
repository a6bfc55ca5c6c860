"""The cluster file: the current one to edit, its plan, and then the change, as of `runrig apply`."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from runrig.domain.access import Permission
from runrig.domain.errors import Changed, InvalidInput, RunrigError
from runrig.http.permissions import Asking, needs
from runrig.http.routing import Route, Serving
from runrig.service.foresight.questions import OfFile
from runrig.service.service import Service
from runrig.web.asking import answered, form, form_shown, in_thread, plan_of
from runrig.web.forms import Fields, sent
from runrig.web.pages.parts import Asked

router = APIRouter(route_class=Route, include_in_schema=False)


@form(router, "/apply", dependencies=[needs(Permission.CHANGE_CLUSTER)])
async def apply(request: Asked, service: Serving, asker: Asking) -> Response:
    fields = await sent(request)
    prune, force = "prune" in fields, "force" in fields

    def change(*, dry_run: bool) -> None:
        if not fields.get("file", "").strip():
            raise InvalidInput.one("the cluster file is missing. Paste or choose one", "file")
        service.declarations.apply(
            fields["file"],
            user=asker.identity.user,
            prune=prune,
            dry_run=dry_run,
            if_revision=_revision(fields),
            force=force,
        )

    def question() -> OfFile:
        change(dry_run=True)  # Raises what `apply` refuses and a plan does not check.
        return OfFile(fields["file"], prune)

    return await answered(
        request,
        asker,
        fields,
        draw=partial(_apply, request, service, fields),
        do=in_thread(partial(change, dry_run=False), "/"),
        look=plan_of(request, service, asker, question),
    )


def _revision(fields: Fields) -> int:
    """Returns the revision at which the form was opened."""
    tag = fields.get("tag", "")
    if not (tag.isascii() and tag.isdecimal() and len(tag) < 19):
        raise InvalidInput.one("this form has no revision. Reload the page")
    return int(tag)


def _apply(
    request: Request, service: Service, fields: Fields, *, error: RunrigError | None = None, **more: Any
) -> Response:
    """After a change by others, another preview compares with what they left."""
    now = str(service.stored)
    tag = now if isinstance(error, Changed) else fields.get("tag", now)
    typed = {"file": ""} | dict(fields) if fields else {"file": service.declarations.export()}
    return form_shown(
        request, service, "apply.html", ("file",), error=error, tag=tag, typed=typed, **{"plan": None} | more
    )
