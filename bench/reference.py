"""The figures to compare with: milliseconds, the minimum of several runs of a compiled scheduler (Go, two cores)."""

from collections.abc import Mapping
from typing import NamedTuple

NAME = "reference (Go, 2 cores)"
TARGET = 3
"""The goal is the reference's time divided by this."""

MILLISECONDS: Mapping[str, float] = {
    "Q1_admit10k": 992.0,
    "Q2_nofit": 99.6,
    "Q3_reclaim_1": 5.6,
    "Q3_reclaim_10": 13.6,
    "Q3_reclaim_100": 200.0,
}

IMPORTED: Mapping[str, float] = {
    "K1_admit10k": 992.0,
    "K2_nofit": 99.6,
    "K3_reclaim_1": 5.6,
    "K3_reclaim_10": 13.6,
    "K3_reclaim_100": 200.0,
    "K1_admit10k_fair": 40_011.0,
    "K2_nofit_fair": 5_013.0,
    "K3_reclaim_1_fair": 104.0,
    "K3_reclaim_10_fair": 949.0,
    "K3_reclaim_100_fair": 10_162.0,
}
TARGET_IMPORTED, TARGET_FAIR = 10, 50
"""Like TARGET, for imported queues and for names that end in _fair."""


class Replayed(NamedTuple):
    """*seconds*: of decisions.  *first*, *last*: by kind, mean ms from submission to admission, rounded down.  Unknown values are
    None or empty.
    """

    seconds: float
    makespan_ms: int
    cycles: int
    idle: int | None
    admissions: int
    evictions: int
    first: Mapping[str, int]
    last: Mapping[str, int]


REPLAYS: Mapping[str, Replayed] = {
    "replay_baseline": Replayed(
        6.7,
        76_800,
        1030,
        279,
        20_910,
        5910,
        {"large": 0, "medium": 38_673, "small": 54_225},
        {"large": 0, "medium": 41_025, "small": 54_228},
    ),
    "replay_baseline_fair": Replayed(
        8.8,
        76_900,
        1068,
        284,
        21_090,
        6090,
        {"large": 0, "medium": 38_673, "small": 53_622},
        {"large": 0, "medium": 41_025, "small": 54_367},
    ),
    "replay_large_scale": Replayed(
        9.8,
        4650,
        69,
        14,
        53_000,
        3000,
        {"large": 0, "medium": 1400, "small": 2007},
        {"large": 0, "medium": 1663, "small": 2211},
    ),
    "replay_large_scale_fair": Replayed(21.9, 4650, 69, None, 53_000, 3000, {}, {}),
}


class Placed(NamedTuple):
    """Milliseconds of finding a placement, and in how many hosts, racks and blocks it is; none if it does not fit."""

    ms: float
    hosts: int = 0
    racks: int = 0
    blocks: int = 0


PLACED: Mapping[str, Placed] = {
    "A": Placed(2.84, 64, 4, 1),
    "B": Placed(2.92, 95, 8, 1),
    "C": Placed(2.95, 64, 4, 1),
    "D": Placed(3.02, 95, 8, 1),
    "E": Placed(6.32, 64, 4, 1),
    "F": Placed(6.92, 512, 288, 12),
    "G": Placed(2.85, 64, 4, 1),
    "H": Placed(2.85, 115, 8, 1),
    "I": Placed(2.74),
    "J": Placed(3.12, 512, 32, 2),
    "K": Placed(2.85, 16, 1, 1),
    "L": Placed(2.92, 15, 1, 1),
    "M": Placed(2.80, 64, 4, 1),
    "N": Placed(5.37, 64, 4, 1),
    "O": Placed(44.3, 69, 18, 1),
    "P": Placed(7.3, 1, 1, 1),
}
TARGET_PLACED, TARGET_PLACED_MEDIAN = 10, 10

STREAMED: Mapping[str, float] = {
    "required rack": 6399.0,
    "preferred rack": 6513.0,
    "unconstrained": 15_714.0,
    "required rack, one cycle": 6399.0,
}
"""All cycles together: the reference has no single cycle that evaluates every gang, so its ten are compared."""
TARGET_STREAMED = 10


class Preempted(NamedTuple):
    ms: float
    target: int


PREEMPTED: Mapping[str, Preempted] = {
    "1k required block 64x8": Preempted(18.4, 20),
    "10k required block 64x8": Preempted(817.0, 50),
    "10k required rack 16x8": Preempted(2555.0, 50),
    "10k preferred rack 64x8": Preempted(23.8, 2),
}

FEWER_PODS = 49.1
TARGET_FEWER_PODS = 10

WHY_TARGET, WHY_AIM = 100.0, 20.0
"""Milliseconds that a user may wait for a reason; the reference gives none."""
