"""The figures to compare with: milliseconds, the least of several runs of a compiled scheduler (Go, two cores)."""

from collections.abc import Mapping
from typing import NamedTuple

NAME = "reference (Go, 2 cores)"
TARGET = 3
"""At most one part in so many of the reference's time."""
AIM = 10

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
TARGET_FAIR = 50
"""As TARGET, of what ends in _fair."""


class Replayed(NamedTuple):
    """*seconds*: of deciding.  *first*, *last*: by kind, mean ms from being handed in to an admission, cut to whole ms.

    What is not known is None, or empty.
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
