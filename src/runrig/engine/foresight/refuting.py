"""Necessary conditions for a start in the next cycle: if one does not hold, no cycle has to be run.

Judged for the minimum size that the gang accepts (rule A1), assuming that everything that can stop in a cycle has stopped.
Usage remains during a cycle, so LOW work needs room that is free now. Guaranteed work needs its guarantee (rule P2), and nodes
that are large enough or, if nothing can be preempted, have room now.
"""

from runrig.domain.quantities import LARGEST
from runrig.domain.steps import Steps
from runrig.engine.ledger.fit import counts_for, may_lie
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import options
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.node_capacity import EMPTY
from runrig.engine.placement.partial import least_counts
from runrig.engine.quota.limits import promises
from runrig.engine.quota.quota_node import REAL, NodeKind, QuotaLeaf, Request, headroom

NEVER = LARGEST
"""No amount of quota would be enough."""


def lacks(ledger: Ledger, entry: Entry) -> int:
    """The minimum number of missing units of quota, for the best choice of flavors; 0: it may start, as far as is known.

    NEVER: no choice of flavors has nodes that could hold it.
    """
    leaf = ledger.leaf(entry)
    if not leaf.active:
        return NEVER
    least = least_counts(entry.gang.pod_sets)
    choices, layers = options(ledger, entry, least, mixed=True), (_layer(ledger, entry),)
    short = (_short(ledger, leaf, request) for choice, request in choices if may_lie(ledger, entry, choice, layers))
    return min(short, default=NEVER)


def counts_asked(ledger: Ledger, entry: Entry) -> Steps[None]:
    """Counts in steps what `lacks` reads from the nodes."""
    choice = next(iter(options(ledger, entry, least_counts(entry.gang.pod_sets))), None)
    if choice is not None:
        yield from counts_for(ledger, entry, choice[0], (_layer(ledger, entry),))


def _short(ledger: Ledger, leaf: QuotaLeaf, request: Request) -> int:
    if leaf.kind is NodeKind.LOW:
        return max(0, *(amount - headroom(leaf, index, REAL) for index, amount in request), 0)
    if ledger.nominated or ledger.stopping:
        return 0  # unknown: a nomination may be dropped, or a stopping gang may free enough
    return max(0, *(amount - left for index, amount in request for _, left in promises(leaf, index)), 0)


def _layer(ledger: Ledger, entry: Entry) -> int:
    return EMPTY if entry.bucket.firm and not ledger.settled else REAL
