"""The queue: gangs as the ledger keeps them, and buckets of gangs that get the same answer, in the order of law P4."""

from typing import NamedTuple

from runrig.domain.gangs import Gang, GangState, Law, Placement, Requirement
from runrig.domain.pools import Pool
from runrig.domain.quantities import Requests
from runrig.engine.nodes.topology import Ints, TopologyIndex
from runrig.engine.quota.quota_node import QuotaLeaf, Request

Order = tuple[int, float, str]
"""Place in the order of law P4: higher rank, earlier submission, id; lower comes first."""

Option = tuple[Placement, Request]
"""A choice of flavors, without nodes, and what it asks of the tree."""


class BucketKey(NamedTuple):
    """Gangs that get the same answer: same leaf, same rank, same shape, and all of them or none to be tried (law T7)."""

    pool: str
    firm: bool
    rank: int
    shape: tuple[tuple[int, int | None, Requests, str | None, tuple[Requirement, ...]], ...]
    refused: bool = False


class Bucket:
    """The gangs of one key that wait, in order.

    *counts*: pods per pod set of the full gang.  *parked*: the ledger's generation when its head found no place.
    *options*: what the full gang may take, with what that asks of the tree; *options_of*: what they were worked out from: the leaf,
    what it counts, the pool, and the name of the pod set.
    """

    __slots__ = ("counts", "firm", "key", "options", "options_of", "parked", "pool", "rank", "waiting")

    def __init__(self, key: BucketKey) -> None:
        self.key = key
        self.pool, self.firm, self.rank, *_ = key
        self.counts = tuple(count for count, *_ in key.shape)
        self.waiting: list[tuple[Order, Entry]] = []
        self.parked: int | None = None
        self.options: tuple[Option, ...] = ()
        self.options_of: tuple[QuotaLeaf, frozenset[str], Pool, str] | None = None


class Holdings(NamedTuple):
    """What a gang holds on nodes, as columns: one row per node.  Valid while the gang has *placement* and *topology* stands.

    *columns*: first the node's index in *topology*, -1 if it is not in it, then the amount of each of *resources*, which are sorted.
    *size*: pods and GPUs of the whole gang.
    """

    topology: TopologyIndex
    placement: Placement
    resources: tuple[str, ...]
    columns: Ints
    size: tuple[int, int]


class Entry:
    """A gang in the ledger.  *charged*, *held*: whether it counts in the layer CHARGED, REAL.

    *holdings*: a cache of `preemption.held_by_domain`, None until it asks.
    """

    __slots__ = (
        "admitted_at",
        "bucket",
        "charged",
        "gang",
        "held",
        "holdings",
        "law",
        "order",
        "placement",
        "preempted_by",
        "request",
        "state",
        "waits_for",
    )

    def __init__(self, gang: Gang) -> None:
        self.gang = gang
        self.state = GangState.PENDING
        shape = tuple(
            (each.count, each.min_count, each.requests, each.platform, each.topology) for each in gang.pod_sets
        )
        self.bucket = Bucket(
            BucketKey(gang.pool, not gang.priority.may_borrow, gang.priority.rank, shape, bool(gang.refused))
        )
        self.order: Order = (-self.bucket.rank, gang.submitted_at, gang.id)
        self.placement: Placement = ()
        self.request: Request = ()
        self.holdings: Holdings | None = None
        self.waits_for: tuple[str, ...] = ()
        self.admitted_at: float | None = None
        self.preempted_by: str | None = None
        self.law: Law | None = None
        self.charged = False
        self.held = False

    @property
    def preemption_key(self) -> tuple[int, float, str]:
        """Who goes first among candidates of one place (law R3): lower priority, later start, id."""
        return (self.bucket.rank, -(self.admitted_at or 0.0), self.gang.id)
