"""The quota that a preemptor lacks, limit by limit, and how much of it each candidate could free (rule T4).

Amounts are capped at LARGEST so that columns can hold them. A candidate that frees enough still does.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from runrig.domain.quantities import LARGEST
from runrig.engine.ledger.candidate_columns import CandidateColumns
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.topology import Ints
from runrig.engine.quota.guarantees import nodes_under
from runrig.engine.quota.limits import ceilings
from runrig.engine.quota.quota_node import NodeKind, QuotaNode, Request

Limit = tuple[int, QuotaNode]
"""An index of the quota tree, and an ancestor that limits it."""

NEVER = 1 << 62
"""Stands for the number of gangs that must stop if each frees nothing."""


class QuotaLacks:
    """*amounts*: by how much the request exceeds what each limit leaves now, for limits that it exceeds.

    *given*: one row per candidate: the most that stopping it frees at each of these limits.
    """

    def __init__(self, ledger: Ledger, entry: Entry, request: Request, candidates: Ints) -> None:
        """*candidates*: as slots of `Ledger.candidates`."""
        lacks = _lacks(ledger, entry, request)
        self.amounts = tuple(lacks.values())
        self.given = _most_given(ledger.candidates, candidates, tuple(lacks))

    def least(self) -> int | None:
        """A lower bound of the gangs that must stop for the quota alone; None if all together are not enough."""
        least = 0
        for given, lack in zip(self.given.T, self.amounts, strict=True):
            count = _least_count(sorted(given.tolist(), reverse=True), lack)
            if count is None:
                return None
            least = max(least, count)
        return least

    def enough(self) -> NDArray[np.bool_]:
        """Per candidate, whether it may be enough alone."""
        enough: NDArray[np.bool_] = np.all(self.given >= np.array(self.amounts, dtype=np.int64), axis=1)
        return enough

    def useful(self, standing: Ints) -> list[int]:
        """The candidates that free anything, those that free most first: fewer of them would be enough. Ties by
        *standing*.
        """
        if not self.amounts:
            return []
        few = np.where(self.given > 0, -(-np.array(self.amounts) // np.maximum(self.given, 1)), NEVER).max(axis=1)
        order = np.lexsort((standing, few))
        useful: list[int] = order[self.given[order].any(axis=1)].tolist()
        return useful


def _lacks(ledger: Ledger, entry: Entry, request: Request) -> dict[Limit, int]:
    leaf = ledger.leaf(entry)
    lacks = {(index, node): amount - left for index, amount in request for node, left in ceilings(leaf, index)}
    return {limit: min(lack, LARGEST) for limit, lack in lacks.items() if lack > 0}


def _most_given(columns: CandidateColumns, candidates: Ints, limits: Sequence[Limit]) -> Ints:
    """A node gains at most what is freed below it, so candidates elsewhere count 0."""
    given = np.zeros((len(candidates), len(limits)), dtype=np.int64)
    request, pool = columns.request[candidates], columns.pool[candidates]
    for at, (index, node) in enumerate(limits):
        amounts = np.array([min(dict(each).get(index, 0), LARGEST) for each in columns.requests], dtype=np.int64)
        given[:, at] = amounts[request]
        if node.parent is not None:
            below = {each.name for each in nodes_under(node) if each.kind is NodeKind.LOW}
            given[:, at] *= np.array([name in below for name in columns.pools], dtype=np.bool_)[pool]
    return given


def _least_count(amounts: Sequence[int], needed: int) -> int | None:
    """How many of *amounts*, sorted largest first, add up to *needed*; None if all together do not."""
    for count, amount in enumerate(amounts, start=1):
        needed -= amount
        if needed <= 0:
            return count
    return None
