"""The service: everything the server can do, with one state, one store and one backend."""

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from runrig.domain.cluster import ClusterSpec
from runrig.domain.nodes import DEFAULT_FLAVOR, Flavor
from runrig.domain.pools import Pool, Quota
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.shown.server import ClockAccepted
from runrig.domain.shown.why import Standstill
from runrig.domain.value import at
from runrig.engine.explain.monitor_snapshot import MonitorSnapshot, monitor_snapshot
from runrig.ports.backend import Backend
from runrig.ports.clock import Clock
from runrig.ports.store import Store
from runrig.service.access.access import Access
from runrig.service.commands.arrivals import Arrivals
from runrig.service.commands.batches import Batches
from runrig.service.commands.code import Codes
from runrig.service.commands.declarations import Declarations
from runrig.service.commands.leases import Leases
from runrig.service.commands.nodes import Nodes
from runrig.service.commands.sessions import Sessions
from runrig.service.commands.submissions import Submissions
from runrig.service.commands.subpools import Subpools
from runrig.service.foresight.dry_runs import DryRuns
from runrig.service.foresight.plans import Plans
from runrig.service.mirror.asker import Asker
from runrig.service.mirror.mirror import Mirror
from runrig.service.notices.mail import Mail
from runrig.service.notices.notices import Notices
from runrig.service.notices.webhook import Webhook
from runrig.service.past.keeper import Keeper
from runrig.service.past.past import Past
from runrig.service.queries.board import Boards
from runrig.service.queries.feed import Feed
from runrig.service.queries.history import History
from runrig.service.queries.limit_queries import LimitQueries
from runrig.service.queries.pool_revisions import PoolRevisions
from runrig.service.queries.resource_queries import ResourceQueries
from runrig.service.queries.task_queries import TaskQueries
from runrig.service.queries.topology import Topology
from runrig.service.queries.totals import Totals
from runrig.service.queries.workflow_queries import WorkflowQueries
from runrig.service.queries.would_start import ChangeQueries
from runrig.service.runtime import drain_sweep, logs, retention
from runrig.service.runtime.metrics import Metrics
from runrig.service.runtime.reconciler import Reconciler
from runrig.service.runtime.transactor import APPLY, Transactor
from runrig.service.usage.follower import Follower
from runrig.service.usage.held import held_so_far
from runrig.service.usage.usage_queries import UsageQueries
from runrig.spec.serve_settings import NO_NOTIFY, NotifySpec, OidcSpec

DEFAULT_POOL = "default"

_log = logging.getLogger(__name__)


class Service:
    """Commands: *submissions*, *batches*, *declarations*, *subpools*, *nodes*, *sessions*; *arrivals*: the first two,
    for an event loop.

    Queries: *queries*, *topology*, *boards*, *workflow_queries*, *totals*, *task_queries*, *pool_revisions*, *history*, *feed*,
    *limit_queries*, *usage_queries*; *usage* follows the log for the last one.

    *plans*: the effects of a command. *past*: the same queries for an earlier revision; *keeper* writes its
    checkpoints. *notices*: tells users what happened to their workflows. *leases*: cancels workflows whose command is gone. `start`
    begins to reconcile.
    """

    def __init__(
        self,
        store: Store,
        backend: Backend,
        clock: Clock,
        *,
        node_labels: Mapping[str, str] | None = None,
        drain_sweep_s: float = drain_sweep.EVERY_S,
        retention_days: float | None = retention.DAYS,
        metrics: Metrics | None = None,
        oidc: OidcSpec | None = None,
        credential_key: Path | None = None,
        mirror: Mirror | None = None,
        notify: NotifySpec = NO_NOTIFY,
        address: str = "",
    ) -> None:
        """*node_labels*: from the cluster file, for this machine, where the backend cannot find them.

        *drain_sweep_s*: seconds between checks of DELETING pools (rule S3). *retention_days*: after which finished
        workflows are deleted; None: never. *metrics*: shared by all terms of this server. *oidc*: the identity
        provider. *credential_key*: the file with the keys that seal credentials; None: credentials are disabled.
        *mirror*: answers slow questions; None: this process does. *notify*: where notices may go.
        *address*: of this server, for links in notices.
        """
        self.backend_name = backend.name
        self.drain_sweep_s = drain_sweep_s
        self.metrics = metrics or Metrics()
        self.clock = clock
        self._transactor = Transactor(
            store, clock, fixed_nodes=backend.fixed_nodes, topology=backend.topology, metrics=self.metrics
        )
        self.listening = self._transactor.listening
        self.asker = Asker(self._transactor, mirror, self.metrics)
        sweeps = drain_sweep.DrainSweep(self._transactor, store, clock, drain_sweep_s)
        self.usage = Follower(store, clock)
        self._held_before = partial(held_so_far, store.usage, self.usage)
        self._reconciler = Reconciler(
            self._transactor, backend, clock, sweeps, node_labels or {}, self.metrics, self._held_before
        )
        self._backend = backend
        self._store = store
        self.retention = retention.Retention(store, backend, clock, retention_days, self.metrics)
        self.access = Access(store.access, pools=self._top_pools, oidc=oidc, credential_key=credential_key)
        backend.use_credentials(self.access.credentials.opened, self.access.credentials.pulls)
        self.codes = Codes(store.code, clock, backend)
        backend.use_code(self.codes.code)
        self._make_commands(store, backend)
        self._make_queries(store, backend, clock)
        self._make_followers(store, clock, notify, address)
        self.metrics.attach(self._monitor_snapshot, self.usage.counters)

    def _make_commands(self, store: Store, backend: Backend) -> None:
        self.submissions = Submissions(
            self._transactor, store, backend, self._reconciler, self.access.credentials, self.codes
        )
        self.leases = Leases(self._transactor, store, self.submissions)
        self.batches = Batches(self.submissions, self._transactor, self._reconciler)
        self.arrivals = Arrivals(self._transactor, self.submissions, self.batches)
        self.declarations = Declarations(
            self._transactor, store, backend, self._reconciler, self.access, self._held_before
        )
        self.subpools = Subpools(self.declarations.editing)
        self.nodes = Nodes(self.declarations.editing)

    def _make_queries(self, store: Store, backend: Backend, clock: Clock) -> None:
        self.queries = ResourceQueries(self._transactor, backend.name)
        self.limit_queries = LimitQueries(self._transactor, clock)
        self.topology = Topology(self._transactor)
        self.boards = Boards(self._transactor)
        self.workflow_queries = WorkflowQueries(
            self.asker, store, backend, clock, self._reconciler, self.access.credentials.handed
        )
        self.totals = Totals(store, clock, self.workflow_queries)
        self.dry_runs = DryRuns(self.asker, self.workflow_queries, clock)
        self.plans = Plans(
            self._transactor,
            clock,
            self.asker,
            self.declarations,
            self.submissions,
            self.dry_runs,
            self._held_before,
        )
        self.change_queries = ChangeQueries(self.asker, self.workflow_queries, clock)
        self.task_queries = TaskQueries(store)
        self.pool_revisions = PoolRevisions(store)
        self.history = History(self._transactor, store, clock)
        self.sessions = Sessions(self.workflow_queries, backend, self.access, self.metrics.sessions)
        self.feed = Feed(self._transactor, store, numbered=not backend.queues)
        self.past = Past(store, backend, clock, self.feed, self.history)
        self.keeper = Keeper(store.past, self.listening, self.past.rest, store.snapshots)

    def _make_followers(self, store: Store, clock: Clock, notify: NotifySpec, address: str) -> None:
        """Makes the parts with threads of their own."""
        self.usage_queries = UsageQueries(store.usage, clock, self.usage, self.queries)
        ways = Webhook(notify.allow), Mail(notify.smtp)
        self.notices = Notices(store, self.access.users.known, self.listening, self.metrics, *ways, address)
        parts = (self.usage, self.retention, self.keeper, self.notices, self.leases)
        self._threads = [each.thread for each in parts]

    def prepare(self, cluster: ClusterSpec | None, *, user: str) -> None:
        """Declares the cluster and adds its nodes, before anything can be submitted. Raises for an invalid declaration.

        Without *cluster*, a new server has one pool, `default`, with all GPUs.
        """
        self.subpools.follow_parents()
        if cluster is not None:
            self.declarations.declare(cluster, actor=APPLY + user, force=True)
        elif not self.queries.flavors():
            self.declarations.declare(ClusterSpec(), actor=user)
        self._reconciler.round()
        if cluster is None and not self.queries.pools(archived=True):
            quotas = {FlavorResource(DEFAULT_FLAVOR, GPU): Quota(self.queries.gpus())}
            pool = Pool(DEFAULT_POOL, quotas, description="all GPUs of this server")
            self.declarations.declare(ClusterSpec(flavors=(Flavor(DEFAULT_FLAVOR),), pools=(pool,)), actor=user)

    def start(self) -> None:
        self._reconciler.start()
        for thread in self._threads:
            thread.start()

    def settle(self) -> None:
        """Runs rounds until nothing changes, for callers without the service's thread."""
        while self._reconciler.round():
            pass

    def close(self) -> None:
        """Stops the service. Tasks keep running, and the next server finds them."""
        self.metrics.detach()
        self.asker.close()
        self.sessions.close()
        for thread in self._threads:
            thread.stop()
        self._reconciler.stop()
        self.access.uses.write()
        self._backend.close()
        self._store.close()
        self._transactor.close()

    def accept_clock(self, *, user: str) -> ClockAccepted:
        """Accepts the system clock as it is now. Limits that are due by it are handled immediately."""
        before, doubt = self.clock.now(), self.clock.doubt
        self.clock.accept()
        now = self.clock.now()
        _log.warning("%s", logs.line("clock_accepted", user=user, moved_s=round(now - before, 3)))
        self._reconciler.wake()
        return ClockAccepted(at(before), at(now), doubt)

    def _top_pools(self) -> list[str]:
        return [pool.name for pool in self.queries.declared() if pool.parent is None]

    def _monitor_snapshot(self) -> tuple[MonitorSnapshot, bool, float]:
        with self._transactor.reading() as state:
            return monitor_snapshot(state, self.clock.now()), self.not_ready is None, self.clock.difference_s

    @property
    def stored(self) -> int:
        """The last stored revision."""
        return self._transactor.stored

    @property
    def not_ready(self) -> str | None:
        """Returns why the server does not work properly; None if it does. Does not wait."""
        return self._transactor.trouble or self._reconciler.trouble

    @property
    def standstill(self) -> Standstill | None:
        """Returns since when and why nothing is decided; None while rounds succeed."""
        return self._reconciler.standstill
