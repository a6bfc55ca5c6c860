"""API v1, the API of runrig itself."""

from runrig.api.v1 import (
    access,
    code,
    cohorts,
    credentials,
    events,
    limits,
    nodes,
    notices,
    plans,
    pools,
    server,
    sessions,
    sign_in,
    tokens,
    usage,
    workflow,
    workflows,
)

MODULES = (
    workflows,
    workflow,
    code,
    pools,
    cohorts,
    nodes,
    events,
    usage,
    limits,
    tokens,
    access,
    credentials,
    notices,
    sign_in,
    server,
    plans,
    sessions,
)
"""Routes are tried in this order: the most frequently called first."""
