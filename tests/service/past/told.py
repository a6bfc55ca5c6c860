"""All that a service tells somebody of the cluster, to be compared with what it tells of the same revision later."""

from dataclasses import replace
from typing import Any, TypeVar

from runrig.domain.access import Grant, Identity, RoleKind
from runrig.domain.errors import NotFound
from runrig.domain.shown.workflows import WorkflowHead
from runrig.domain.workflow_status import WorkflowStatus
from runrig.ports.store import WorkflowQuery
from runrig.service.past.past import Then
from runrig.service.queries.visibility import ALL, Visibility
from runrig.service.service import Service

SIGHTS = (
    ALL,
    *(
        Visibility(Identity("u", tuple(Grant(RoleKind.POOL_USER, pool) for pool in pools)))
        for pools in ((), ("vision",), ("speech", "maps"))
    ),
)
_STATUSES = (
    (),
    ("PENDING",),
    ("RUNNING",),
    ("PENDING", "RUNNING"),
    tuple(each.value for each in WorkflowStatus if each.finished),
)


Head = TypeVar("Head", bound=WorkflowHead)


def told(of: Service | Then, sight: Visibility) -> dict[str, Any]:
    board = of.boards.board(sight)
    tree = of.queries.quota_tree(sight)
    found: dict[str, Any] = {"board": board, "tree": tree}
    for pool in sorted(each.pool.name for each in of.queries.pools(visibility=sight)):
        view = of.queries.pool(pool, sight)
        found[f"pool {pool}"] = view._replace(now=replace(view.now, workflows=0))
        found[f"waiting {pool}"] = of.workflow_queries.pool_why(pool, sight)
    for statuses in _STATUSES:
        for limit, offset in ((100, 0), (3, 2)):
            query = WorkflowQuery(statuses=statuses, limit=limit, offset=offset)
            entries, more = of.workflow_queries.workflows(query, sight)
            found[f"workflows {statuses} {limit}"] = tuple(map(_still, entries)), more
    for listed in found["workflows () 100"][0]:
        queries, id = of.workflow_queries, listed.id
        found[f"workflow {id}"] = _still(queries.workflow(id, sight)), queries.events(id, visibility=sight)
    return found


def _still(it: Head) -> Head:
    """Without durations that grow until it ends: the past is asked as of its last commit, the server as of now."""
    return it if it.end_time else replace(it, times=None, queued_s=None, duration_s=None)  # type: ignore[arg-type]


def missing(of: Then, ids: set[str]) -> set[str]:
    """Those of *ids* that were not submitted yet."""
    found = set()
    for id in ids:
        try:
            of.workflow_queries.workflow(id)
        except NotFound:
            found.add(id)
    return found
