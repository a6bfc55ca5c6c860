"""Routes with which the osmo client requests a shell, ports or files of a running task; `api.sockets` has the
connections.
"""

import shlex
from dataclasses import replace
from os import terminal_size
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from runrig import wire
from runrig.domain.access import Permission
from runrig.domain.errors import InvalidInput
from runrig.domain.workflows import Task
from runrig.http.permissions import Asking, needs, workflow
from runrig.http.routing import Base, Responses, Route, Serving, User, answers
from runrig.ports.backend import Program
from runrig.service.commands.rsync import DAEMON, ROOT_MODULE
from runrig.service.commands.sessions import SessionKind, Ticket
from runrig.service.rights import Asker

router = APIRouter(route_class=Route, tags=["sessions"])

MOST_PORTS = 30
"""Maximum ports in one request."""
USUAL_SIZE = terminal_size((80, 24))
"""Until the client has sent the size of its terminal."""

_SEVERAL: Responses = {
    200: {"description": "Done", "content": {"application/json": {"example": wire.RouterAnswer.example()}}}
}
"""For a route that returns a list or mapping of keys."""
_EXEC = [needs(Permission.EXEC_WORKFLOW, workflow("id"))]
EntryCommand = Annotated[str, Query(description="Command in shell syntax (not run by a shell)")]


@router.post(
    "/api/workflow/{id}/exec/task/{task}",
    summary="Get a key for a command on a terminal in a task",
    dependencies=_EXEC,
    responses=answers(wire.RouterAnswer, 404, 409),
)
def exec_task(
    service: Serving, asker: Asking, user: User, base: Base, id: str, task: str, entry_command: EntryCommand
) -> wire.RouterAnswer:
    found = service.sessions.running(id, task)
    ticket = _ticket(asker, id, SessionKind.EXEC, found, program=_program(entry_command))
    return router_answer(service.sessions.open(ticket, user=user), base)


@router.post(
    "/api/workflow/{id}/exec/group/{group}",
    summary="Get keys for the same command in each task of a group",
    dependencies=_EXEC,
    responses=answers(wire.RouterAnswer, 404, 409) | _SEVERAL,
)
def exec_group(
    service: Serving, asker: Asking, user: User, base: Base, id: str, group: str, entry_command: EntryCommand
) -> Response:
    program, tasks = _program(entry_command), service.sessions.running_of_group(id, group)
    asked = _ticket(asker, id, SessionKind.EXEC, tasks[0], program=program)
    return JSONResponse(
        {task.name: _json(service.sessions.open(replace(asked, task=task), user=user), base) for task in tasks}
    )


@router.post(
    "/api/workflow/{id}/portforward/{task}",
    summary="Get keys for connections to ports of a task",
    dependencies=_EXEC,
    responses=answers(wire.RouterAnswer, 404, 409) | _SEVERAL,
)
def port_forward(
    service: Serving,
    asker: Asking,
    user: User,
    base: Base,
    id: str,
    task: str,
    task_ports: Annotated[
        list[Annotated[int, Query(ge=1, le=65535)]],
        Query(min_length=1, max_length=MOST_PORTS, description="Ports in the task"),
    ],
    use_udp: Annotated[bool, Query(description="The connection with the key carries datagrams")] = False,
) -> Response:
    found = service.sessions.running(id, task)
    asked = _ticket(asker, id, SessionKind.PORT_FORWARD, found, udp=use_udp, is_control=not use_udp)
    return JSONResponse(
        [_json(service.sessions.open(replace(asked, port=port), user=user), base) for port in task_ports]
    )


@router.post(
    "/api/workflow/{id}/rsync/task/{task}",
    summary="Get a key for connections to rsync in a task",
    description="The task's image must contain rsync and a shell.",
    dependencies=_EXEC,
    responses=answers(wire.RouterAnswer, 404, 409),
)
def rsync(service: Serving, asker: Asking, user: User, base: Base, id: str, task: str) -> wire.RouterAnswer:
    found = service.sessions.running(id, task)
    ticket = _ticket(asker, id, SessionKind.RSYNC, found, program=DAEMON, is_control=True)
    return router_answer(service.sessions.open(ticket, user=user), base)


@router.get(
    "/api/plugins/configs",
    summary="Show which paths of tasks rsync can read and write",
    dependencies=[needs(Permission.CONNECT)],
    responses=answers(wire.PluginConfigsAnswer),
)
def plugin_configs() -> wire.PluginConfigsAnswer:
    paths = {ROOT_MODULE: wire.RsyncPathAnswer(path="/", writable=True)}
    return wire.PluginConfigsAnswer(rsync=wire.RsyncAnswer(allowed_paths=paths))


def _ticket(asker: Asker, id: str, kind: SessionKind, task: Task, **more: Any) -> Ticket:
    """Returns a request for a session in *task* of the workflow *id*."""
    return Ticket(kind, task, asker.place(id), asker.identity, names=(id,), **more)


def router_answer(ticket: Ticket, base: str) -> wire.RouterAnswer:
    return wire.RouterAnswer(router_address=base.replace("http", "ws", 1), key=ticket.key)


def _json(ticket: Ticket, base: str) -> dict[str, object]:
    return router_answer(ticket, base).model_dump(mode="json")


def _program(text: str) -> Program:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise InvalidInput.one(f"invalid command: {error}", "entry_command") from error
    if not words:
        raise InvalidInput.one("the command is empty. Use a program such as /bin/bash", "entry_command")
    return Program(words, USUAL_SIZE)
