"""Starts a server from its settings. No other module knows all the concrete parts."""

import getpass
import json
import logging
import os
import secrets
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runrig.api.app import create_app
from runrig.backends.kubernetes import objects
from runrig.backends.local import LocalBackend
from runrig.backends.local.gpus import why_no_gpus
from runrig.backends.simulated import DEFAULT_GPUS, SimulatedBackend, SimulatedClock, stand_in_nodes
from runrig.domain.cluster import BACKENDS_OF_UP, ClusterSpec
from runrig.domain.credentials import KEY_BYTES, written_keys
from runrig.domain.errors import InvalidInput
from runrig.domain.gangs import Priority
from runrig.domain.quantities import GPU, counted
from runrig.http import connections
from runrig.ports.backend import Backend
from runrig.ports.clock import Clock
from runrig.ports.disk import kept
from runrig.service.access.browser_sessions import FIRST_CODE_S
from runrig.service.commands import offline
from runrig.service.commands.offline import check as check
from runrig.service.commands.submission import Submission
from runrig.service.runtime import drain_sweep
from runrig.service.service import Service
from runrig.spec.arrays import Given
from runrig.spec.cluster import read_cluster
from runrig.store import SqlStore
from runrig.web.install import install
from runrig.wiring import process
from runrig.wiring.mirror import mirror_of
from runrig.wiring.port import LOOPBACK

CREDENTIAL_KEY = "credential.key"
"""In the data folder, but not in backups."""

_log = logging.getLogger("runrig")


def up(
    *,
    backend: str | None,
    cluster: str | None,
    data: Path,
    port: socket.socket,
    gpus: int | None,
    drain_sweep_s: float = drain_sweep.EVERY_S,
    dev_login: str | None = None,
    mirror: bool = True,
) -> None:
    """Runs a server until SIGTERM or SIGINT; after SIGINT, prints how many tasks keep running.

    *cluster*: the text of a cluster file. *port*: bound, not listening. *gpus* None: those of this machine or of the
    file. *drain_sweep_s*: interval of checks for DELETING pools (rule S3), in seconds. *dev_login*: the user who can
    log in from this machine without a token. *mirror*: answer slow questions in a second process. Raises InvalidInput
    for an invalid file, before it creates anything; ServerFault if the machine does not allow it.
    """
    settings = _settings(backend, cluster, gpus)
    with ExitStack() as stack:
        folder = process.data_folder(data, "choose another with --data or RUNRIG_DATA")
        process.share_memory()
        guests = process.crowd_of()
        listener = stack.enter_context(process.door(port, guests))
        number = listener.getsockname()[1]
        stack.enter_context(process.logging_to(folder / "server.log"))
        store = stack.enter_context(_store(folder, settings.backend))
        running_on, clock, node_labels = _parts(settings, folder, store)
        user = _user()
        service = Service(
            store,
            running_on,
            clock,
            node_labels=node_labels,
            drain_sweep_s=drain_sweep_s,
            credential_key=_credential_key(folder),
            mirror=mirror_of(str(folder / "runrig.db"), running_on) if mirror else None,
        )
        stack.callback(service.close)
        service.prepare(settings.cluster, user=user)
        app = create_app(service, token=_token(folder), port=number, user=user)
        install(app, service)
        _warn_of_no_gpus(settings, service)
        if dev_login is not None:
            _allow_dev_login(service, dev_login, user)
        process.keep_what_is_loaded()
        server = process.Server(connections.config(app, crowd=guests, timeout_graceful_shutdown=process.SHUTDOWN_S))
        server.when_ready = lambda: _is_up(service, settings.backend, folder, number)
        service.start()
        stack.callback((folder / "server.json").unlink, missing_ok=True)
        interrupted = server.serve_until_told(listener)
        going_on = service.queries.running_tasks() if interrupted else 0
    _log.info("event=stopped")
    if interrupted:
        tasks = counted(going_on, "task keeps running", "tasks keep running")
        process.say(f"stopped; {tasks}" if going_on else "stopped")


def render(submission: Submission, cluster: ClusterSpec, namespace: str) -> list[dict[str, Any]]:
    """Returns the Kubernetes objects of *submission* on *cluster*. Raises as `offline.blueprint`."""
    return list(objects.render(offline.blueprint(submission, cluster, namespace)))


def submission(
    text: str,
    pool: str,
    *,
    priority: str | None,
    array: str | None,
    sweep: tuple[str, ...],
    most: int | None,
    **settings: Any,
) -> Submission:
    """The workflow file *text*, as this user would submit it to *pool*. *settings*: more fields of the submission."""
    chosen = None if priority is None else Priority(priority)
    return Submission(text, pool, _user(), priority=chosen, given=Given(array, sweep, most), **settings)


# ---------------------------------------------------------------- settings


@dataclass(frozen=True, slots=True)
class _Settings:
    backend: str
    cluster: ClusterSpec | None
    gpus: int | None


def _settings(backend: str | None, text: str | None, gpus: int | None) -> _Settings:
    """Returns the settings, checked as a whole."""
    cluster = None if text is None else read_cluster(text)
    named = cluster.backend_type if cluster is not None else None
    if backend is not None and named is not None and backend != named:
        raise InvalidInput.one(
            f"--backend {backend} conflicts with backend {named} in the cluster file. Change one of them", "backend"
        )
    chosen = backend or named or BACKENDS_OF_UP[0]
    if chosen not in BACKENDS_OF_UP:
        raise InvalidInput.one(
            f"`up` does not support backend {chosen} (backends: {', '.join(BACKENDS_OF_UP)})", "backend.type"
        )
    nodes = () if cluster is None else cluster.nodes
    if chosen == "local" and len(nodes) > 1:
        raise InvalidInput.one(
            f"the local backend has only this machine, but the file has {len(nodes)} nodes. Keep one, or set "
            "backend: {type: simulated}",
            "nodes",
        )
    if chosen == "simulated" and gpus is not None and nodes:
        raise InvalidInput.one("--gpus conflicts with the nodes in the cluster file. Omit --gpus", "nodes")
    return _Settings(chosen, cluster, gpus)


def _parts(settings: _Settings, folder: Path, store: SqlStore) -> tuple[Backend, Clock, Mapping[str, str]]:
    """Returns also the labels of this machine in the cluster file."""
    nodes = () if settings.cluster is None else settings.cluster.nodes
    if settings.backend == "simulated":
        speed = 1.0 if settings.cluster is None else settings.cluster.speed
        gpus = DEFAULT_GPUS if settings.gpus is None else settings.gpus
        clock = SimulatedClock(speed, folder)
        return SimulatedBackend(nodes or stand_in_nodes(gpus), clock, folder), clock, {}
    listed = nodes[0].resources.get(GPU) if nodes else None
    labels = nodes[0].labels if nodes else {}
    gpus_here = listed if settings.gpus is None else settings.gpus
    backend = LocalBackend(folder, gpus_here)
    if backend.strays.found:
        sys.stderr.write(f"Warning: ended leftover tasks that no server manages: {', '.join(backend.strays.found)}\n")
    return backend, process.server_clock(store, folder), labels


# ---------------------------------------------------------------- the data folder


@contextmanager
def _store(folder: Path, backend: str) -> Iterator[SqlStore]:
    """Opens the database of *folder*, which from now on belongs to *backend*."""
    elsewhere = "choose another folder with --data"
    empty = process.first_start(folder, elsewhere)
    with closing(SqlStore.open(folder / "runrig.db", exclusive=True, when_empty=empty)) as store:
        process.note_database(folder)
        process.keep_backend(folder, backend, elsewhere)
        yield store


def _token(folder: Path) -> str:
    """Returns the folder's token, created at the first start."""
    return _kept_text(folder / "token", secrets.token_urlsafe(32)).strip()


def _credential_key(folder: Path) -> Path:
    """Returns the file with the keys for credentials, created at the first start."""
    file = folder / CREDENTIAL_KEY
    _kept_text(file, written_keys((secrets.token_bytes(KEY_BYTES),)))
    return file


def _kept_text(file: Path, made: str) -> str:
    """Returns the contents of *file*, which is created with *made* if missing. Only its owner can ever read it."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        file.chmod(0o600)
        before = kept(file, _printed)
        if before.strip():
            return before
        file.unlink()  # An earlier start was killed after it created the file and before it wrote it.
        return _kept_text(file, made)
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(made if made.endswith("\n") else f"{made}\n")
    return made


def _printed(text: str) -> str:
    """After a power failure, a file can have zeros instead of what was written."""
    if not all(line.isprintable() for line in text.splitlines()):
        raise ValueError
    return text


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


# ---------------------------------------------------------------- serving


def _allow_dev_login(service: Service, name: str, user: str) -> None:
    """*user*: the user who runs the server."""
    service.access.dev_login.allow(name, actor=user)
    warning = f"all programs and users on this machine can act as {name} without a token (--dev-login)"
    _log.warning("event=dev_login user=%s warning=%r", name, warning)
    sys.stderr.write(f"Warning: {warning}\n")


def _warn_of_no_gpus(settings: _Settings, service: Service) -> None:
    if settings.backend == "local" and settings.gpus is None and not service.queries.gpus():
        sys.stderr.write(f"Warning: no GPUs to share: {why_no_gpus()}; --gpus N simulates N\n")


def _is_up(service: Service, backend: str, folder: Path, port: int) -> None:
    """Prints the ready line, and writes the file with which commands find the server of a folder."""
    url = f"http://{LOOPBACK}:{port}"
    partial = folder / "server.json.new"
    partial.write_text(json.dumps({"url": url, "pid": os.getpid()}) + "\n", encoding="utf-8")
    partial.replace(folder / "server.json")
    gpus = service.queries.gpus()
    _log.info("event=up url=%s backend=%s gpus=%s", url, backend, gpus)
    amount = counted(gpus, "GPU")
    process.announce("is up", url, f"backend {backend}, {amount}, data {folder}")
    if sys.stdout.isatty():  # It only helps a user at a terminal, and must not end up in a log.
        code = service.access.browsers.make_code(service.access.authentication.owner, FIRST_CODE_S)
        process.say(f"web page: {url}/login#{code} (works once, for 5 minutes; `runrig open` prints a new one)")
