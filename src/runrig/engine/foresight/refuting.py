"""Necessary conditions of a start in the next cycle: where one does not hold, no cycle has to be run.

Judged for the least size that the gang accepts (law A1), with all that may go in a cycle taken as gone: what is held stays held in
a cycle, so LOW work needs the room that is there now; firm work needs its promise (law P2), and nodes that are large enough, or
that have room now where nobody can be stopped for it.
"""

from runrig.domain.gangs import Placement
from runrig.domain.quantities import LARGEST
from runrig.domain.steps import Steps
from runrig.engine.ledger.fit import counts_for
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.options import options, pod_requests
from runrig.engine.ledger.queue import Entry
from runrig.engine.nodes.node_capacity import EMPTY
from runrig.engine.placement.partial import least_counts
from runrig.engine.placement.place import unmet_need
from runrig.engine.quota.quota_node import REAL, Kind, QuotaLeaf, Request, headroom, left_for_firm, left_of_promise

NEVER = LARGEST
"""No amount of quota would do."""


def lacks(ledger: Ledger, entry: Entry) -> int:
    """How many units of quota are missing at least, in the choice of flavors that lacks fewest; 0: it may start, as far as is known.

    NEVER: no choice of flavors has nodes that could hold it.
    """
    leaf = ledger.leaf(entry)
    if not leaf.active:
        return NEVER
    least = least_counts(entry.gang.pod_sets)
    choices = options(ledger, entry, least, mixed=True)
    short = (_short(ledger, leaf, request) for choice, request in choices if _may_lie(ledger, entry, choice))
    return min(short, default=NEVER)


def counts_asked(ledger: Ledger, entry: Entry) -> Steps[None]:
    """Counts in steps what `lacks` reads of the nodes."""
    choice = next(iter(options(ledger, entry, least_counts(entry.gang.pod_sets))), None)
    if choice is not None:
        yield from counts_for(ledger, entry, choice[0], (_layer(ledger, entry),))


def _short(ledger: Ledger, leaf: QuotaLeaf, request: Request) -> int:
    if leaf.kind is Kind.LOW:
        return max(0, *(amount - headroom(leaf, index, REAL) for index, amount in request), 0)
    if ledger.nominated or ledger.stopping:
        return 0  # a nomination may be given up, or somebody that stops be counted on
    short = [amount - left_of_promise(leaf, index) for index, amount in request]
    short += [amount - left_for_firm(pool, index) for pool in leaf.pools_above for index, amount in request]
    return max(0, *short, 0)


def _may_lie(ledger: Ledger, entry: Entry, choice: Placement) -> bool:
    if not ledger.place:
        return True
    constraints = ledger.constraints(entry, tuple(each.count for each in choice))
    requests, layers = pod_requests(entry, choice), (_layer(ledger, entry),)
    return constraints is not None and unmet_need(ledger.nodes, requests, layers, constraints) is None


def _layer(ledger: Ledger, entry: Entry) -> int:
    return EMPTY if entry.bucket.firm and not ledger.settled else REAL
