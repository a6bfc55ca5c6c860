"""Configurations and their history as responses."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from runrig import wire
from runrig.api.osmo.answers.accounts import name_of
from runrig.api.osmo.shaped import settings_then
from runrig.domain.access import Grant, RoleKind
from runrig.domain.nodes import Flavor
from runrig.domain.pools import SUBPOOL_DELIMITER, Pool
from runrig.service.queries.pool_revisions import PoolRevision

_READ = ["workflow:List", "workflow:Read", "pool:List", "resources:Read", "profile:*"]
_ACTIONS: Mapping[RoleKind, tuple[list[str], str]] = {
    RoleKind.ADMIN: (["*:*"], "do everything"),
    RoleKind.VIEWER: (_READ, "read"),
    RoleKind.POOL_ADMIN: (["workflow:*", "pool:List", "resources:Read", "profile:*"], "manage"),
    RoleKind.POOL_USER: (["workflow:*", "pool:List", "resources:Read", "profile:*"], "submit to"),
}
"""Actions of the osmo API, and what they mean in runrig."""


def revision(found: PoolRevision, data: dict[str, Any] | None) -> wire.ConfigRevision:
    """*data*: from `pools`."""
    return wire.ConfigRevision(
        config_type="POOL",
        name=_name(found),
        revision=found.revision,
        username=found.by,
        created_at=wire.utc(found.time),
        description=found.said,
        tags=list(found.tags),
        data=data,
    )


def _name(found: PoolRevision) -> str:
    """Returns the pool that changed, perhaps with its subpools; empty if there were several."""
    first, *others = found.pools
    return first if all(each.startswith(first + SUBPOOL_DELIMITER) for each in others) else ""


def pools(then: Mapping[str, Pool], flavors: Collection[Flavor], backend: str) -> dict[str, Any]:
    """Returns pools in the format of `config show POOL`, so that the client can send them back."""
    return {
        "pools": {
            name: settings_then(pool, then.get(pool.parent or name, pool), flavors, backend)
            for name, pool in then.items()
        }
    }


def roles(tops: Iterable[str]) -> Iterator[wire.RoleConfigAnswer]:
    """Yields the roles on all pools, then the roles on each of *tops*."""
    yield from map(_role, (Grant(RoleKind.ADMIN), Grant(RoleKind.POOL_USER), Grant(RoleKind.VIEWER)))
    for pool in tops:
        yield from (_role(Grant(kind, pool)) for kind in (RoleKind.POOL_ADMIN, RoleKind.POOL_USER, RoleKind.VIEWER))


def _role(grant: Grant) -> wire.RoleConfigAnswer:
    actions, doing = _ACTIONS[grant.kind]
    where = "all pools" if grant.pool is None else f"pool {grant.pool} and its subpools"
    on = ["*"] if grant.pool is None else [f"pool/{grant.pool}", f"pool/{grant.pool}{SUBPOOL_DELIMITER}*"]
    description = doing if grant.kind is RoleKind.ADMIN else f"{doing} {where}"
    policies = [wire.RolePolicyAnswer(actions=actions, resources=on)]
    return wire.RoleConfigAnswer(name=name_of(grant), description=description, policies=policies)


def duration(seconds: float) -> str:
    """In the format of the osmo API: whole seconds, or milliseconds."""
    return f"{int(seconds)}s" if seconds == int(seconds) else f"{round(seconds * 1000)}ms"
