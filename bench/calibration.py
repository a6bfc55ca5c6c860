"""A fixed loop of tree arithmetic without an engine, so that machines can be compared.

One decision of the loop: for each of three resources, compare the amount at every node from a leaf to the root, then charge every
node.  The tree has the shape of the scenarios: seven nodes per path, 1000 leaves, and 25, 5 and 1 nodes above them.
"""

from collections.abc import Callable
from time import perf_counter

DECISIONS = 10_000
NOMINAL_S = 0.020
"""Speed of the loop on the machine to which figures are normalised: 500,000 decisions a second."""

ASKED = ((0, 4000), (1, 1), (2, 32))
LEVELS = (1, 1, 5, 25, 125, 1000, 1000)
ROOM = 1 << 60


def paths() -> list[tuple[list[int], ...]]:
    """Per leaf, the usage of the nodes from the leaf up."""
    levels = [[[0, 0, 0] for _ in range(size)] for size in LEVELS]
    return [
        tuple(level[leaf * size // LEVELS[-1]] for level, size in reversed(list(zip(levels, LEVELS, strict=True))))
        for leaf in range(LEVELS[-1])
    ]


def decide(leaves: list[tuple[list[int], ...]]) -> int:
    """Number of positive decisions."""
    yes = 0
    for decision in range(DECISIONS):
        path = leaves[decision % len(leaves)]
        for index, amount in ASKED:
            for usage in path:
                if usage[index] + amount > ROOM:
                    break
            for usage in path:
                usage[index] += amount
        yes += 1
    return yes


def once(clock: Callable[[], float] = perf_counter) -> float:
    """Seconds of one loop, by *clock*."""
    leaves = paths()
    start = clock()
    assert decide(leaves) == DECISIONS
    return clock() - start
