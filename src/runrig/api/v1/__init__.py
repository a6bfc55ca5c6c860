"""Our own door."""

from runrig.api.v1 import access, cohorts, events, nodes, pools, server, sessions, tokens, workflow, workflows

MODULES = (workflows, workflow, pools, cohorts, nodes, events, tokens, access, server, sessions)
"""Routes are tried in this order: the busiest come first."""
