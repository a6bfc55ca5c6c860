"""Workflows that end with the command that follows them (`run --attached`)."""

TAG = "runrig-attached"
"""Marks such a workflow, also for the next server."""
LOST_S = 60
"""Seconds without a sign of life after which the command counts as gone."""
RENEW_S = 15
"""Seconds between two signs of life."""
