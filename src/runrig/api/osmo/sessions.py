"""Routes with which the osmo client requests a shell, ports or files of a running task; `api.sockets` has the
connections.
"""

import shlex
from dataclasses import replace
from os import terminal_size
from typing import Annotated, Any

from fastapi import Query
from fastapi.responses import JSONResponse, Response

from runrig.api.osmo import models
from runrig.api.routes import Router
from runrig.domain.access import Permission
from runrig.domain.errors import InvalidInput
from runrig.domain.workflows import Task
from runrig.http.permissions import Asking, needs, workflow
from runrig.http.routing import Base, NamedUser, Serving
from runrig.ports.backend import Program
from runrig.service.commands.rsync import DAEMON, ROOT_MODULE
from runrig.service.commands.sessions import SessionKind, Ticket
from runrig.service.rights import Asker

router = Router("sessions")

MOST_PORTS = 30
"""Maximum ports in one request."""
USUAL_SIZE = terminal_size((80, 24))
"""Until the client has sent the size of its terminal."""

_SEVERAL = {"example": models.RouterAnswer.example()}
"""The example of routes that return a list or mapping of keys."""
_EXEC = needs(Permission.EXEC_WORKFLOW, workflow("id"))
EntryCommand = Annotated[str, Query(description="Command in shell syntax (not run by a shell)")]


@router("POST /api/workflow/{id}/exec/task/{task}", _EXEC, errors=(409,))
def exec_task(
    service: Serving, asker: Asking, user: NamedUser, base: Base, id: str, task: str, entry_command: EntryCommand
) -> models.RouterAnswer:
    """Get a key for a command on a terminal in a task."""
    found = service.sessions.running(id, task)
    ticket = _ticket(asker, id, SessionKind.EXEC, found, program=_program(entry_command))
    return router_answer(service.sessions.open(ticket, user=user), base)


@router("POST /api/workflow/{id}/exec/group/{group}", _EXEC, content=_SEVERAL, errors=(409,))
def exec_group(
    service: Serving, asker: Asking, user: NamedUser, base: Base, id: str, group: str, entry_command: EntryCommand
) -> Response:
    """Get keys for the same command in each task of a group."""
    program, tasks = _program(entry_command), service.sessions.running_of_group(id, group)
    asked = _ticket(asker, id, SessionKind.EXEC, tasks[0], program=program)
    return JSONResponse(
        {task.name: _json(service.sessions.open(replace(asked, task=task), user=user), base) for task in tasks}
    )


@router("POST /api/workflow/{id}/portforward/{task}", _EXEC, content=_SEVERAL, errors=(409,))
def port_forward(
    service: Serving,
    asker: Asking,
    user: NamedUser,
    base: Base,
    id: str,
    task: str,
    task_ports: Annotated[
        list[Annotated[int, Query(ge=1, le=65535)]],
        Query(min_length=1, max_length=MOST_PORTS, description="Ports in the task"),
    ],
    use_udp: Annotated[bool, Query(description="The connection with the key carries datagrams")] = False,
) -> Response:
    """Get keys for connections to ports of a task."""
    found = service.sessions.running(id, task)
    asked = _ticket(asker, id, SessionKind.PORT_FORWARD, found, udp=use_udp, is_control=not use_udp)
    return JSONResponse(
        [_json(service.sessions.open(replace(asked, port=port), user=user), base) for port in task_ports]
    )


@router("POST /api/workflow/{id}/rsync/task/{task}", _EXEC, errors=(409,))
def rsync(service: Serving, asker: Asking, user: NamedUser, base: Base, id: str, task: str) -> models.RouterAnswer:
    """Get a key for connections to rsync in a task.

    The task's image must contain rsync and a shell.
    """
    found = service.sessions.running(id, task)
    ticket = _ticket(asker, id, SessionKind.RSYNC, found, program=DAEMON, is_control=True)
    return router_answer(service.sessions.open(ticket, user=user), base)


@router("GET /api/plugins/configs", needs(Permission.CONNECT))
def plugin_configs() -> models.PluginConfigsAnswer:
    """Show which paths of tasks rsync can read and write."""
    paths = {ROOT_MODULE: models.RsyncPathAnswer(path="/", writable=True)}
    return models.PluginConfigsAnswer(rsync=models.RsyncAnswer(allowed_paths=paths))


def _ticket(asker: Asker, id: str, kind: SessionKind, task: Task, **more: Any) -> Ticket:
    """Returns a request for a session in *task* of the workflow *id*."""
    return Ticket(kind, task, asker.head(id), asker.identity, names=(id,), **more)


def router_answer(ticket: Ticket, base: str) -> models.RouterAnswer:
    return models.RouterAnswer(router_address=base.replace("http", "ws", 1), key=ticket.key)


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
