"""Configurations for the osmo client's `config` commands: pools with their history, and fixed settings."""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from fastapi.responses import Response
from pydantic import BeforeValidator

from runrig import __version__
from runrig.api.osmo import models
from runrig.api.osmo.accounts import name_of
from runrig.api.osmo.patches import said_with
from runrig.api.osmo.shaped import settings_then
from runrig.api.routes import Router
from runrig.api.times import At
from runrig.domain.access import Grant, Permission, RoleKind
from runrig.domain.errors import InvalidInput, NotFound
from runrig.domain.pools import SUBPOOL_DELIMITER, PoolState
from runrig.http.permissions import Seeing, needs
from runrig.http.routing import Base, NamedUser, Serving
from runrig.ports.store import RevisionsQuery
from runrig.service.commands.declarations import RolledBack
from runrig.service.queries.pool_revisions import PoolRevision
from runrig.service.queries.visibility import Visibility
from runrig.service.service import Service
from runrig.spec.labels import read_tags
from runrig.spec.workflow import MOST_TASKS
from runrig.wire.base import utc

router = Router("configs")

POOL = "POOL"
WARNING = "x-osmo-warning"
"""The client prints this base64 value next to the response."""
ConfigType = Annotated[
    Literal[
        "BACKEND",
        "BACKEND_TEST",
        "DATASET",
        "GROUP_TEMPLATE",
        "POD_TEMPLATE",
        "POOL",
        "RESOURCE_VALIDATION",
        "ROLE",
        "SERVICE",
        "WORKFLOW",
    ],
    BeforeValidator(lambda text: text.upper() if isinstance(text, str) else text),
]
"""In either case: the client writes it in capitals in queries and bodies, and in small letters in paths."""
LONGEST_PAGE = 1000
MOST_WITH_DATA = 20
LARGEST = 2**62

_READ = needs(Permission.READ_EVERYTHING)
_READING = ["workflow:List", "workflow:Read", "pool:List", "resources:Read", "profile:*"]
_ACTIONS: Mapping[RoleKind, tuple[list[str], str]] = {
    RoleKind.ADMIN: (["*:*"], "do everything"),
    RoleKind.VIEWER: (_READING, "read"),
    RoleKind.POOL_ADMIN: (["workflow:*", "pool:List", "resources:Read", "profile:*"], "manage"),
    RoleKind.POOL_USER: (["workflow:*", "pool:List", "resources:Read", "profile:*"], "submit to"),
}
"""Actions of the osmo API, and what they mean in runrig."""
Revision = Annotated[int, Query(ge=1, le=LARGEST)]


@router("GET /api/configs/history", needs(Permission.LIST_POOLS))
def config_history(
    service: Serving,
    visibility: Seeing,
    config_types: list[ConfigType] = Query(default=[]),  # noqa: B008
    name: Annotated[str | None, Query(description="Only changes of this pool")] = None,
    revision: Annotated[int | None, Query(ge=1, le=LARGEST)] = None,
    tags: Annotated[list[str], Query(description="Only revisions with one of these tags")] = [],  # noqa: B006
    created_after: Annotated[At | None, Query(description="From this time, inclusive")] = None,
    created_before: Annotated[At | None, Query(description="Until this time, exclusive")] = None,
    at_timestamp: Annotated[At | None, Query(description="Only the revision in effect at this time")] = None,
    omit_data: Annotated[bool, Query(description="Omit the pools themselves")] = False,
    order: Literal["ASC", "DESC"] = "ASC",
    limit: Annotated[int, Query(ge=1, le=LONGEST_PAGE)] = 20,
    offset: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
) -> models.ConfigHistoryAnswer:
    """List changes of pools by revision (other settings have no history)."""
    if not omit_data and limit > MOST_WITH_DATA:
        raise InvalidInput.one(f"limit {limit} is too large. Use at most {MOST_WITH_DATA}, or set omit_data", "limit")
    if config_types and POOL not in config_types:
        return models.ConfigHistoryAnswer(configs=[])
    query = RevisionsQuery(
        name=name,
        revision=revision,
        tags=read_tags(tags),
        since=created_after,
        until=created_before,
        at=at_timestamp,
        newest_first=order == "DESC",
        limit=limit,
        offset=offset,
    )
    found = service.pool_revisions.page(query, visibility)
    asked = () if omit_data else tuple(each.revision for each in found)
    data = {each: _settings_at(service, each, visibility) for each in asked}
    return models.ConfigHistoryAnswer(configs=[_revision(each, data.get(each.revision)) for each in found])


def _settings_at(service: Service, revision: int, visibility: Visibility) -> dict[str, Any]:
    """Returns the pools in the format of `config show POOL`, so that the client can send them back."""
    then, flavors = service.pool_revisions.pools_at(revision, visibility), service.queries.flavors()
    return {
        "pools": {
            name: settings_then(pool, then.get(pool.parent or name, pool), flavors, service.backend_name)
            for name, pool in then.items()
        }
    }


def _revision(found: PoolRevision, data: dict[str, Any] | None) -> models.ConfigRevision:
    """*data*: as from `_settings_at`."""
    return models.ConfigRevision(
        config_type="POOL",
        name=_name(found),
        revision=found.revision,
        username=found.by,
        created_at=utc(found.time),
        description=found.said,
        tags=list(found.tags),
        data=data,
    )


def _name(found: PoolRevision) -> str:
    """Returns the pool that changed, perhaps with its subpools; empty if there were several."""
    first, *others = found.pools
    return first if all(each.startswith(first + SUBPOOL_DELIMITER) for each in others) else ""


@router("GET /api/configs/diff", needs(Permission.LIST_POOLS), errors=(404,))
def config_diff(
    service: Serving, visibility: Seeing, config_type: ConfigType, first_revision: Revision, second_revision: Revision
) -> models.ConfigDiffAnswer:
    """Show the declared pools after two revisions. Revisions of pools that you cannot see are not found."""
    _check_has_history(config_type)
    first, second = (_settings_at(service, each, visibility) for each in (first_revision, second_revision))
    return models.ConfigDiffAnswer(first_data=first, second_data=second)


@router(
    "POST /api/configs/history/rollback",
    needs(Permission.CHANGE_CLUSTER),
    shows=models.ConfigRollbackAnswer,
    errors=(404, 409),
)
def roll_back_config(service: Serving, user: NamedUser, body: models.ConfigRollbackRequest) -> Response:
    """Restore pools to their state after a revision. Other pools are deleted; their running workflows finish.

    The header `x-osmo-warning` lists, in base64, the deleted pools and those that were not restored because they
    are still DELETING.
    """
    _check_has_history(body.config_type)
    said = said_with(body)
    then = service.pool_revisions.pools_at(body.revision).values()
    wanted = [pool for pool in then if pool.state is PoolState.ACTIVE]
    done = service.declarations.roll_back(wanted, user=user, said=said)
    warning = " ".join(_differs(done, body.revision))
    headers = {WARNING: b64encode(warning.encode()).decode()} if warning else None
    answer = models.ConfigRollbackAnswer(revision=done.revision).model_dump_json()
    return Response(answer, headers=headers, media_type="application/json")


def _differs(done: RolledBack, revision: int) -> Iterator[str]:
    """Returns how the pools still differ from those of *revision*, and the side effects."""
    if done.draining:
        yield f"Not restored, because workflows still run there: {', '.join(done.draining)}."
    if done.deleted:
        yield f"Deleted, because missing in revision {revision}: {', '.join(done.deleted)}."


@router(
    "POST /api/configs/history/{config_type}/revision/{revision}/tags", needs(Permission.CHANGE_CLUSTER), errors=(409,)
)
def tag_config(
    service: Serving,
    config_type: ConfigType,
    revision: Annotated[int, Path(ge=1, le=LARGEST)],
    body: models.ConfigTagRequest,
) -> models.ConfigTagsAnswer:
    """Add or remove tags of a revision."""
    _check_has_history(config_type)
    tags = service.pool_revisions.tag(revision, add=body.set_tags or (), remove=body.delete_tags or ())
    return models.ConfigTagsAnswer(tags=list(tags))


def _check_has_history(config_type: str) -> None:
    if config_type.upper() != POOL:
        raise NotFound(f"{config_type:.40} has no history. Only {POOL} can change while a server runs")


# ---------------------------------------------------------------- what is fixed


@router("GET /api/configs/role", _READ)
def role_configs(service: Serving) -> list[models.RoleConfigAnswer]:
    """List roles and their permissions."""
    pools = [pool.name for pool in service.queries.declared() if pool.parent is None]
    roles = [Grant(RoleKind.ADMIN), Grant(RoleKind.POOL_USER), Grant(RoleKind.VIEWER)]
    of_a_pool = (RoleKind.POOL_ADMIN, RoleKind.POOL_USER, RoleKind.VIEWER)
    return [_role(each) for each in (*roles, *(Grant(kind, pool) for pool in pools for kind in of_a_pool))]


def _role(grant: Grant) -> models.RoleConfigAnswer:
    actions, doing = _ACTIONS[grant.kind]
    where = "all pools" if grant.pool is None else f"pool {grant.pool} and its subpools"
    on = ["*"] if grant.pool is None else [f"pool/{grant.pool}", f"pool/{grant.pool}{SUBPOOL_DELIMITER}*"]
    description = doing if grant.kind is RoleKind.ADMIN else f"{doing} {where}"
    policies = [models.RolePolicyAnswer(actions=actions, resources=on)]
    return models.RoleConfigAnswer(name=name_of(grant), description=description, policies=policies)


@router("GET /api/configs/backend", _READ)
def backend_configs(service: Serving) -> models.BackendsAnswer:
    """Show this server's backend."""
    online = service.standstill is None
    return models.BackendsAnswer(
        backends=[models.BackendAnswer(name=service.backend_name, version=__version__, online=online)]
    )


@router("GET /api/configs/workflow", _READ)
def workflow_config(service: Serving) -> models.WorkflowConfigAnswer:
    """Show settings for all workflows and the drain check interval."""
    return models.WorkflowConfigAnswer(
        max_num_tasks=MOST_TASKS, subpool_drain_interval=_duration(service.drain_sweep_s)
    )


@router("GET /api/configs/service", _READ)
def service_config(service: Serving, base: Base) -> models.ServiceConfigAnswer:
    """Show the server's address and the drain check interval."""
    return models.ServiceConfigAnswer(service_base_url=base, subpool_drain_interval=_duration(service.drain_sweep_s))


def _duration(seconds: float) -> str:
    """In the format of the osmo API: whole seconds, or milliseconds."""
    return f"{int(seconds)}s" if seconds == int(seconds) else f"{round(seconds * 1000)}ms"
