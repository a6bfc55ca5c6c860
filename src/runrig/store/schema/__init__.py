"""The tables. Values that are listed, filtered or sorted have their own column; nested values are JSON.

Columns are named like the fields of their records (`rows`). A change here needs a migration; a test compares the two.
No foreign key refers to a cohort or a flavor, because undefined names are allowed there (rule Q6).
"""

from pathlib import Path

from runrig.store.schema.base import metadata
from runrig.store.schema.cluster import cohorts, flavors, limits, nodes, pools, spent
from runrig.store.schema.code import code_pieces, codes
from runrig.store.schema.history import checkpoints, events, leaves, notes, past_numbers, pruned, snapshots, waiting
from runrig.store.schema.notices import deliveries, notice_settings
from runrig.store.schema.people import (
    access_events,
    browser_sessions,
    credentials,
    grants,
    profiles,
    secrets,
    tokens,
    users,
)
from runrig.store.schema.servers import leader, meta
from runrig.store.schema.usage import usage_cursor, usage_keys, usage_sums
from runrig.store.schema.work import gangs, groups, specifications, tasks, workflow_sums, workflow_tags, workflows

HEAD = max(file.name[1:5] for file in Path(__file__).parents[1].glob("migrations/versions/r[0-9]*.py"))
"""The newest migration, which results in these tables."""
