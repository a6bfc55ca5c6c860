"""The cluster: flavors, nodes, cohorts, pools, limits of users."""

from collections.abc import Mapping

from sqlalchemy import Boolean, CheckConstraint, Column, Double, ForeignKey, Table, UniqueConstraint, false

from runrig.domain.nodes import Taint
from runrig.domain.pools import BudgetReached, PoolState, Queueing, Quotas, TopologyKey
from runrig.store.columns import WHOLE, Encoded, OneOf, Prose, UtcDateTime, Words
from runrig.store.schema.base import Labels, Texts, metadata

flavors = Table(
    "flavors",
    metadata,
    Column("name", Words, primary_key=True),
    Column("position", WHOLE, nullable=False),
    Column("node_labels", Encoded(Labels), nullable=False),
    Column("taints", Encoded(tuple[Taint, ...]), nullable=False),
    Column("allow", Encoded(Texts), nullable=False),
)

nodes = Table(
    "nodes",
    metadata,
    Column("name", Words, primary_key=True),
    Column("resources", Encoded(Mapping[str, int]), nullable=False),
    Column("flavor", Words, nullable=False),
    Column("labels", Encoded(Labels), nullable=False),
    Column("taints", Encoded(tuple[Taint, ...]), nullable=False),
    Column("ready", Boolean, nullable=False),
    Column("cordoned", Boolean, nullable=False, server_default=false()),
)

cohorts = Table(
    "cohorts",
    metadata,
    Column("name", Words, primary_key=True),
    Column("parent", Words),
    Column("quotas", Encoded(Quotas), nullable=False),
    Column("weight", WHOLE, nullable=False),
)

# subpools.md: a subpool is a pool with a parent; rows are never deleted (rules S4, S6).
pools = Table(
    "pools",
    metadata,
    Column("name", Words, primary_key=True),
    Column("quotas", Encoded(Quotas), nullable=False),
    Column("cohort", Words),
    Column("state", OneOf(PoolState), nullable=False),
    Column("parent", Words, ForeignKey("pools.name")),
    Column("subpool_name", Words),
    Column("weight", WHOLE, nullable=False),
    Column("queueing", OneOf(Queueing), nullable=False),
    Column("grace_s", Double, nullable=False),
    Column("flavors", Encoded(Texts), nullable=False),
    Column("topology_keys", Encoded(tuple[TopologyKey, ...]), nullable=False),
    Column("default_platform", Words),
    Column("default_exit_actions", Encoded(tuple[tuple[str, int, int], ...]), nullable=False),
    Column("description", Prose, nullable=False),
    Column("default_run_time_s", Double),
    Column("max_run_time_s", Double),
    Column("closed_by", Words),
    Column("closed_since", UtcDateTime),
    Column("closed_reason", Prose, nullable=False, server_default=""),
    Column("paused_by", Words),
    Column("paused_since", UtcDateTime),
    Column("paused_reason", Prose, nullable=False, server_default=""),
    Column("user_waiting", WHOLE),
    Column("gpus_per_workflow", WHOLE),
    Column("default_image", Words),
    Column("shell_idle_s", Double),
    Column("user_gpus", WHOLE),
    Column("paused_until", UtcDateTime),
    Column("budget", WHOLE),
    Column("budget_reached", OneOf(BudgetReached)),
    UniqueConstraint("parent", "subpool_name"),
    CheckConstraint("(parent IS NULL) = (subpool_name IS NULL)", name="both"),
    CheckConstraint("subpool_name NOT LIKE '%--%'", name="delimiter"),
    CheckConstraint("parent IS NULL OR name = parent || '--' || subpool_name", name="canonical"),
    CheckConstraint("state IN ('ACTIVE', 'DELETING', 'ARCHIVED')", name="state"),
)

limits = Table(
    "limits",
    metadata,
    Column("user", Words, primary_key=True),
    Column("gpus", WHOLE),
    Column("waiting", WHOLE),
    Column("gpus_per_workflow", WHOLE),
    Column("budget", WHOLE),
)

spent = Table(
    "spent",
    metadata,
    Column("of", Words, primary_key=True),
    Column("name", Words, primary_key=True),
    Column("month", UtcDateTime, nullable=False),
    Column("held", WHOLE, nullable=False),
    Column("since", UtcDateTime, nullable=False),
    Column("stops", OneOf(BudgetReached)),
)
