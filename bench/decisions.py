"""The scenarios with a reference figure.  Each checks the decisions, so that a wrong answer cannot pass as a fast one."""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from bench.world import gang, queue, thousand_pools, timed_cycle
from runrig.domain.gangs import Priority
from runrig.domain.plan import Admit, Decision, Nominate, Preempt


def admit_10k() -> float:
    """Ten cycles with one gang per pool: 10,000 gangs of one GPU that all fit.  Per pool, 8 start on the first flavor and 2 on
    the second.
    """
    ledger, pools = thousand_pools()
    total, flavors = 0.0, Counter[str]()
    for at in range(10):
        queue(ledger, (gang(f"w{at}{each:03}", pools[each], Priority.NORMAL, at) for each in range(1000)))
        gc.collect()  # the setup's garbage must not be collected during measured cycles
        seconds, made = timed_cycle(ledger, at)
        total += seconds
        flavors.update(_flavors(made))
    assert flavors == {"a100": 8000, "h100": 2000}, flavors
    return total


def nofit() -> float:
    """One cycle over 1000 heads that neither fit nor can preempt: every pool is full of its own NORMAL gangs."""
    ledger, pools = thousand_pools()
    queue(ledger, (gang(f"w{each:05}", pools[each % 1000], Priority.NORMAL, each) for each in range(16_000)))
    _, full = timed_cycle(ledger, 0)
    assert Counter(_flavors(full)) == {"a100": 8000, "h100": 8000}
    queue(ledger, (gang(f"x{each:05}", pools[each], Priority.NORMAL, each) for each in range(1000)))
    gc.collect()  # the setup's garbage must not be collected during measured cycles
    seconds, made = timed_cycle(ledger, 1)
    assert (made, sum(len(bucket.waiting) for bucket in ledger.pending.values())) == ([], 1000)
    return seconds


def reclaim(heads: int) -> float:
    """One cycle with *heads* gangs of 8 GPUs whose pools lent all of their quota: each reclaims it from eight LOW gangs.

    Even pools use 32 LOW gangs of one GPU, twice their quota; odd pools use nothing and reclaim theirs.
    """
    ledger, pools = thousand_pools()
    queue(ledger, (gang(f"w{each:05}", pools[2 * (each % 500)], Priority.LOW, each) for each in range(16_000)))
    _, lent = timed_cycle(ledger, 0)
    assert Counter(_flavors(lent)) == {"a100": 8000, "h100": 8000}
    preemptors = [pools[1 + 2 * (each * (500 // heads))] for each in range(heads)]
    queue(ledger, (gang(f"x{at:05}", pool, Priority.NORMAL, at, 8) for at, pool in enumerate(preemptors)))
    gc.collect()  # the setup's garbage must not be collected during measured cycles
    seconds, made = timed_cycle(ledger, 1)
    assert Counter(type(each) for each in made) == {Nominate: heads, Preempt: 8 * heads}, len(made)
    targets = [each.gang for each in made if isinstance(each, Preempt)]
    assert len(set(targets)) == 8 * heads, "no gang is preempted twice"
    return seconds


def _flavors(made: Iterable[Decision]) -> list[str]:
    return [each.placement[0].flavor for each in made if isinstance(each, Admit)]


SCENARIOS: Mapping[str, Callable[[], float]] = {
    "Q1_admit10k": admit_10k,
    "Q2_nofit": nofit,
    "Q3_reclaim_1": partial(reclaim, 1),
    "Q3_reclaim_10": partial(reclaim, 10),
    "Q3_reclaim_100": partial(reclaim, 100),
}
"""Name, as in `reference` → seconds of one run."""
