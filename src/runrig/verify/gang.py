"""One gang of the log."""

from collections.abc import Mapping
from typing import Any

PENDING, NOMINATED, ADMITTED, STOPPING = "PENDING", "NOMINATED", "ADMITTED", "STOPPING"
RANKS = {"HIGH": 0, "NORMAL": 1, "LOW": 2}
Placement = list[dict[str, Any]]


class Gang:
    """*order*: its position in the queue by P4, except for LOW that borrows. *state* None: it is not in the queue and holds nothing.

    *layers*: those in which it is charged. *since*: time of its placement.
    *amounts*: what it needs of quota; None: not computed yet.
    """

    def __init__(self, row: Mapping[str, Any], user: str = "") -> None:
        self.id: str = row["id"]
        self.user = user
        self.pool: str = row["pool"]
        self.submitted: float = row["submitted_at"]
        self.workflow = self.id.partition("/")[0]
        self.sets: list[dict[str, Any]] = row["pod_sets"]
        self.rank_as(row["priority"])
        self.refused: bool = bool(row.get("refused"))
        self.requests = [dict(each["requests"]) for each in self.sets]
        self.counts = [each["count"] for each in self.sets]
        self.request = [(each["name"], each["count"], each.get("min_count")) for each in self.sets]
        self.state: str | None = PENDING
        self.placement: Placement = []
        self.amounts: dict[str, int] | None = None
        self.targets: tuple[str, ...] = ()
        self.since = 0.0
        self.layers: tuple[int, ...] = ()

    def rank_as(self, priority: str) -> None:
        self.priority, self.firm = priority, priority != "LOW"
        self.order = RANKS[priority], self.submitted, self.id
        self.bucket = self.pool, priority, repr(self.sets)
