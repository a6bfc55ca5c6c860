"""What a cluster file would change, as an answer."""

from typing import Any

from runrig.api.shown.pools import declared, plain_quotas
from runrig.domain.access import Grant
from runrig.domain.nodes import Flavor
from runrig.domain.pools import Cohort, Pool
from runrig.domain.shown.declared import DeclaredChange
from runrig.service.commands.differences import Difference


def change(it: Difference) -> DeclaredChange:
    return DeclaredChange(it.action, it.kind, it.name, _declared(it.before), _declared(it.after), it.undoes)


def _declared(record: Pool | Cohort | Flavor | Grant | None) -> dict[str, Any] | None:
    """The fields that a cluster file can set."""
    match record:
        case None:
            return None
        case Flavor():
            taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in record.taints]
            return {"node_labels": dict(record.node_labels), "taints": taints, "allow": list(record.allow)}
        case Grant():
            return {"role": str(record)}
        case Cohort():
            return {"parent": record.parent, "weight": record.weight, "quotas": plain_quotas(record.quotas)}
    return declared(record)
