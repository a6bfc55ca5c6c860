"""Commands on several chosen workflows: first what each would do, then all of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Query, Response

from runrig.domain.access import Permission
from runrig.domain.errors import Conflict, InvalidInput, RunrigError
from runrig.domain.gangs import Gang, Priority
from runrig.domain.quantities import GPU, amount_in_words, counted
from runrig.http.permissions import needs
from runrig.service.runtime.writing import Command
from runrig.web.asking import Filled, Form
from runrig.web.pages.acts import shown_workflow, stops
from runrig.web.routes import form

MOST = 50
MOST_TRIED = 10
"""Workflows for which it computes where they would start."""


@dataclass(frozen=True, slots=True)
class Row:
    """*refused*: why nothing would happen with it; "" if something would."""

    id: str
    effect: str = ""
    refused: str = ""


def _command(it: Form, act: str) -> Callable[[str], Command[str]]:
    """Returns the command on a workflow or, as ``ID/ELEMENT``, on an element of an array. Raises InvalidInput."""
    whole = _of_whole(it, act)

    def command(one: str) -> Command[str]:
        id, _, element = one.partition("/")
        if not element:
            return whole(id)
        if act != "cancel":
            raise Conflict("a single element can only be cancelled. Select its array instead")
        return it.service.submissions.cancelling_element(id, element, user=it.user)

    return command


def _of_whole(it: Form, act: str) -> Callable[[str], Command[str]]:
    """Returns the command *act* on a whole workflow. Raises InvalidInput for an unknown *act*."""
    submissions = it.service.submissions
    if act in [each.value for each in Priority]:
        return partial(submissions.reassigning, user=it.user, pool=None, priority=Priority(act))
    commands = {"cancel": submissions.cancelling, "hold": submissions.holding, "release": submissions.releasing}
    if act not in commands:
        raise InvalidInput.one(f"unknown command {act!r:.40}. Choose one in the list of workflows")
    return partial(commands[act], user=it.user)


@form("/workflows/act", dependencies=[needs(Permission.LIST_POOLS)])
async def act(
    it: Filled,
    do: Annotated[str, Query()] = "cancel",
    id: Annotated[list[str], Query()] = [],  # noqa: B006
    q: Annotated[str, Query()] = "",
) -> Response:
    ids = list(dict.fromkeys(id))
    if len(ids) > MOST:
        raise InvalidInput.one(f"{len(ids)} workflows are selected. Select at most {MOST}")
    command = _command(it, do)

    def change(each: str) -> None:
        it.asker.need(Permission.CHANGE_WORKFLOW, it.asker.workflow(_array_of(each)))
        it.runs(command(each))

    done = partial(it.runs_each, ids, change, "changed", "{}: ")
    return await it.answered(partial(_draw, it, do, ids, q), done, f"/workflows?q={quote(q)}")


def _array_of(one: str) -> str:
    return one.partition("/")[0]


def _draw(it: Form, act: str, ids: list[str], q: str, **more: Any) -> Response:
    command = _command(it, act)
    rows = [_row(it, act, command, each, tries=at < MOST_TRIED) for at, each in enumerate(ids)]
    words = f"set the priority to {act}" if act.isupper() else act
    does = f"{words[0].upper()}{words[1:]}"
    ready = sum(not each.refused for each in rows)
    elements = sum("/" in each for each in ids)
    what = f"{ready} selected" if 0 < elements < len(ids) else counted(ready, "element" if elements else "workflow")
    button = f"Set the priority of {what} to {act}" if act.isupper() else f"{does} {what}"
    about: dict[str, Any] = {"do": act, "does": does, "button": button if ready else "", "rows": rows, "ready": ready}
    return it.shown("several.html", ids=ids, q=q, **about, **more)


def _gangs(it: Form, act: str, command: Callable[[str], Command[str]], id: str) -> tuple[tuple[Gang, ...], str]:
    """Returns what would wait for its turn, and the effect on what is on nodes. Raises as the command does."""
    if act.isupper() and "/" not in id:
        return it.service.submissions.check_reassignment(id, user=it.user, pool=None, priority=Priority(act))
    return it.service.submissions.tried(command(id)), ""


def _row(it: Form, act: str, command: Callable[[str], Command[str]], id: str, *, tries: bool) -> Row:
    try:
        it.asker.need(Permission.CHANGE_WORKFLOW, it.asker.workflow(_array_of(id)))
        of = shown_workflow(it, _array_of(id))
        id = of.id + id[len(_array_of(id)) :]
        gangs, on_nodes = _gangs(it, act, command, id)
    except RunrigError as error:
        return Row(id, refused=error.message)
    if act == "cancel":
        found = stops(of, [element] if (element := id[len(of.id) + 1 :]) else ())
        return Row(
            id,
            f"stops {counted(found['pods'], 'pod')} with {amount_in_words(GPU, found['gpus'])}"
            if found["pods"]
            else "leaves the queue",
        )
    if act == "hold":
        return Row(id, "does not start until it is released")
    verdict = it.service.dry_runs.of(gangs, it.asker.visibility) if gangs and tries else None
    waits = verdict.sentence if verdict else ""
    return Row(id, ". ".join(each for each in (on_nodes, waits) if each) or "is changed")
