"""Starts the server of a `runrig serve` file, which leads or stands by."""

import gc
import logging
import os
import re
import socket
import uuid
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp

from runrig.api.app import create_app
from runrig.api.standby import BROKEN, Leading, Standby
from runrig.backends.clock import ServerClock
from runrig.backends.simulated import SimulatedBackend, SimulatedClock, stand_in_nodes
from runrig.domain.errors import Conflict, InvalidInput
from runrig.http import connections
from runrig.http.crowd import Crowd
from runrig.ports.backend import Backend
from runrig.ports.clock import Clock
from runrig.ports.store import Store
from runrig.service.access.access import Access
from runrig.service.access.oidc.fetching import ProviderSilent
from runrig.service.access.oidc.metadata import ProviderUnusable
from runrig.service.access.oidc.provider import Provider, TimeLeft
from runrig.service.runtime.leadership import UNREACHABLE, Leadership
from runrig.service.runtime.metrics import Metrics
from runrig.service.service import Service
from runrig.spec.serve_settings import KubernetesSpec, ServeSpec
from runrig.store.database import is_postgresql
from runrig.store.election import SqlTerm, election
from runrig.web.install import install
from runrig.wiring import process
from runrig.wiring.kubernetes_api import api
from runrig.wiring.mirror import mirror_of
from runrig.wiring.port import bound

ACTOR = "serve"
"""Actor of the cluster file in the log."""
HANDOVER_S = 10.0
_ELSEWHERE = "set another data: in the file"

_PORT = re.compile(r":[0-9]+$")

_log = logging.getLogger("runrig")


def serve(spec: ServeSpec, *, mirror: bool = True) -> None:
    """Runs a server until SIGTERM (returns) or SIGINT (raises KeyboardInterrupt). Tasks keep running.

    *mirror*: answer slow questions in a second process.

    Raises before it creates anything if it cannot serve: for an unusable data folder, port or database, or a SQLite
    database that another server is using.
    """
    with ExitStack() as stack:
        folder = process.data_folder(spec.data, _ELSEWHERE)
        process.share_memory()
        guests = process.crowd_of(spec.connections, spec.proxies)
        listener = stack.enter_context(
            process.door(bound(spec.host, spec.port, "set another listen: in the file"), guests)
        )
        stack.enter_context(process.logging_to(spec.log_file))
        process.keep_backend(folder, spec.backend, _ELSEWHERE)
        runtime = ServerRuntime(spec, folder, listener.getsockname()[1], mirror=mirror)
        leadership = Leadership(election(spec.database), runtime.begin)
        if not is_postgresql(spec.database):
            runtime.refuse_second()
        app = Standby(_standing(leadership))
        server = process.Server(_config(spec, app, guests))
        leadership.when_led = runtime.led
        leadership.when_failed = lambda: setattr(server, "should_exit", True)
        server.when_told = leadership.stop
        server.when_ready = lambda: _listens(spec, runtime.port)
        leadership.start()
        stack.callback(leadership.join, HANDOVER_S)
        stack.callback(leadership.stop)
        interrupted = server.serve_until_told(listener)
    if leadership.failure is not None:
        raise leadership.failure
    _log.info("event=stopped")
    if interrupted:
        raise KeyboardInterrupt


def check(spec: ServeSpec) -> str | None:
    """Raises InvalidInput for an unusable kubeconfig or context, and for an identity provider that does not match the
    file.

    Sends nothing to the cluster. Returns a warning if the identity provider does not respond, since the file may be
    right.
    """
    if spec.kubernetes is not None:
        api(spec.kubernetes).close()
    if spec.oidc is not None:
        try:
            Provider(spec.oidc).metadata(TimeLeft())
        except ProviderUnusable as error:
            raise InvalidInput.one(error.message, "oidc.issuer") from None
        except ProviderSilent as error:
            return f"{error.message}. Users cannot sign in until it does"
    return None


def first_admin(spec: ServeSpec, name: str) -> str:
    """Creates the administrator *name* and returns a token. No other server may be using the database.

    Raises Conflict if an administrator can already log in, Unavailable or ServerFault if a server is using the
    database.
    """
    folder = process.data_folder(spec.data, _ELSEWHERE)
    with closing(election(spec.database)) as elected, closing(elected.take()) as term:
        store = term.open(process.first_start(folder, _ELSEWHERE))
        process.note_database(folder)
        return Access(store.access).tokens.first_admin(name)


@dataclass(frozen=True, slots=True)
class LeaderTerm:
    """The parts of a leader."""

    service: Service
    app: ASGIApp

    def close(self) -> None:
        self.service.close()
        gc.unfreeze()


class ServerRuntime:
    """The parts that outlive a term as leader, and the start of a term."""

    def __init__(self, spec: ServeSpec, folder: Path, port: int, *, mirror: bool) -> None:
        self._spec = spec
        self._mirror = mirror
        self._folder = folder
        self.port = port
        self.metrics = Metrics()

    def begin(self, term: SqlTerm, leads: Callable[[], bool]) -> LeaderTerm:
        spec, store = self._spec, term.open(process.first_start(self._folder, _ELSEWHERE))
        process.note_database(self._folder)
        if (risk := store.risk()) is not None:
            _log.warning("event=not_durable error=%r", risk)
        backend, clock = self._backend(store, term, leads)
        service = Service(
            store,
            backend,
            clock,
            drain_sweep_s=spec.drain_sweep_s,
            retention_days=spec.retention_days,
            metrics=self.metrics,
            oidc=spec.oidc,
            credential_key=spec.credential_key,
            mirror=mirror_of(spec.database, backend) if self._mirror else None,
            notify=spec.notify,
            address=f"{'https' if spec.https else 'http'}://{(*spec.hosts, f'{spec.host}:{self.port}')[0]}",
        )
        try:
            self._declare(service)
            scheme = "https" if spec.https else "http"
            app = create_app(service, port=self.port, hosts=hosts(spec, self.port), scheme=scheme)
            install(app, service, scheme=scheme)
            process.keep_what_is_loaded()
            service.start()
        except BaseException:
            service.close()
            raise
        return LeaderTerm(service, app)

    def led(self, leader_term: LeaderTerm) -> None:
        _log.info("event=serving gpus=%s", leader_term.service.queries.gpus())

    def refuse_second(self) -> None:
        """Raises ServerFault if another server is using the database file, before this one reports that it is up."""
        elected = election(self._spec.database)
        elected.take().close()

    def _backend(self, store: Store, term: SqlTerm, leads: Callable[[], bool]) -> tuple[Backend, Clock]:
        """Returns the backend and its clock. Only a leader may write to the folder, which the servers of a machine share."""
        cluster = self._spec.cluster
        if self._spec.kubernetes is not None:
            identity = store.access.secret("identity", str(uuid.uuid4()))
            real = process.server_clock(store, self._folder)
            return self._kubernetes(self._spec.kubernetes, identity, term, leads, real), real
        nodes = () if cluster is None else cluster.nodes
        clock = SimulatedClock(1.0 if cluster is None else cluster.speed, self._folder)
        return SimulatedBackend(nodes or stand_in_nodes(), clock, self._folder, epoch=term.epoch), clock

    def _kubernetes(
        self, spec: KubernetesSpec, identity: str, term: SqlTerm, leads: Callable[[], bool], clock: ServerClock
    ) -> Backend:
        client, cluster = api(spec), self._spec.cluster
        from runrig.backends.kubernetes.backend import KubernetesBackend
        from runrig.backends.kubernetes.namespace_claim import NamespaceClaim

        return KubernetesBackend(
            client,
            self._spec.log_store or self._folder / "logs",
            namespace=spec.namespace,
            claim=NamespaceClaim(client, spec.namespace, identity, term.epoch, term.beat),
            resource_names={} if cluster is None else cluster.resource_names,
            bind_timeout_s=spec.bind_timeout_s,
            start_timeout_s=spec.start_timeout_s,
            leads=leads,
            code_url=spec.code_url,
            now=clock.outside,
        )

    def _declare(self, service: Service) -> None:
        """Applies the cluster file to an empty database. After that only `runrig apply` changes the cluster.

        Otherwise each new leader would undo later changes.
        """
        cluster = self._spec.cluster
        fresh = not service.queries.pools(archived=True)
        service.prepare(cluster if fresh else None, user=ACTOR)
        if cluster is None or fresh:
            return
        try:
            differences = service.declarations.declare(cluster, actor=ACTOR, dry_run=True)
        except Conflict as error:
            _log.warning("event=cluster_file_differs error=%r", error.message)
            return
        changed = [
            f"{difference.kind}/{difference.name}"
            for difference in differences
            if difference.action not in ("unchanged", "keep")
        ]
        if changed:
            _log.warning("event=cluster_file_differs names=%s hint='runrig apply -f applies it'", ",".join(changed))


def hosts(spec: ServeSpec, port: int) -> frozenset[str]:
    """Returns the allowed Host headers: the names in the file, with and without the port, and the address it listens on."""
    own = {f"[{spec.host}]" if ":" in spec.host else spec.host.lower(), *spec.hosts}
    if spec.kubernetes is not None and spec.kubernetes.code_url is not None:
        own.add(urlsplit(spec.kubernetes.code_url).netloc)
    if spec.loopback:
        own |= {"127.0.0.1", "localhost", "[::1]"}
    usual = 443 if spec.https else 80
    found = set()
    for name in own:
        if _PORT.search(name):
            found.add(name)
        else:
            # Without a port: the default port, which belongs to the proxy, if any.
            found |= {f"{name}:{port}", f"{name}:{usual}"} | ({name} if usual == port or spec.proxies else set())
    return frozenset(found)


def _standing(leadership: Leadership[SqlTerm, LeaderTerm]) -> Callable[[], Leading]:
    def standing() -> Leading:
        leader_term = leadership.leader_term
        if leader_term is None:
            return Leading(None, leadership.standing)
        if leader_term.service.not_ready is None:
            return Leading(leader_term.app, None)
        still = leader_term.service.standstill
        return Leading(leader_term.app, UNREACHABLE if still is not None and still.unreachable else BROKEN)

    return standing


def _config(spec: ServeSpec, app: ASGIApp, guests: Crowd) -> uvicorn.Config:
    tls: dict[str, str] = (
        {} if spec.tls is None else {"ssl_certfile": str(spec.tls.cert), "ssl_keyfile": str(spec.tls.key)}
    )
    return connections.config(
        app,
        read_timeout_s=spec.read_timeout_s,
        crowd=guests,
        proxies=spec.proxies,
        timeout_graceful_shutdown=process.SHUTDOWN_S,
        lifespan="off",
        **tls,
    )


def _listens(spec: ServeSpec, port: int) -> None:
    host = f"[{spec.host}]" if ":" in spec.host else spec.host
    url = f"{'https' if spec.tls else 'http'}://{host}:{port}"
    _log.info("event=up url=%s backend=%s pid=%s host=%s", url, spec.backend, os.getpid(), socket.gethostname())
    process.announce("listens", url, f"backend {spec.backend}, data {spec.data}")
