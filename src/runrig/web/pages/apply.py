"""The cluster file: the current one to edit, its plan, and then the change, as of `runrig apply`."""

from functools import partial
from typing import Any

from fastapi import Response

from runrig.domain.access import Permission
from runrig.domain.errors import Changed, InvalidInput, RunrigError
from runrig.http.permissions import needs
from runrig.service.foresight.questions import OfFile
from runrig.web.asking import Filled, Form
from runrig.web.forms import Fields
from runrig.web.routes import form


@form("/apply", dependencies=[needs(Permission.CHANGE_CLUSTER)])
async def apply(it: Filled) -> Response:
    prune = "prune" in it.fields

    def change(*, dry_run: bool) -> None:
        if not it.field("file"):
            raise InvalidInput.one("the cluster file is missing. Paste or choose one", "file")
        it.service.declarations.apply(
            it.fields["file"],
            user=it.user,
            prune=prune,
            dry_run=dry_run,
            if_revision=_revision(it.fields),
            force="force" in it.fields,
        )

    def question() -> OfFile:
        change(dry_run=True)  # Raises what `apply` refuses and a plan does not check.
        return OfFile(it.fields["file"], prune)

    return await it.answered(partial(_apply, it), partial(change, dry_run=False), "/", it.plan(question))


def _revision(fields: Fields) -> int:
    """Returns the revision at which the form was opened."""
    tag = fields.get("tag", "")
    if not (tag.isascii() and tag.isdecimal() and len(tag) < 19):
        raise InvalidInput.one("this form has no revision. Reload the page")
    return int(tag)


def _apply(it: Form, *, error: RunrigError | None = None, **more: Any) -> Response:
    """After a change by others, another preview compares with what they left."""
    now = str(it.service.stored)
    tag = now if isinstance(error, Changed) else it.fields.get("tag", now)
    typed = it.typed(file="" if it.fields else it.service.declarations.export())
    return it.shown("apply.html", typed, error=error, tag=tag, **more)
