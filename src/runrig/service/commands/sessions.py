"""Sessions in running tasks: a shell, ports or files, for whom and for how long.

A session is requested with one request, which checks permissions and adds an entry to the audit trail. A connection
then uses it with the key and a token of the same user. A key is valid for one connection within a minute, and is
worthless without the token.
"""

import enum
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from runrig.domain.access import Identity, Permission, allows
from runrig.domain.errors import Conflict, InvalidInput, NotFound, TooMany, Unavailable
from runrig.domain.trail import AccessEventKind
from runrig.domain.workflows import Status, Task, Workflow
from runrig.ports.backend import Backend, Passage, Program
from runrig.service.access.access import Access
from runrig.service.queries.workflow_queries import WorkflowQueries
from runrig.service.runtime.session_metrics import TOO_MANY, SessionMetrics
from runrig.spec import strict_json

OF_USER = 50
OF_ALL = 400
"""Maximum open or requested sessions and port-forward connections."""
KEY_S = 60.0
"""Seconds for which a key is valid."""
LONGEST_KEY = 128
CLOSED = "this server is stopping or is no longer the leader"


class SessionKind(enum.Enum):
    """Each is the last part of the osmo client's path for the request, and has the name of its `AccessEventKind`."""

    EXEC = "exec"
    PORT_FORWARD = "portforward"
    RSYNC = "rsync"


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right to one connection. *program* or *port*: the target; *udp*: one datagram per message.

    *names*: of the workflow, as allowed in the path. *is_control*: carries no data, but announces the keys of data
    connections; *is_announced*: is one of these. *framed*: uses the frames of runrig's client for data and exit code,
    not those of the osmo client. *until*: by `time.monotonic`; None once used.
    """

    kind: SessionKind
    task: Task
    workflow: Workflow
    identity: Identity
    program: Program | None = field(default=None, repr=False)
    port: int | None = None
    udp: bool = False
    names: tuple[str, ...] = ()
    is_control: bool = False
    is_announced: bool = False
    framed: bool = False
    key: str = ""
    until: float | None = None

    @property
    def name(self) -> str:
        port = "" if self.port is None else f":{self.port}{'/udp' if self.udp else ''}"
        return f"{self.task.workflow}/{self.task.name}{port}"


About = tuple[str, str] | None
"""Returns the kind and the workflow in a path with a key; None: the path does not contain them."""


@dataclass(eq=False, repr=False)
class Sessions:
    """Thread-safe: requests run in threads, connections in the event loop."""

    _queries: WorkflowQueries
    _backend: Backend
    _access: Access
    _metrics: SessionMetrics
    now: Callable[[], float] = time.monotonic
    of_user: int = OF_USER
    of_all: int = OF_ALL
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _tickets: dict[str, Ticket] = field(default_factory=dict)
    _is_closed: bool = False

    # ------------------------------------------------------------ asking for one

    def running(self, id: str, task: str) -> Task:
        """Returns the running attempt of pod *task*, or of the first running pod of the task *task*.

        Raises NotFound; Conflict if it has ended or is not running yet.
        """
        return _one_running(id, task, self._queries.named(id, task))

    def running_of_group(self, id: str, group: str) -> tuple[Task, ...]:
        """Returns the running attempts of all pods of *group*. Raises as `running`."""
        attempts = self._queries.attempts(id)
        members = [each for each in attempts if each.group == group]
        if not members:
            groups = ", ".join(sorted({each.group for each in attempts}))
            raise NotFound(f"{id} has no group {group!r} with tasks (groups: {groups or 'none'})")
        _one_running(id, group, members)
        return tuple(each for each in members if each.status is Status.RUNNING)

    def open(self, asked: Ticket, *, user: str) -> Ticket:
        """Returns *asked* with its key, after adding the request of *user* to the audit trail.

        Raises Conflict if the backend does not support it, Unavailable if there are too many sessions.
        """
        if asked.udp and not self._backend.datagrams:
            raise Conflict(
                f"the {self._backend.name} backend cannot forward UDP. Omit --udp, and use a TCP port of the task"
            )
        ticket = self._add(replace(asked, key=f"{asked.kind.name}-{secrets.token_urlsafe(16)}"))
        try:
            kind = AccessEventKind[ticket.kind.name]
            self._access.note(kind, actor=user, user=ticket.workflow.submitted_by, subject=ticket.name)
        except BaseException:
            self.leave(ticket)
            raise
        return ticket

    def announce(self, control: Ticket, message: bytes | str) -> None:
        """Registers a key chosen by a client with the control connection *control*. Raises InvalidInput, Conflict,
        Unavailable.
        """
        try:
            key = strict_json.read(message)["key"]
        except (ValueError, KeyError, TypeError, RecursionError):
            key = None
        if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
            raise InvalidInput.one(
                f'invalid message. Announce a connection as {{"key": TEXT}} with at most {LONGEST_KEY} characters',
                "key",
            )
        self._add(replace(control, key=key, is_control=False, is_announced=True))

    def _add(self, ticket: Ticket) -> Ticket:
        ticket = replace(ticket, until=self.now() + KEY_S)
        with self._lock:
            self._forget_old()
            if self._is_closed:
                raise Unavailable(CLOSED)
            if ticket.key in self._tickets:
                raise Conflict(f"key {ticket.key!r} is already in use. Use a new key for each connection")
            user = ticket.identity.user
            own = sum(each.identity.user == user for each in self._tickets.values())
            for count, most, whose in (
                (own, self.of_user, f"by {user}"),
                (len(self._tickets), self.of_all, "in total"),
            ):
                if count >= most:
                    self._metrics.refused(TOO_MANY)
                    raise TooMany(f"too many open sessions {whose} (limit {most}). Close some", 1)
            self._tickets[ticket.key] = ticket
        return ticket

    def _forget_old(self) -> None:
        now = self.now()
        for ticket in [each for each in self._tickets.values() if each.until is not None and each.until <= now]:
            del self._tickets[ticket.key]

    # ------------------------------------------------------------ using it

    def take(self, key: str, identity: Identity, about: About = None) -> Ticket | None:
        """Uses up the ticket *key* and returns it; None if *identity* does not have such a ticket."""
        with self._lock:
            self._forget_old()
            ticket = self._tickets.get(key)
            if ticket is None or ticket.until is None or not _is_of(ticket, identity, about):
                return None
            used = self._tickets[key] = replace(ticket, until=None, identity=identity)
            return used

    def expects(self, identity: Identity, about: About = None) -> bool:
        """Whether *identity* has a control connection that can announce another key."""
        with self._lock:
            return any(each.is_control and _is_of(each, identity, about) for each in self._tickets.values())

    def leave(self, ticket: Ticket) -> None:
        """Releases the ticket after its connection ended."""
        with self._lock:
            self._tickets.pop(ticket.key, None)

    async def passage(self, ticket: Ticket) -> Passage:
        """Opens the connection to the task. Raises Conflict or Unavailable with a message."""
        if ticket.program is not None:
            return await self._backend.enter(ticket.task.key, ticket.program)
        assert ticket.port is not None, "a ticket leads to a program or to a port"
        return await self._backend.connect(ticket.task.key, ticket.port, udp=ticket.udp)

    def over(self, ticket: Ticket) -> str | None:
        """Returns why the session must end although its task is running; None if it may continue. Takes no lock and
        queries no database.
        """
        if self._is_closed:
            return CLOSED
        identity = self._access.authentication.present(ticket.identity)
        if identity is None:
            return "its token is no longer valid"
        workflow = ticket.workflow
        if not allows(identity, Permission.EXEC_WORKFLOW, pool=workflow.pool, owner=workflow.submitted_by):
            return f"{identity.user} no longer has permission to enter {workflow.id}"
        return None

    def runs(self, ticket: Ticket) -> bool:
        """Whether its attempt is still running. Queries the store."""
        task = ticket.task
        try:
            found = self._queries.attempts(task.workflow, task=task.name, retry_id=task.retry_id)
        except NotFound:
            return False
        return found[0].status is Status.RUNNING

    def close(self) -> None:
        """Ends all sessions soon and accepts no new ones."""
        with self._lock:
            self._is_closed = True


def _is_of(ticket: Ticket, identity: Identity, about: About) -> bool:
    named = about is None or (about[0] == ticket.kind.value and about[1] in ticket.names)
    return named and ticket.identity.user == identity.user


def _one_running(id: str, name: str, attempts: Sequence[Task]) -> Task:
    running = next((each for each in attempts if each.status is Status.RUNNING), None)
    if running is not None:
        return running
    if all(each.status.finished for each in attempts):
        raise Conflict(f"{id}/{name} is {attempts[0].status.value}. Sessions need a running task")
    raise Conflict(f"{id}/{name} is not running yet. To wait for it: `runrig workflow wait {id} --for RUNNING`")
