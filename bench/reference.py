"""The figures to compare with: milliseconds, the least of several runs of a compiled scheduler (Go, two cores)."""

from collections.abc import Mapping

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
