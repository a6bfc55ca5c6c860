"""A gang of the log, and the queues in which gangs wait."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

PENDING, NOMINATED, ADMITTED, STOPPING = "PENDING", "NOMINATED", "ADMITTED", "STOPPING"
RANKS = {"HIGH": 0, "NORMAL": 1, "LOW": 2}
Order = tuple[int, float, str]
NOBODY: Order = (len(RANKS), 0.0, "")
"""After all that wait."""
Placement = list[dict[str, Any]]


class Pods:
    """Pod sets, kept once for all gangs that request the same. *named*: name, count and least count of each pod set. *sizes*:
    the counts that law A1 allows, the full one first.
    """

    __slots__ = ("named", "needs", "sets", "sizes")

    def __init__(self, sets: list[dict[str, Any]]) -> None:
        self.sets = sets
        self.needs = [dict(each["requests"]) for each in sets]
        self.named = [(each["name"], each["count"], each.get("min_count")) for each in sets]
        ranges = [(count, count - (least or count)) for _, count, least in self.named]
        total = sum(width for _, width in ranges)
        self.sizes = [[count - width * step // max(1, total) for count, width in ranges] for step in range(total + 1)]


class Gang:
    """*order*: its position in the queue by P4, except for LOW that borrows. *state* None: it is not in the queue and holds nothing.

    *layers*: those in which it is charged. *since*, *size*: time and GPUs of its placement. *alike*: equal for gangs of one `Queue`.
    *holders*: whose GPUs W6 limits, the user in the top-level pool and in all pools. *scopes*: whose budget counts them (W7).
    *was*: the state in which it was queued again; None: in none. *asked*: the last placement for which its amounts of quota were
    computed, with the trees, and these.
    """

    __slots__ = (
        *("alike", "asked", "firm", "holders", "id", "layers", "order", "placement", "pool", "priority", "queue"),
        *("refused", "request", "requests", "scopes", "sets", "since", "size", "sizes", "state", "submitted"),
        *("targets", "user", "was", "workflow"),
    )

    def __init__(self, row: Mapping[str, Any], user: str, known: dict[str, Pods]) -> None:
        """*known*: by the text of the pod sets; gets those of *row*."""
        self.id: str = row["id"]
        self.user = user
        self.pool: str = row["pool"]
        self.submitted: float = row["submitted_at"]
        self.workflow = self.id.partition("/")[0]
        self.rank_as(row["priority"])
        self.queue: Queue
        self.was: str | None = None
        text = repr(row["pod_sets"])
        pods = known.get(text) or known.setdefault(text, Pods(row["pod_sets"]))
        self.alike = self.pool, self.priority, text
        self.sets, self.requests, self.request, self.sizes = pods.sets, pods.needs, pods.named, pods.sizes
        self.refused: bool = bool(row.get("refused"))
        self.state: str | None = PENDING
        self.placement: Placement = []
        self.asked: tuple[object, object, dict[str, int]] = (None, None, {})
        self.targets: tuple[str, ...] = ()
        self.size, self.since = 0, 0.0
        self.layers: tuple[int, ...] = ()
        self.holders, self.scopes = _whose(self.pool.partition("--")[0], user)

    def rank_as(self, priority: str) -> None:
        self.priority, self.firm = priority, priority != "LOW"
        self.order = RANKS[priority], self.submitted, self.id

    def gpus(self, counts: Sequence[int]) -> int:
        """*counts*: pods, one number per pod set."""
        return sum([count * need.get("gpu", 0) for count, need in zip(counts, self.requests, strict=True)])


@lru_cache(10_000)
def _whose(top: str, user: str) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    return ((top, user), ("", user)), (("pool", top), ("user", user))


class Full:
    """Needs of the full size of a gang in the nominal of its pool. *over*: `World.loosened` when that was more than is left."""

    def __init__(self, needs: list[Any]) -> None:
        self.needs, self.over = needs, -1


class Queue:
    """Gangs that are alike: of one pool and priority, with the same pods. *row*: those that wait, in order; *head*: the order of the first.

    The rest are answers that `Court` keeps.
    """

    def __init__(self, pool: str, *, firm: bool) -> None:
        self.pool, self.firm = pool, firm
        self.row: list[tuple[Order, Gang]] = []
        self.head = NOBODY
        self.at, self.ways, self.if_stopped, self.full = list[Any](), list[Any](), list[Any](), Full([])
        self.vain = self.stopped = -1


def counts_of(placement: Placement) -> list[int]:
    return [each["count"] for each in placement]


def counted(number: int, one: str) -> str:
    """``1 pod``, ``1,200 pods``."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"
