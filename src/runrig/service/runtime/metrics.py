"""Metrics: counters and times kept as things happen, and numbers of the state, computed at each scrape.

One registry per server.  Labels are pools, priorities, nodes of the quota tree, flavors, kinds of actions, laws and routes: what
the operator declared or this program knows, never users, workflows or what a client sent.
"""

import logging
import time
from collections import Counter as Amounts
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from runrig import __version__
from runrig.domain.plan import Admit, Preempt, law_of
from runrig.engine.explain.monitor_snapshot import MonitorSnapshot
from runrig.engine.state.state import State
from runrig.service.runtime import logs
from runrig.service.runtime.session_metrics import SessionMetrics
from runrig.service.runtime.writing import Revision

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_WAITS = (1, 10, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)

# They would add a second series to each counter, which nobody reads.
disable_created_metrics()  # type: ignore[no-untyped-call] # the library does not say its type

_log = logging.getLogger(__name__)

Source = Callable[[], tuple[MonitorSnapshot, bool, float]]
"""Gives the present numbers, whether the server is ready, and `Clock.difference_s`."""


class Metrics:
    """The metrics of one server over all its terms as leader: *attach* at the start of a term, *detach* at its end."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry(auto_describe=False)
        build = Gauge("runrig_build_info", "The version of this server; always 1.", ["version"], registry=registry)
        build.labels(__version__).set(1)
        self._cycle = Histogram("runrig_cycle_seconds", "One part of a cycle.", registry=registry, buckets=_SECONDS)
        self._lock = Histogram(
            "runrig_lock_seconds",
            "For how long at a time somebody had the state for himself.",
            registry=registry,
            buckets=_SECONDS,
        )
        self._longest = Longest()
        longest = Gauge(
            "runrig_lock_longest_seconds",
            "The longest of the last five to ten minutes.",
            registry=registry,
        )
        longest.set_function(self._longest.seconds)
        self._commit = Histogram(
            "runrig_commit_seconds", "One transaction of the store.", registry=registry, buckets=_SECONDS
        )
        self._actions = Counter(
            "runrig_actions", "Actions committed, by kind: Admit, Preempt, Submit, ...", ["kind"], registry=registry
        )
        self._preemptions = Counter(
            "runrig_preemptions", "Gangs preempted, by law: R1 own pool, R2 taken back.", ["law"], registry=registry
        )
        self._waits = Histogram(
            "runrig_wait_seconds",
            "From the submission of a gang to its admission.",
            ["pool", "priority"],
            registry=registry,
            buckets=_WAITS,
        )
        self._failed_rounds = Counter(
            "runrig_failed_rounds", "Rounds of the loop that failed and were tried again.", registry=registry
        )
        self._pruned = Counter(
            "runrig_pruned_workflows", "Finished workflows removed after their retention.", registry=registry
        )
        self._answers = Counter(
            "runrig_answers",
            "Questions about the state, by who answered: the mirror or the server.",
            ["by"],
            registry=registry,
        )
        self._failed_logins = Counter("runrig_failed_logins", "Requests without a good token.", registry=registry)
        self._requests = Counter(
            "runrig_http_requests", "Answers, by route and status.", ["method", "route", "status"], registry=registry
        )
        self._latency = Histogram(
            "runrig_http_request_seconds",
            "Time until an answer begins.",
            ["method", "route"],
            registry=registry,
            buckets=_SECONDS,
        )
        self.sessions = SessionMetrics(registry)
        self._source: Source | None = None

    def attach(self, source: Source) -> None:
        """This server leads now; *source* gives its state."""
        self._source = source

    def detach(self) -> None:
        """It leads no longer."""
        self._source = None

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry) + _written(_of_state(self._source))

    # ------------------------------------------------------------ what happens

    def part(self, seconds: float) -> None:
        """One part of a cycle was decided in so many seconds."""
        self._cycle.observe(seconds)

    def explained(self, by: str) -> None:
        """A question about the state was answered, by the mirror or by the server."""
        self._answers.labels(by).inc()

    def lock_held(self, seconds: float) -> None:
        """The lock of the state was held for so long without a break."""
        self._lock.observe(seconds)
        self._longest.see(seconds)

    def stored(self, state: State, revisions: Iterable[Revision], seconds: float) -> None:
        """*revisions* led to *state*, and were stored in one transaction of *seconds*."""
        self._commit.observe(seconds)
        for revision in revisions:
            logs.enter(revision.request)
            self._revision(state, revision, seconds)

    def _revision(self, state: State, revision: Revision, seconds: float) -> None:
        """Counts the actions; one line of the log."""
        plan = revision.plan
        kinds = Amounts(type(action).__name__ for action in plan.actions)
        for kind, amount in kinds.items():
            self._actions.labels(kind).inc(amount)
        for action in plan.actions:
            if isinstance(action, Preempt):
                self._preemptions.labels(law_of(action)).inc()
            elif isinstance(action, Admit):
                self._started(state, action.gang, revision.at)
        listed = ",".join(f"{kind}:{amount}" for kind, amount in sorted(kinds.items()))
        ms = seconds * 1000
        _log.info("%s", logs.line("committed", revision=revision.number, actor=revision.actor, actions=listed, ms=ms))

    def _started(self, state: State, id: str, now: float) -> None:
        entry = state.ledger.entries.get(id)  # gone if it ended in the same cycle
        if entry is not None:
            waited = self._waits.labels(entry.gang.pool, entry.gang.priority.value)
            waited.observe(max(0.0, now - entry.gang.submitted_at))

    def round_failed(self) -> None:
        self._failed_rounds.inc()

    def pruned(self, workflows: int) -> None:
        self._pruned.inc(workflows)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts a request.  *route*: the route's template, never the path that was asked for."""
        self._requests.labels(method, route, str(status)).inc()
        self._latency.labels(method, route).observe(seconds)
        if status in (401, 429):
            self._failed_logins.inc()


class Longest:
    """The longest of the times that it was told in this stretch of five minutes and in the one before."""

    STRETCH_S = 300.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stretch = 0
        self._now = self._before = 0.0

    def see(self, seconds: float) -> None:
        self._go_on()
        self._now = max(self._now, seconds)

    def seconds(self) -> float:
        """0 if it was told nothing."""
        self._go_on()
        return max(self._now, self._before)

    def _go_on(self) -> None:
        stretch = int(self._clock() / self.STRETCH_S)
        if stretch != self._stretch:
            self._before = self._now if stretch == self._stretch + 1 else 0.0
            self._stretch, self._now = stretch, 0.0


# ---------------------------------------------------------------- numbers of the state


@dataclass(frozen=True, slots=True)
class _Gauge:
    """Its series: labels as they are written, and the value."""

    name: str
    about: str
    series: Sequence[tuple[str, float]]


def _written(gauges: Iterable[_Gauge]) -> bytes:
    """*gauges* in the text format; written by hand, because a large tree has 10,000 series and the library takes 20 us each."""
    lines: list[str] = []
    for gauge in gauges:
        lines += (f"# HELP {gauge.name} {gauge.about}", f"# TYPE {gauge.name} gauge")
        lines += [f"{gauge.name}{labels} {value}" for labels, value in gauge.series]
    return ("\n".join(lines) + "\n").encode()


def _labels(**values: str) -> str:
    pairs = (f'{name}="{_escaped(value)}"' for name, value in values.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _of_state(source: Source | None) -> Iterable[_Gauge]:
    yield _Gauge(
        "runrig_leader", "1 while this server is the leader, 0 while it is a standby.", [("", int(source is not None))]
    )
    if source is None:
        return
    snapshot, ready, difference_s = source()
    yield _Gauge("runrig_ready", "1 while the last scheduling round and the last commit succeeded.", [("", int(ready))])
    yield _Gauge(
        "runrig_clock_difference_seconds",
        "Seconds by which the system clock is ahead of the server's time; negative if behind.",
        [("", round(difference_s, 3))],
    )
    yield _Gauge("runrig_revision", "Number of the last commit.", [("", snapshot.revision)])
    yield _Gauge(
        "runrig_workflows_set_aside",
        "Workflows that the server set aside after an internal error.",
        [("", snapshot.aside)],
    )
    yield from _queues(snapshot)
    yield from _tree(snapshot)
    gpus = [
        (_labels(flavor=flavor, state=state), getattr(each, state))
        for flavor, each in snapshot.gpus.items()
        for state in ("held", "free", "not_ready")
    ]
    yield _Gauge("runrig_gpus", "GPUs of the nodes: held, free, not_ready.", gpus)


def _queues(snapshot: MonitorSnapshot) -> Iterable[_Gauge]:
    rows = [(_labels(pool=pool, priority=priority), each) for (pool, priority), each in snapshot.waiting.items()]
    lengths = [(labels, each.gangs) for labels, each in rows]
    ages = [(labels, round(max(0.0, snapshot.now - each.since), 3)) for labels, each in rows]
    yield _Gauge("runrig_queue_gangs", "Gangs that wait, the nominated included.", lengths)
    yield _Gauge("runrig_queue_oldest_seconds", "Age of the gang that waits longest.", ages)


def _tree(snapshot: MonitorSnapshot) -> Iterable[_Gauge]:
    rows = [
        (_labels(node=share.node, kind=share.kind, flavor=share.key.flavor, resource=share.key.resource), share)
        for share in snapshot.shares
    ]
    nominal = [(labels, each.nominal) for labels, each in rows]
    usage = [(labels, each.usage) for labels, each in rows]
    headroom = [(labels, each.headroom) for labels, each in rows]
    yield _Gauge("runrig_quota_nominal", "What a node of the quota tree was promised.", nominal)
    yield _Gauge("runrig_quota_usage", "What all gangs below it hold.", usage)
    yield _Gauge(
        "runrig_quota_headroom",
        "What it may still use while others hold what they do; negative: over-committed.",
        headroom,
    )
