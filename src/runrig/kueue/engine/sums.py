"""Finds preemption targets by arithmetic: candidates are added to and subtracted from sums, and the trees stay
unchanged.

This is enough where no borrowing limit applies between the preemptor and its root, and no lending limit anywhere in the
tree. Then only three numbers matter: the free quota of the tree, the unused nominal quota of the preemptor's queue, and
by how much others exceed their nominal quota.
"""

from collections.abc import Collection, Iterable, Sequence

from runrig.engine.quota.quota_node import CHARGED, QuotaLeaf, QuotaNode, Request
from runrig.kueue.engine.workload import WorkloadTarget

Left = dict[int, int]
"""Index → the amount left after the request; negative if it is missing."""


def left_in_tree(leaf: QuotaLeaf, request: Request) -> Left:
    """The amounts left in the whole tree of *leaf* after *request*, by CHARGED."""
    root = leaf.path[-1]
    usage, subtree = root.usage[CHARGED], root.subtree
    return {index: subtree[index] - usage[index] - amount for index, amount in request}


def needed(taken: Sequence[WorkloadTarget], left: Left, mine: QuotaLeaf, own: Left) -> list[WorkloadTarget]:
    """The workloads of *taken* that must stop; the last one always does.

    The others are checked from last to first, and kept running if the preemptor still fits without stopping them.
    *left*, *own*: the amounts left in the tree and in the preemptor's queue *mine* if all of *taken* stop; modified.
    """
    stay = [*taken[-1:]]
    for target in reversed(taken[:-1]):
        leaf, held = target.workload.leaf, target.workload.request
        sums = (left, own) if own and leaf is mine else (left,)
        if _lacks(sums, held):
            stay.append(target)
            continue
        for each in sums:
            _add(each, held, -1)
    stay.reverse()
    return stay


def _lacks(sums: Iterable[Left], held: Request) -> bool:
    """Whether one of *sums* is less than *held*."""
    for each in sums:
        for index, amount in held:
            if amount > each.get(index, amount):
                return True
    return False


def _add(left: Left, held: Request, sign: int) -> None:
    for index, amount in held:
        if index in left:
            left[index] += sign * amount


class Sums:
    """The sums of one search, for the preemptor at *leaf*. *contested*: the indices of *request* that need preemption."""

    __slots__ = ("_between", "_contested", "_excess", "_leaf", "_over", "_request")

    def __init__(self, leaf: QuotaLeaf, request: Request, contested: Collection[int]) -> None:
        self._leaf = leaf
        self._request = request
        self._contested = contested
        self._excess: dict[QuotaNode, Left] = {}
        self._between: dict[QuotaNode, list[Left]] = {}
        self._over: dict[QuotaNode, bool] = {}

    def over(self, leaf: QuotaNode) -> bool:
        """True if, without the targets taken, *leaf* and all its ancestors below the common cohort exceed their nominal
        quota.
        """
        known = self._over.get(leaf)
        if known is None:
            between = self._between.get(leaf)
            if between is None:
                between = self._between[leaf] = self._excesses(leaf)
            known = self._over[leaf] = min([max(excess.values()) for excess in between], default=1) > 0
        return known

    def _excesses(self, leaf: QuotaNode) -> list[Left]:
        """By how much each node exceeds its nominal quota, from *leaf* up to just below the common cohort. Leaves share
        the entries.
        """
        found, above = [], self._leaf.path
        for node in leaf.path:
            if node in above:
                break
            excess = self._excess.get(node)
            if excess is None:
                usage, subtree = node.usage[CHARGED], node.subtree
                excess = self._excess[node] = {index: usage[index] - subtree[index] for index in self._contested}
            found.append(excess)
        return found

    def targets(self, candidates: Iterable[WorkloadTarget], *, within_nominal: bool) -> list[WorkloadTarget]:
        """The minimal set of *candidates* to stop so that the request fits; empty if it never does.

        *candidates* is read lazily, because the next candidate may depend on those already taken.
        *within_nominal*: the preemptor's queue must also stay within its nominal quota.
        """
        mine, left = self._leaf, left_in_tree(self._leaf, self._request)
        own: Left = {}
        if within_nominal:
            usage, nominal = mine.usage[CHARGED], mine.nominal
            own = {index: nominal[index] - usage[index] - amount for index, amount in self._request}
        taken: list[WorkloadTarget] = []
        last: Request = ()
        gives: list[tuple[int, int]] = []
        all_give = True
        for target in candidates:
            taken.append(target)
            workload = target.workload
            leaf, held = workload.leaf, workload.request
            if held is not last:  # workloads with equal usage share the object
                last, gives = held, [each for each in held if each[0] in left]
                all_give = all_give and bool(gives)
            between = self._between.get(leaf, ())
            for index, amount in gives:
                left[index] += amount
                for excess in between:
                    if index in excess:
                        excess[index] = rest = excess[index] - amount
                        if rest <= 0:
                            self._over.clear()
            if own and leaf is mine:
                _add(own, held, 1)
            if min(left.values()) >= 0 and (not own or min(own.values()) >= 0):
                exact = all_give and not any(left.values())  # all of them are needed
                return taken if exact else needed(taken, left, mine, own)
        for known in (self._excess, self._between, self._over):
            known.clear()
        return []
