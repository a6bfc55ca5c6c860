"""Which events of the cluster a user asked for, and what each event is about."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from runrig.domain.errors import NotFound
from runrig.domain.gangs import Placement
from runrig.domain.plan import Admit, DropNode, Nominate, PutNode, Reassign, Replace, Submit
from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.records import Event
from runrig.domain.subjects import workflow_of
from runrig.ports.store import Store
from runrig.service.queries.event_kinds import Kind, actions_of, is_of
from runrig.service.runtime.transactor import APPLY

_MOST_OWNERS = 20_000
_STEP_S = 1e-6
"""Times are whole microseconds."""
_PLACED = (Admit.__name__, Replace.__name__)


@dataclass(frozen=True, slots=True)
class EventFilter:
    """By default, all events.

    *since*, *until*: seconds since the epoch, inclusive. *pool*: with its subpools. *kinds*: empty means every kind.
    *user*: what they did, and what happened to workflows that they submitted. *node*: the node itself, and workflows
    that run or last ran on it. *workflow*: an id.
    """

    since: float | None = None
    until: float | None = None
    pool: str | None = None
    kinds: frozenset[Kind] = frozenset()
    user: str | None = None
    node: str | None = None
    workflow: str | None = None

    @property
    def actions(self) -> tuple[str, ...]:
        """Returns the names of all actions that can match; empty if any can."""
        return actions_of(self.kinds)

    def span(self, store: Store, after: int, newest: int) -> tuple[int, int]:
        """Returns the revisions between which events match: after the first, up to the second. O(log(revisions))."""
        if self.since is not None:
            begin = store.past.at_time(self.since - _STEP_S)
            after = max(after, 0 if begin is None else begin.revision)
        if self.until is not None:
            end = store.past.at_time(self.until)
            newest = min(newest, 0 if end is None else end.revision)
        return after, newest

    def takes(self, event: Event) -> bool:
        """Whether time, kind and workflow of *event* match; the rest requires a lookup (`Subjects.matches`)."""
        early = self.since is not None and event.time < self.since
        late = self.until is not None and event.time > self.until
        other = self.workflow is not None and workflow_of(event.action) != self.workflow
        return not (early or late or other) and is_of(event.action, self.kinds)

    def takes_pool(self, pool: str | None) -> bool:
        return self.pool is None or (pool is not None and self.pool in (pool, pool.partition(SUBPOOL_DELIMITER)[0]))


EVERYTHING = EventFilter()


class Owner(NamedTuple):
    """Where a workflow belongs. *user*: who submitted it."""

    pool: str
    user: str


@dataclass(slots=True)
class Placements:
    """Where gangs were placed, for one page of events. Reads the placements of a workflow once: O(its starts)."""

    store: Store
    _of: dict[str, tuple[Event, ...]] = field(default_factory=dict)

    def nodes(self, event: Event) -> frozenset[str]:
        """Returns the nodes that *event* is about: the node itself, or where its gang or workflow was placed last."""
        action = event.action
        if isinstance(action, PutNode):
            return frozenset({action.node.name})
        if isinstance(action, DropNode):
            return frozenset({action.name})
        if isinstance(action, Admit | Replace | Nominate):
            return _nodes(action.placement)
        workflow = workflow_of(action)
        return frozenset() if workflow is None else self._last(workflow, event)

    def _last(self, workflow: str, event: Event) -> frozenset[str]:
        if workflow not in self._of:
            self._of[workflow] = self.store.log.events(workflow=workflow, actions=_PLACED)
        last: dict[str, Placement] = {}
        for placed in self._of[workflow]:
            if (placed.revision, placed.seq) > (event.revision, event.seq):
                break
            assert isinstance(placed.action, Admit | Replace)
            last[placed.action.gang] = placed.action.placement
        gang = getattr(event.action, "gang", None)
        about = [last[gang]] if isinstance(gang, str) and gang in last else last.values()
        return frozenset().union(*map(_nodes, about))


class Subjects:
    """Pools and users of workflows; caches the latest, because every event needs one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owners: OrderedDict[str, Owner] = OrderedDict()

    def pool(self, workflow: str) -> str | None:
        """Returns None if it was deleted by retention."""
        owner = self.owner(workflow)
        return None if owner is None else owner.pool

    def owner(self, workflow: str, event: Event | None = None) -> Owner | None:
        """Returns the owner at *event* of the workflow; None if retention deleted the workflow."""
        if event is not None and isinstance(event.action, Submit):
            submitted = event.action.workflow
            return self._remember(workflow, Owner(submitted.pool, submitted.submitted_by))
        known = self._owners.get(workflow) or self._stored(workflow)
        if known is not None and event is not None and isinstance(event.action, Reassign):
            return self._remember(workflow, known._replace(pool=event.action.pool))
        return known

    def matches(self, event: Event, owner: Owner | None, query: EventFilter, placements: Placements) -> bool:
        """Whether user and node of *event* match *query*."""
        people = {event.actor, event.actor.removeprefix(APPLY), owner.user if owner else None}
        if query.user is not None and query.user not in people:
            return False
        return query.node is None or query.node in placements.nodes(event)

    def _stored(self, workflow: str) -> Owner | None:
        try:
            head = self._store.head(workflow)
        except NotFound:
            return None
        return self._remember(workflow, Owner(head.pool, head.submitted_by))

    def _remember(self, workflow: str, owner: Owner) -> Owner:
        self._owners[workflow] = owner
        while len(self._owners) > _MOST_OWNERS:
            self._owners.popitem(last=False)
        return owner


def _nodes(placement: Placement) -> frozenset[str]:
    return frozenset(share.node for assignment in placement for share in assignment.shares)
