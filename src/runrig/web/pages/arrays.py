"""Forms of arrays: how many elements run at a time, and cancelling some of them."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Query, Response

from runrig.domain.errors import InvalidInput
from runrig.domain.quantities import whole_number
from runrig.domain.workflows import MOST_ELEMENTS
from runrig.spec.arrays import parse_indices
from runrig.web.asking import Filled, Form
from runrig.web.forms import Fields
from runrig.web.pages.acts import CHANGE, shown_workflow, stops, workflow_address
from runrig.web.routes import form

MOST = 100
"""Elements that are cancelled at a time."""


@form("/workflow/{id}/array", dependencies=CHANGE)
async def most(it: Filled, id: str) -> Response:
    """Changes how many elements may run at a time."""
    submissions = it.service.submissions

    def draw(**more: Any) -> Response:
        of = shown_workflow(it, id)
        now = of.array.most or of.array.elements if of.array else ""
        return it.shown("array.html", it.typed(most=str(now)), it=of, now=now, **more)

    def look() -> Mapping[str, Any]:
        queued, leave = submissions.check_most(id, _number(it), user=it.user)
        return {"queued": queued, "leave": leave}

    def do() -> str:
        return it.runs(submissions.setting_most(id, _number(it), user=it.user))

    return await it.answered(draw, do, workflow_address, look)


def _number(it: Form) -> int:
    said = it.field("most")
    number = whole_number(said)
    if number is None:
        raise InvalidInput.one(f"{said!r:.40} is not a number of elements from 1 to {MOST_ELEMENTS}", "most")
    return number


@form("/workflow/{id}/elements", dependencies=CHANGE)
async def elements(it: Filled, id: str, of: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Cancels some elements."""

    def command(element: str) -> Any:
        message = it.fields.get("message", "")
        return it.service.submissions.cancelling_element(id, element, user=it.user, message=message)

    def draw(**more: Any) -> Response:
        return it.shown("elements.html", it.typed(of=of, message=""), it=shown_workflow(it, id), **more)

    def look() -> Mapping[str, Any]:
        for each in (chosen := _chosen(it.fields)):
            it.service.submissions.tried(command(each))  # Raises what the command itself would raise.
        return {"stops": stops(shown_workflow(it, id), chosen), "count": len(chosen)}

    def do() -> None:
        it.runs_each(_chosen(it.fields), lambda each: it.runs(command(each)), "cancelled")

    return await it.answered(draw, do, workflow_address(id), look)


def _chosen(fields: Fields) -> list[str]:
    """Returns the indices of the chosen elements, at most MOST. Raises InvalidInput."""
    try:
        found = parse_indices(fields.get("of", ""))
    except ValueError as error:
        raise InvalidInput.one(str(error), "of") from None
    if len(found) > MOST:
        raise InvalidInput.one(f"{len(found)} elements are chosen. Choose at most {MOST}, or cancel the array", "of")
    return [str(each) for each in found]
