"""A gang of the log, and the queues in which gangs wait."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

PENDING, NOMINATED, ADMITTED, STOPPING = "PENDING", "NOMINATED", "ADMITTED", "STOPPING"
RANKS = {"HIGH": 0, "NORMAL": 1, "LOW": 2}
Placement = list[dict[str, Any]]


class Gang:
    """*order*: its position in the queue by P4, except for LOW that borrows. *state* None: it is not in the queue and holds nothing.

    *layers*: those in which it is charged. *since*, *size*: time and GPUs of its placement. *alike*: equal for gangs of one `Queue`.
    *holders*: whose GPUs W6 limits, the user in the top-level pool and in all pools. *scopes*: whose budget counts them (W7).
    *asked*: the last placement for which its amounts of quota were computed, with the trees, and these.
    """

    def __init__(self, row: Mapping[str, Any], user: str) -> None:
        self.id: str = row["id"]
        self.user = user
        self.pool: str = row["pool"]
        self.submitted: float = row["submitted_at"]
        self.workflow = self.id.partition("/")[0]
        self.sets: list[dict[str, Any]] = row["pod_sets"]
        self.rank_as(row["priority"])
        self.queue: Queue
        self.alike = self.pool, self.priority, repr(self.sets)
        self.refused: bool = bool(row.get("refused"))
        self.requests = [dict(each["requests"]) for each in self.sets]
        self.request = [(each["name"], each["count"], each.get("min_count")) for each in self.sets]
        self.state: str | None = PENDING
        self.placement: Placement = []
        self.asked: tuple[object, object, dict[str, int]] = (None, None, {})
        self.targets: tuple[str, ...] = ()
        self.size, self.since = 0, 0.0
        self.layers: tuple[int, ...] = ()
        top = self.pool.partition("--")[0]
        self.holders = (top, user), ("", user)
        self.scopes = ("pool", top), ("user", user)

    def rank_as(self, priority: str) -> None:
        self.priority, self.firm = priority, priority != "LOW"
        self.order = RANKS[priority], self.submitted, self.id

    @cached_property
    def sizes(self) -> list[list[int]]:
        """The counts that law A1 allows, the full one first."""
        ranges = [(count, count - (least or count)) for _, count, least in self.request]
        total = sum(width for _, width in ranges)
        return [[count - width * step // max(1, total) for count, width in ranges] for step in range(total + 1)]

    def gpus(self, counts: Sequence[int]) -> int:
        """*counts*: pods, one number per pod set."""
        return sum([count * need.get("gpu", 0) for count, need in zip(counts, self.requests, strict=True)])


class Full:
    """Needs of the full size of a gang in the nominal of its pool. *over*: `World.loosened` when that was more than is left."""

    def __init__(self, needs: list[Any]) -> None:
        self.needs, self.over = needs, -1


class Queue:
    """Gangs that are alike: of one pool and priority, with the same pods. *row*: those that wait, in order.

    The rest are answers that `Court` keeps.
    """

    def __init__(self, pool: str, *, firm: bool) -> None:
        self.pool, self.firm = pool, firm
        self.row: list[tuple[tuple[int, float, str], Gang]] = []
        self.at, self.ways, self.if_stopped, self.full = list[Any](), list[Any](), list[Any](), Full([])
        self.vain = self.stopped = -1


def counts_of(placement: Placement) -> list[int]:
    return [each["count"] for each in placement]


def counted(number: int, one: str) -> str:
    """``1 pod``, ``1,200 pods``."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"
