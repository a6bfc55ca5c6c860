"""The cluster: flavors, nodes, cohorts, pools, limits of users."""

import enum
from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

from sqlalchemy import Boolean, CheckConstraint, Column, Double, ForeignKey, UniqueConstraint, false

from runrig.domain.nodes import Taint
from runrig.domain.pools import BudgetReached, Pool, PoolState, Quotas
from runrig.domain.settings import SETTINGS, Setting, Text
from runrig.store.columns import WHOLE, Encoded, OneOf, Prose, UtcDateTime, Words
from runrig.store.schema.base import Labels, Texts, key, needed, optional, table

flavors = table(
    "flavors",
    *key(name=Words),
    *needed(position=WHOLE, node_labels=Encoded(Labels), taints=Encoded(tuple[Taint, ...]), allow=Encoded(Texts)),
)

nodes = table(
    "nodes",
    *key(name=Words),
    *needed(
        resources=Encoded(Mapping[str, int]),
        flavor=Words,
        labels=Encoded(Labels),
        taints=Encoded(tuple[Taint, ...]),
        ready=Boolean,
    ),
    Column("cordoned", Boolean, nullable=False, server_default=false()),
)

cohorts = table("cohorts", *key(name=Words), *optional(parent=Words), *needed(quotas=Encoded(Quotas), weight=WHOLE))


def _column(setting: Setting, declared: Any) -> Column[Any]:
    """*declared*: the type of the field of `Pool`."""
    optional = type(None) in get_args(declared)
    of = get_args(declared)[0] if optional else declared
    kept: Any
    if of in _TYPES:
        kept = _TYPES[of]
    elif of is str:
        kept = Prose if isinstance(setting.kind, Text) else Words
    else:
        kept = OneOf(of) if isinstance(of, type) and issubclass(of, enum.Enum) else Encoded(of)
    return Column(setting.name, kept, nullable=optional, server_default=_DEFAULTS.get(setting.name))


_TYPES: Mapping[type, Any] = {int: WHOLE, float: Double}
_DEFAULTS: Mapping[str, str] = {}
"""Setting → the default of its column, if it is never NULL and a migration added it: SQLite drops a default only with a copy of the
table, which the references to pools forbid.
"""
_DECLARED = get_type_hints(Pool)

# Settings stand by name, because a backup has the columns in this order.
# subpools.md: a subpool is a pool with a parent; rows are never deleted (rules S4, S6).
pools = table(
    "pools",
    *key(name=Words),
    *needed(quotas=Encoded(Quotas), state=OneOf(PoolState)),
    Column("parent", Words, ForeignKey("pools.name")),
    *optional(subpool_name=Words, closed_by=Words, closed_since=UtcDateTime),
    Column("closed_reason", Prose, nullable=False, server_default=""),
    *optional(paused_by=Words, paused_since=UtcDateTime),
    Column("paused_reason", Prose, nullable=False, server_default=""),
    *optional(paused_until=UtcDateTime),
    *(_column(each, _DECLARED[each.name]) for each in sorted(SETTINGS, key=lambda each: each.name)),
    UniqueConstraint("parent", "subpool_name"),
    CheckConstraint("(parent IS NULL) = (subpool_name IS NULL)", name="both"),
    CheckConstraint("subpool_name NOT LIKE '%--%'", name="delimiter"),
    CheckConstraint("parent IS NULL OR name = parent || '--' || subpool_name", name="canonical"),
    CheckConstraint("state IN ('ACTIVE', 'DELETING', 'ARCHIVED')", name="state"),
)

limits = table("limits", *key(user=Words), *optional(gpus=WHOLE, waiting=WHOLE, gpus_per_workflow=WHOLE, budget=WHOLE))

spent = table(
    "spent",
    *key(of=Words, name=Words),
    *needed(month=UtcDateTime, held=WHOLE, since=UtcDateTime),
    *optional(stops=OneOf(BudgetReached)),
)
