"""Requests and answers of our own door, `/api/v1`, each with an example that the OpenAPI document shows."""

from runrig.wire.v1.base import Page, Shown, at
from runrig.wire.v1.pools import (
    Cohort,
    CohortCreate,
    CohortEdit,
    CohortPage,
    NodeShare,
    Pool,
    PoolChange,
    PoolChangePage,
    PoolCreate,
    PoolDeleted,
    PoolEdit,
    PoolGpus,
    PoolPage,
    PoolPast,
    PoolThen,
    QuotaTree,
)
from runrig.wire.v1.problems import ProblemDetails, ProblemPart

__all__ = [
    "Cohort",
    "CohortCreate",
    "CohortEdit",
    "CohortPage",
    "NodeShare",
    "Page",
    "Pool",
    "PoolChange",
    "PoolChangePage",
    "PoolCreate",
    "PoolDeleted",
    "PoolEdit",
    "PoolGpus",
    "PoolPage",
    "PoolPast",
    "PoolThen",
    "ProblemDetails",
    "ProblemPart",
    "QuotaTree",
    "Shown",
    "at",
]
