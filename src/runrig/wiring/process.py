"""What `up` and `serve` share as processes: a data folder, a socket, a log, and the web server."""

import ctypes
import gc
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import FrameType
from typing import Any

import uvicorn
from anyio import to_thread

from runrig import __version__
from runrig.backends.clock import ServerClock
from runrig.domain.cluster import BACKENDS
from runrig.domain.errors import Conflict, InvalidInput, ServerFault
from runrig.domain.quantities import counted
from runrig.http import crowd
from runrig.ports.disk import is_full
from runrig.ports.store import ALIVE, Store, WorkflowQuery
from runrig.service.commands import code
from runrig.service.mirror import turns
from runrig.service.queries import would_start

SHUTDOWN_S = 2
"""Seconds to wait for open streams."""
LOG_BYTES = 16 * 1024 * 1024
LOGS_KEPT = 4
"""Number of old log files to keep, each of the size above."""
ACCEPTED = "accepted-clock"
"""In the data folder: an accepted clock difference, the seconds by which the system clock is behind."""
END_S = 15
"""Maximum seconds for a server to shut down. After that the system ends it, even if threads are still waiting."""


def data_folder(path: Path, elsewhere: str) -> Path:
    """Returns *path*, created if missing, readable only by its owner. Raises InvalidInput for a file, ServerFault if
    not writable.

    *elsewhere*: how to choose another folder.
    """
    if path.exists() and not path.is_dir():
        raise InvalidInput.one(
            f"data folder {path} is a file. To use a cluster file, pass --cluster; for the data, {elsewhere}"
        )
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
        probe = path / f".writable-{os.getpid()}"
        probe.touch(mode=0o600)
        probe.unlink()
    except OSError as error:
        if is_full(error):
            raise ServerFault(f"the disk of data folder {path} is full. Free some space, or {elsewhere}") from error
        raise ServerFault(
            f"data folder {path} cannot be written ({error.strerror}). Grant yourself write permission, or {elsewhere}"
        ) from error
    for name in _FILES:
        if os.path.lexists(path / name) and not (path / name).is_file():  # Opening a pipe would wait.
            raise ServerFault(
                f"data folder {path} has a {name} that is not a regular file. Move it away, or {elsewhere}"
            )
    return path.resolve()


HAD_DATABASE = "had-database"
"""In the data folder: created when a server first uses it with a database."""
_LEFT_BY_A_SERVER = (HAD_DATABASE, "live", "token", "tasks.json", "leader.json", ACCEPTED)
"""Earlier versions created all but the first."""
_FILES = (
    *(HAD_DATABASE, ACCEPTED, "backend", "clock.json", "credential.key", "runrig.db.lock", "server.json", "tasks.json"),
    "token",
)
"""In the data folder: files that a server reads."""


def first_start(folder: Path, elsewhere: str) -> Callable[[str], None]:
    """Returns a function that raises ServerFault if a server has used *folder* before. Called for an empty database:
    its state is lost, but tasks may still run.
    """

    def refuse(place: str) -> None:
        left = [name for name in _LEFT_BY_A_SERVER if (folder / name).exists()]
        if left:
            raise ServerFault(
                f"{place} is empty, but data folder {folder} was used with a database before (it has {', '.join(left)}): restore a "
                f"backup with `runrig restore`, or, to start from scratch, {elsewhere}"
            )

    return refuse


def note_database(folder: Path) -> None:
    (folder / HAD_DATABASE).touch(mode=0o600)


def keep_backend(folder: Path, backend: str, elsewhere: str) -> None:
    """Ties the folder to one backend: another one would not know its running tasks."""
    file = folder / "backend"
    if not file.exists():
        with NamedTemporaryFile("w", encoding="ascii", dir=folder, prefix=".backend-", delete=False) as draft:
            draft.write(f"{backend}\n")
        os.replace(draft.name, file)  # Atomic, because a standby may start at the same time.
    before = file.read_text(encoding="ascii", errors="replace").strip()
    if before not in BACKENDS:
        raise ServerFault(
            f"{file} is damaged. Write the backend of the folder into it ({', '.join(BACKENDS)}), or {elsewhere}"
        )
    if before != backend:
        raise Conflict(
            f"{folder} was created with backend {before}, so backend {backend} cannot use it. "
            f"Use --backend {before}, or {elsewhere}"
        )


def server_clock(store: Store, folder: Path) -> ServerClock:
    """Returns the server's clock, which continues where the log ends. *folder*: the data folder."""
    return going_on(store, ServerClock(kept=folder / ACCEPTED))


def going_on(store: Store, clock: ServerClock) -> ServerClock:
    """Returns *clock*, set to continue where the log ends."""
    clock.resume(store.log.last_time(), busy=bool(store.workflows(WorkflowQuery(statuses=ALIVE, limit=1))[0]))
    return clock


class Lenient(logging.StreamHandler[Any]):
    """Warns once on stderr when the log cannot be written, and once when it can again. Lines in between are dropped."""

    place = "the log"
    _lost = 0
    _failure: OSError | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self._failure = None
        super().emit(record)
        if self._failure is not None:
            if not self._lost:
                _complain(f"{self.place} cannot be written ({self._failure.strerror}); log lines are lost until it can")
            self._lost += 1
        elif self._lost:
            _complain(
                f"{self.place} can be written again; {counted(self._lost, 'log line was', 'log lines were')} lost"
            )
            self._lost = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        failure = sys.exc_info()[1]
        if isinstance(failure, OSError):
            self._failure = failure
            self._let_go()
        else:  # Not a write error, so a bug.
            super().handleError(record)

    def _let_go(self) -> None:
        """Drops what could not be written."""

    def close(self) -> None:
        with suppress(OSError):
            super().close()


def _complain(line: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"Warning: {line}\n")
        sys.stderr.flush()


class LogFile(Lenient, RotatingFileHandler):
    """Checks its size only every LINES lines, because each check is a system call and costs more than writing a line."""

    LINES = 256

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._lines = 0

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: N802 - the library's name
        self._lines += 1
        return self._lines % self.LINES == 0 and bool(super().shouldRollover(record))

    def doRollover(self) -> None:  # noqa: N802 - the library's name
        with suppress(OSError):  # The folder is not writable, so the file keeps growing.
            super().doRollover()

    def _open(self) -> TextIOWrapper:
        def at_once(path: str, flags: int) -> int:
            return os.open(path, flags | os.O_NONBLOCK, 0o666)  # Without it, a pipe would wait for its reader.

        return open(self.baseFilename, "a", encoding=self.encoding, errors=self.errors, opener=at_once)

    def _let_go(self) -> None:
        broken, self.stream = self.stream, None  # It is opened again for the next line.
        with suppress(OSError):
            if broken is not None:
                broken.close()


@contextmanager
def logging_to(file: Path | None) -> Iterator[None]:
    """Logs key=value lines to *file*, with rotation, or to stderr. stdout is only for the ready line."""
    if file is None:
        handler = Lenient(sys.stderr)
    else:
        handler = LogFile(file, maxBytes=LOG_BYTES, backupCount=LOGS_KEPT, encoding="utf-8", delay=True)
        handler.place = f"the log {file}"
    handler.setFormatter(
        logging.Formatter("time=%(asctime)s level=%(levelname)s logger=%(name)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    )
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for chatty in ("alembic", "httpx2"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # It warns about every request that is not HTTP.
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()


def crowd_of(connections: int = crowd.MOST, proxies: str | None = None) -> crowd.Crowd:
    """Raises the limit of open file descriptors to the maximum. Returns a limit of *connections*, or fewer if descriptors are scarce."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    files = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    room = max(files - crowd.SPARE - crowd.FILES, files // 4)
    return crowd.Crowd(min(connections, room), proxies)


def door(bound: socket.socket, guests: crowd.Crowd) -> crowd.Door:
    """Returns the listener on *bound* for *guests*."""
    return crowd.Door(guests, bound.family, bound.type, bound.proto, bound.detach())


COLLECT_EVERY = (10_000, 1, 100)
"""Garbage collection starts after this many new objects. With the default of 700 a busy server spends a tenth of its
time on it, and finds hardly any garbage. The second number makes surviving objects part of the next collection: with
the default of 10 that would pause all requests for 50 ms and more.
"""


SWITCH_S = 0.0005
"""Seconds after which a thread that needs the interpreter requests it. A commit releases it at each statement. With the
default of 5 ms it waits that long each time while another thread computes, and so does every thread that needs the
state.
"""


MOST_ARENAS = 2
_M_ARENA_MAX = -8
"""The value in <malloc.h>."""


def share_memory() -> None:
    """Makes all threads share a few memory arenas, if the C library supports it. Call it before the first thread
    starts.

    Otherwise each thread keeps its freed memory for itself: a server grew by a third under load and never shrank.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, MOST_ARENAS)


def keep_what_is_loaded() -> None:
    """Excludes all existing objects from garbage collection, and makes it rarer for new ones."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_EVERY)


class Server(uvicorn.Server):
    """Reports when it is ready and how it was stopped."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.when_ready: Callable[[], None] = lambda: None
        self.when_told: Callable[[], None] = lambda: None
        self._signal: int | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # Requests that wait for a template, for their code to be unpacked or a search must not take threads from others.
        waiting = turns.OF_ALL + 2 * code.MOST_AT_ONCE + would_start.MOST_WAIT
        to_thread.current_default_thread_limiter().total_tokens += waiting
        sys.setswitchinterval(SWITCH_S)
        if self.started:
            self.when_ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Replaces uvicorn's handler, which raises the signal again at the end and so changes the exit code."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.force_exit = self.should_exit and number == signal.SIGINT
        self.should_exit = True
        if self._signal is None:
            # The kernel sends it, so no thread has to run for it, and none can delay it.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, END_S)
        self._signal = self._signal or number
        self.when_told()

    def serve_until_told(self, listener: socket.socket) -> bool:
        """Serves until a signal; True if it was SIGINT."""
        self.run(sockets=[listener])
        return self._signal == signal.SIGINT


def announce(verb: str, url: str, details: str) -> None:
    """Prints the ready line, which scripts wait for."""
    say(f"runrig {__version__} {verb} at {url} ({details})")


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201
