"""Metrics: counters and times recorded as they happen, and gauges of the state, computed at each scrape.

One registry per server. Labels are pools, priorities, nodes of the quota tree, flavors, action kinds, rules and routes.
They are declared by the operator or known to this program; users, workflows and client input never become labels.
"""

import logging
import time
from collections import Counter as Amounts
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from runrig import __version__
from runrig.domain.plan import Admit, Preempt, law_of
from runrig.domain.usage import FLAVOR, MICROSECONDS, WORK, Key
from runrig.engine.explain.monitor_snapshot import MonitorSnapshot
from runrig.engine.state.state import State
from runrig.service.runtime import logs
from runrig.service.runtime.session_metrics import SessionMetrics
from runrig.service.runtime.writing import Revision

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_WAITS = (1, 10, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)

# They would add a useless second series to each counter.
disable_created_metrics()  # type: ignore[no-untyped-call] # untyped in the library

_log = logging.getLogger(__name__)

Source = Callable[[], tuple[MonitorSnapshot, bool, float]]
"""Returns the current numbers, whether the server is ready, and `Clock.difference_s`."""
Used = Callable[[], tuple[Mapping[Key, int], float]]
"""As `Follower.counters`."""


class Metrics:
    """The metrics of a server over all its terms as leader: *attach* at the start of a term, *detach* at its end."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry(auto_describe=False)
        gauge, counted = partial(Gauge, registry=registry), partial(Counter, registry=registry)
        timed = partial(Histogram, registry=registry, buckets=_SECONDS)
        build = gauge("runrig_build_info", "The version of this server; always 1.", ["version"])
        build.labels(__version__).set(1)
        self.cycle = timed("runrig_cycle_seconds", "Duration of one part of a scheduling cycle.")
        self._lock = timed("runrig_lock_seconds", "Time that the state lock was held.")
        self._longest = Longest()
        longest = "Longest time that the state lock was held, in the last five to ten minutes."
        gauge("runrig_lock_longest_seconds", longest).set_function(self._longest.seconds)
        self._commit = timed("runrig_commit_seconds", "Duration of one store transaction.")
        self._actions = counted("runrig_actions", "Actions committed, by kind: Admit, Preempt, Submit, ...", ["kind"])
        self._preemptions = counted(
            "runrig_preemptions", "Gangs preempted, by rule: R1 within the pool, R2 reclaimed.", ["law"]
        )
        waits = "Time from the submission of a gang to its admission."
        self._waits = timed("runrig_wait_seconds", waits, ["pool", "priority"], buckets=_WAITS)
        self.failed_rounds = counted("runrig_failed_rounds", "Scheduling rounds that failed and were retried.")
        self.aside = gauge(
            "runrig_budgets_set_aside", "Pools and users with a pause or budget that the server set aside."
        )
        self.notices = counted(
            "runrig_notices", "Attempts to deliver a notice, by result: delivered, failed, given_up.", ["result"]
        )
        self.pruned = counted("runrig_pruned_workflows", "Finished workflows removed after their retention.")
        self.answers = counted(
            "runrig_answers", "Queries of the state, by who answered: the mirror or the server.", ["by"]
        )
        self._failed_logins = counted("runrig_failed_logins", "Requests without a valid token.")
        self._requests = counted(
            "runrig_http_requests", "Responses, by route and status.", ["method", "route", "status"]
        )
        begun = "Time until a response begins."
        self._latency = timed("runrig_http_request_seconds", begun, ["method", "route"])
        self.sessions = SessionMetrics(registry)
        self._source: Source | None = None
        self._used: Used | None = None

    def attach(self, source: Source, used: Used | None = None) -> None:
        """Starts a term; *source* returns the numbers of its state, *used* those of usage."""
        self._source, self._used = source, used

    def detach(self) -> None:
        """Ends a term."""
        self._source = self._used = None

    def text(self) -> bytes:
        """Returns all metrics in the text format of Prometheus."""
        used = () if self._used is None else _of_usage(*self._used())
        return generate_latest(self.registry) + _written((*_of_state(self._source), *used))

    # ------------------------------------------------------------ what happens

    def lock_held(self, seconds: float) -> None:
        """Records for how many seconds the state lock was held."""
        self._lock.observe(seconds)
        self._longest.see(seconds)

    def stored(self, state: State, revisions: Iterable[Revision], seconds: float) -> None:
        """Records *revisions*, which led to *state* and were stored in one transaction of *seconds*."""
        self._commit.observe(seconds)
        for revision in revisions:
            logs.enter(revision.request)
            self._revision(state, revision, seconds)

    def _revision(self, state: State, revision: Revision, seconds: float) -> None:
        """Counts the actions and logs one line."""
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
        entry = state.ledger.entries.get(id)  # None if the gang also ended in this cycle.
        if entry is not None:
            waited = self._waits.labels(entry.gang.pool, entry.gang.priority.value)
            waited.observe(max(0.0, now - entry.gang.submitted_at))

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts a request. *route*: the template of the route, never the requested path."""
        self._requests.labels(method, route, str(status)).inc()
        self._latency.labels(method, route).observe(seconds)
        if status in (401, 429):
            self._failed_logins.inc()


class Longest:
    """The longest recorded time in the current five minutes and the previous five."""

    STRETCH_S = 300.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stretch = 0
        self._now = self._before = 0.0

    def see(self, seconds: float) -> None:
        self._go_on()
        self._now = max(self._now, seconds)

    def seconds(self) -> float:
        """Returns 0 if none was recorded."""
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
    """Its series: formatted labels and the value."""

    name: str
    about: str
    series: Sequence[tuple[str, float]]
    kind: str = "gauge"


def _written(gauges: Iterable[_Gauge]) -> bytes:
    """Returns *gauges* in the text format. Formatted by hand: a large tree has 10,000 series, and the library takes 20 us each."""
    lines: list[str] = []
    for gauge in gauges:
        lines += (f"# HELP {gauge.name} {gauge.about}", f"# TYPE {gauge.name} {gauge.kind}")
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
    yield _Gauge("runrig_queue_gangs", "Pending gangs, including nominated ones.", lengths)
    yield _Gauge("runrig_queue_oldest_seconds", "Age of the oldest pending gang.", ages)


def _tree(snapshot: MonitorSnapshot) -> Iterable[_Gauge]:
    rows = [
        (_labels(node=share.node, kind=share.kind, flavor=share.key.flavor, resource=share.key.resource), share)
        for share in snapshot.shares
    ]
    for name, about in (
        ("nominal", "Nominal quota of a node in the quota tree."),
        ("usage", "Usage by all gangs below it."),
        ("headroom", "Headroom of a node in the quota tree; negative: over-committed."),
    ):
        yield _Gauge(f"runrig_quota_{name}", about, [(labels, getattr(each, name)) for labels, each in rows])


# ---------------------------------------------------------------- usage


def _of_usage(sums: Mapping[Key, int], behind_s: float) -> Iterable[_Gauge]:
    """Series that were never above 0 are left out."""
    used, lost, held = Amounts[str](), Amounts[str](), Amounts[str]()
    for (table, *names, column), amount in sums.items():
        labels = dict(zip(("pool", "flavor"), names, strict=False))
        if column in ("held", "drawn", "borrowed"):
            used[_labels(**labels, kind="guaranteed")] += amount if column == "held" else -amount
        if table == WORK and column == "held":
            held[_labels(flavor=labels["flavor"], state="held")] += amount
        elif table == WORK and column.startswith("lost_"):
            lost[_labels(**labels, why=column.removeprefix("lost_"))] = amount
        elif table == FLAVOR and column != "capacity":
            held[_labels(flavor=names[0], state=column)] = amount
        elif column in ("drawn", "borrowed", "lent", "waited"):
            used[_labels(**labels, kind=column)] = amount
    for name, about, series in (
        ("usage", "GPU-seconds of pools: guaranteed, drawn from cohorts, borrowed, lent, waited.", used),
        ("lost", "GPU-seconds held by attempts that ended too early: preempted, other.", lost),
        ("flavor", "GPU-seconds of flavors: held, free, down, idle_asked (free while work waited).", held),
    ):
        rows = [(labels, amount / MICROSECONDS) for labels, amount in series.items() if amount > 0]
        yield _Gauge(f"runrig_{name}_gpu_seconds_total", about, rows, "counter")
    yield _Gauge("runrig_usage_behind_seconds", "How far usage is behind the event log.", [("", round(behind_s, 3))])
