"""Changes made by a cluster file, as shown to users."""

from typing import Any

from pydantic_core import to_jsonable_python

from runrig.domain.access import Grant
from runrig.domain.nodes import Flavor
from runrig.domain.pools import Cohort, Pool
from runrig.domain.settings import shown
from runrig.domain.shown.declared import DeclaredChange
from runrig.domain.shown.pools import quotas_of
from runrig.service.commands.differences import Difference


def declared_change(it: Difference) -> DeclaredChange:
    before, after = to_jsonable_python((_declared(it.before), _declared(it.after)))
    return DeclaredChange(it.action, it.kind, it.name, before, after, it.undoes)


def _declared(record: Pool | Cohort | Flavor | Grant | None) -> dict[str, Any] | None:
    """Returns the fields that a cluster file can set."""
    match record:
        case None:
            return None
        case Flavor():
            return {"node_labels": dict(record.node_labels), "taints": record.taints, "allow": record.allow}
        case Grant():
            return {"role": str(record)}
        case Cohort():
            return {"parent": record.parent, "weight": record.weight, "quotas": quotas_of(record.quotas)}
    return {"parent": record.parent, "state": record.state, **shown(record), "quotas": quotas_of(record.quotas)}
