"""The route by which our own client asks for a program in a task that runs: words as words, and an exit code at the end."""

from fastapi import APIRouter

from runrig import wire
from runrig.api.osmo.sessions import router_answer
from runrig.api.permissions import Asking, needs, workflow
from runrig.api.routing import Base, Route, Serving, User
from runrig.api.v1.frame import shows
from runrig.domain.access import Permission
from runrig.ports.backend import Program, Size
from runrig.service.commands.sessions import Kind, Ticket

router = APIRouter(route_class=Route, tags=["sessions"])


@router.post(
    "/api/v1/workflows/{id}/tasks/{task}:exec",
    summary="A key for a program in a task",
    description="The connection carries binary messages whose first byte says what follows: to the server 0 stdin (nothing more: its "
    "end), 4 the size of the terminal as JSON; to the client 1 stdout, 2 stderr, 3 the end as JSON, with exit_code or an error.",
    dependencies=[needs(Permission.EXEC_WORKFLOW, workflow("id"))],
    responses=shows(wire.RouterAnswer, 404, 409),
)
def start(
    service: Serving, asker: Asking, user: User, base: Base, id: str, task: str, body: wire.ExecRequest
) -> wire.RouterAnswer:
    size = None if body.terminal is None else Size(body.terminal.rows, body.terminal.columns)
    program = Program(tuple(body.command), size)
    found = service.sessions.running(id, task)
    ticket = Ticket(Kind.EXEC, found, asker.place(id), asker.identity, program=program, names=(id,), framed=True)
    return router_answer(service.sessions.open(ticket, user=user), base)
