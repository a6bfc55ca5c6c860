"""The main loop: observe, decide, commit, apply; then sleep until the next event or deadline.

It never gives up: a failed round is logged and retried at growing intervals, while the server reports that it is not
ready.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from runrig.domain.budgets import HeldBefore, Scope
from runrig.domain.errors import FailedAt, ServerFault, Unavailable
from runrig.domain.nodes import Node
from runrig.domain.observed import Observation
from runrig.domain.plan import Plan, SetOwnerAside
from runrig.domain.shown.why import Standstill
from runrig.domain.value import at
from runrig.engine.lifecycle import workflows
from runrig.engine.state.state import State
from runrig.ports.backend import Backend, Desired
from runrig.ports.clock import Clock
from runrig.service.runtime.desired import Launches
from runrig.service.runtime.drain_sweep import DrainSweep
from runrig.service.runtime.metrics import Metrics
from runrig.service.runtime.transactor import ENGINE, Transactor

LONGEST_SLEEP_S = 3600.0
UNCOUNTED_S = 1.0
"""Seconds until the next try to begin to count a new budget, while usage is not known yet (rule W7)."""
FIRST_BACK_OFF_S = 0.1
LONGEST_BACK_OFF_S = 30.0

RESTS = 2.0
MOST_REST_S = 0.1
"""The loop pauses in proportion to the last round, up to this many seconds. The next round handles everything that
arrives in between, and requests get most of the processor. A busy server can delay an admission this long, an idle one
does not.
"""

SYNC_SHARE = 0.1
"""Share of a long cycle's time for sending earlier decisions to the backend between its parts."""

ASIDE_S = 300.0
"""Seconds after which a pause or budget that failed is tried again."""
MOST_ASIDE = 16
"""Pools and users set aside at a time (rule W8). If more fail, they are not the cause, and the round fails."""

LONGEST_PART_S = 15.0
"""Seconds without progress after which a round is stuck."""

FAULT = "internal error; see the server's log"

_log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class Reconciler:
    """*node_labels*: added to every observed node, overriding its own labels. *held_before*: what these budgets' pools and users have
    held this month; None: it is not known yet.
    """

    _transactor: Transactor
    _backend: Backend
    _clock: Clock
    _drain_sweep: DrainSweep
    _node_labels: Mapping[str, str]
    _metrics: Metrics
    _held_before: Callable[[Collection[Scope]], HeldBefore | None]
    _doubt: str | None = None
    _synced: int | None = None
    _sync_took_s: float = 0.0
    _progress: float | None = None
    """Time of the last progress in a round; None between rounds."""
    _nodes: tuple[Node, ...] | None = None
    _labelled_nodes: dict[str, tuple[Node, Node]] = field(default_factory=dict)
    """By name: the backend's node, and the same node with these labels."""
    _repeat_nodes: bool = False
    _aside: dict[Scope, float] = field(default_factory=dict)
    """Pools and users whose pause or budget failed, and when it is tried again."""
    _stopped: threading.Event = field(default_factory=threading.Event)
    failure: str | None = "the first round has not finished yet"
    """Why the last round failed; None if it did not."""
    standstill: Standstill | None = None
    """The same for users who are not administrators. *since*: the first of the failed rounds."""

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="reconciler", daemon=True)
        self._launches = Launches(queues=self._backend.queues)
        self._transactor.when_not_stored = self.wake

    # ------------------------------------------------------------ one round

    def round(self) -> bool:
        """Runs one round; returns True if anything was committed in the meantime. Raises any error."""
        self._progress = time.monotonic()
        try:
            self._note_clock()
            self._transactor.try_storing()
            if self._synced is None:
                self._sync()  # After a restart the backend must know the desired state before it reports.
            self._drain_sweep.sweep()
            self._aside = {owner: until for owner, until in self._aside.items() if until > self._clock.now()}
            with self._transactor.reading() as state:
                before, uncounted = state.revision, self._uncounted(state)
            self._cycle(self._held_before(uncounted) if uncounted else None)
            if (after := self._revision()) != self._synced:
                self._sync()
        finally:
            self._progress = None
        self.failure = self.standstill = None
        return after != before

    def _note_clock(self) -> None:
        """Logs when the system clock is no longer trusted, and when it is again."""
        doubt = self._clock.doubt
        if (doubt is None) != (self._doubt is None):
            _log.warning("event=clock_%s why=%r", "believed" if doubt is None else "doubted", doubt or self._doubt)
        self._doubt = doubt

    def _cycle(self, held: HeldBefore | None) -> None:
        """Runs all parts of one cycle. In a long one, the backend gets the first decisions while others are pending."""
        synced_at = time.monotonic()
        observed = self._observe()
        cycle = self._all_but_those_aside(observed if held is None else replace(observed, held=held))
        for plan in cycle:
            self._progress = now = time.monotonic()
            if plan.actions and (now - synced_at) * SYNC_SHARE >= self._sync_took_s:
                self._sync()
                synced_at = time.monotonic()
        self._repeat_nodes = False

    def _all_but_those_aside(self, observed: Observation) -> Iterator[Plan]:
        """A cycle. A pool or user whose pause or budget makes it fail stays as it is for a while (rule W8)."""
        while True:
            try:
                yield from self._transactor.cycle(replace(observed, aside=self._aside.keys()))
            except FailedAt as failed:
                if failed.owner is None or failed.owner in self._aside or len(self._aside) >= MOST_ASIDE:
                    raise
                self._aside[failed.owner] = self._clock.now() + ASIDE_S
                of, name = failed.owner
                _log.error("event=set_aside %s=%s error=%r", of, name, str(failed), exc_info=failed)
                with self._transactor.writing(ENGINE) as writing:
                    if failed.owner not in writing.state.budgets.aside:
                        writing.commit(Plan((SetOwnerAside(of, name, type(failed.__cause__).__name__),)))
            else:
                break
        self._metrics.aside.set(len(self._aside))

    def _uncounted(self, state: State) -> frozenset[Scope]:
        return frozenset(state.budgets.uncounted - self._aside.keys())

    def _revision(self) -> int:
        with self._transactor.reading() as state:
            return state.revision

    def _sync(self) -> None:
        began = time.monotonic()
        revision, desired = self._desired()
        self._backend.sync(desired)
        self._synced = revision
        self._sync_took_s = time.monotonic() - began

    def _desired(self) -> tuple[int, Desired]:
        """Returns the desired state and its revision. Sets aside a workflow that causes an error."""
        while True:
            try:
                with self._transactor.reading() as state:
                    return state.revision, self._launches.desired(state)
            except FailedAt as failed:
                self._transactor.set_aside(failed)

    @property
    def trouble(self) -> str | None:
        """Returns why nothing is decided; None if all is well. Does not wait."""
        progress = self._progress
        stuck_s = 0.0 if progress is None else time.monotonic() - progress
        return f"its scheduling loop has been stuck for {stuck_s:.0f} s" if stuck_s > LONGEST_PART_S else self.failure

    def _observe(self) -> Observation:
        """Returns the backend's observation, with its nodes until a round has processed them."""
        observed = self._backend.observe()
        if observed.nodes is not None:
            self._nodes = tuple(self._labelled(observed.nodes)) if self._node_labels else observed.nodes
            self._repeat_nodes = True
        if not self._repeat_nodes or self._nodes is None:
            return observed
        return replace(observed, nodes=self._nodes)

    def _labelled(self, nodes: Iterable[Node]) -> Iterator[Node]:
        """Yields the same object for an unchanged node, so that it need not be compared again."""
        before = self._labelled_nodes
        self._labelled_nodes = {}
        for node in nodes:
            known = before.get(node.name)
            if known is None or known[0] is not node:
                known = node, replace(node, labels={**node.labels, **self._node_labels})
            self._labelled_nodes[node.name] = known
            yield known[1]

    def sleep_s(self) -> float:
        """Returns seconds of the clock until the next deadline or sweep."""
        with self._transactor.reading() as state:
            deadline = workflows.next_deadline(state, self._aside.keys())
            longest_s = UNCOUNTED_S if self._uncounted(state) else ASIDE_S if self._aside else LONGEST_SLEEP_S
        left = (
            self._drain_sweep.due_in_s()
            if deadline is None
            else min(deadline - self._clock.now(), self._drain_sweep.due_in_s())
        )
        return min(longest_s, max(0.0, left))

    # ------------------------------------------------------------ the thread

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the current round has ended; tasks keep running."""
        self._stopped.set()
        self._backend.wake()
        if self._thread.ident is not None:
            self._thread.join()

    def wake(self) -> None:
        """Starts the next round immediately."""
        self._backend.wake()

    def _run(self) -> None:
        back_off_s = FIRST_BACK_OFF_S
        while not self._stopped.is_set():
            try:
                began = time.monotonic()
                changed = self.round()
                self._stopped.wait(min(MOST_REST_S, RESTS * (time.monotonic() - began)))
                if not changed:
                    self._backend.wait(self.sleep_s())
                back_off_s = FIRST_BACK_OFF_S
            except Exception as error:  # noqa: BLE001 - the loop must survive all errors
                self._failed(error, back_off_s)
                self._stopped.wait(back_off_s)
                back_off_s = min(2 * back_off_s, LONGEST_BACK_OFF_S)

    def _failed(self, error: Exception, back_off_s: float) -> None:
        unreachable = isinstance(error, Unavailable)
        since = at(self._clock.now()) if self.standstill is None else self.standstill.since
        told = str(error) if isinstance(error, (Unavailable, ServerFault)) else FAULT
        self.standstill = Standstill(since, told, unreachable)
        self.failure = f"{type(error).__name__}: {error}"
        self._metrics.failed_rounds.inc()
        self._synced, self._repeat_nodes = None, True
        _log.error(
            "event=round_failed retry_in_s=%s error=%r",
            back_off_s,
            self.failure,
            exc_info=None if unreachable else error,
        )
