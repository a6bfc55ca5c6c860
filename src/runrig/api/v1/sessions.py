"""Sessions in running tasks: a program with its exit code, a port, files. `api.sockets` has the connections."""

from os import terminal_size
from typing import Any

from fastapi import Response

from runrig.api.routes import Router
from runrig.domain.access import Permission
from runrig.domain.shown.server import Session
from runrig.http.permissions import Asking, needs, workflow
from runrig.http.routing import Serving, User, reply
from runrig.ports.backend import Program
from runrig.service.commands.rsync import DAEMON
from runrig.service.commands.sessions import SessionKind, Ticket
from runrig.service.rights import Asker
from runrig.service.service import Service
from runrig.wire import v1

router = Router("sessions")

_EXEC = needs(Permission.EXEC_WORKFLOW, workflow("id"))


@router("POST /api/v1/workflows/{id}/tasks/{task}:exec", _EXEC, creates=Session, errors=(409,))
def start_exec(service: Serving, asker: Asking, user: User, id: str, task: str, body: v1.ExecStart) -> Response:
    """Open a session for a program in a task.

    The connection carries binary messages. Their first byte is their type. To the server: 0 stdin (empty: its end),
    4 the terminal size as JSON. To the client: 1 stdout, 2 stderr, 3 the end as JSON, with exit_code or a problem.
    """
    size = None if body.terminal is None else terminal_size((body.terminal.columns, body.terminal.rows))
    program = Program(tuple(body.command), size)
    return _begun(service, asker, user, id, task, kind=SessionKind.EXEC, program=program, framed=True)


@router("POST /api/v1/workflows/{id}/tasks/{task}:port-forward", _EXEC, creates=Session, errors=(409,))
def start_port_forward(
    service: Serving, asker: Asking, user: User, id: str, task: str, body: v1.PortForwardStart
) -> Response:
    """Open a session for connections to a port of a task.

    To open a connection, send `{"key": TEXT}` on the connection of the session, then connect with this key. With
    `udp`, the session's connection carries datagrams itself. Each message is the IPv4 address (4 bytes) and port (2
    bytes) of a client on your side, then the data from or to it.
    """
    way = {"port": body.port, "udp": body.udp, "is_control": not body.udp}
    return _begun(service, asker, user, id, task, kind=SessionKind.PORT_FORWARD, **way)


@router("POST /api/v1/workflows/{id}/tasks/{task}:rsync", _EXEC, creates=Session, errors=(409, 413))
def start_rsync(service: Serving, asker: Asking, user: User, id: str, task: str) -> Response:
    """Open a session for rsync in a task. Its image must contain rsync and a shell.

    Connections are opened as for a port.
    """
    return _begun(service, asker, user, id, task, kind=SessionKind.RSYNC, program=DAEMON, is_control=True)


def _begun(service: Service, asker: Asker, user: str, id: str, task: str, **what: Any) -> Response:
    running = service.sessions.running(id, task)
    ticket = Ticket(task=running, workflow=asker.head(id), identity=asker.identity, names=(id,), **what)
    key = service.sessions.open(ticket, user=user).key
    return reply(Session(key), 201, location=f"/api/v1/sessions/{key}")
