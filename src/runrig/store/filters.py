"""Filters of workflows as SQL conditions."""

import re
from collections.abc import Collection
from typing import Any

from sqlalchemy import JSON, and_, exists, or_, select, type_coerce

from runrig.domain.pools import SUBPOOL_DELIMITER
from runrig.domain.workflows import LabelSelector
from runrig.ports.store import WorkflowQuery
from runrig.store import schema
from runrig.store.schema.computed import IsArray

_WORKFLOW = schema.workflows.c
_TAG = schema.workflow_tags.c
_ARRAYS = select(schema.specifications.c.hash).where(IsArray())


def key_filters(query: WorkflowQuery, columns: Any) -> list[Any]:
    """The conditions on the pool, user, status and priority. *columns*: of a table that has these."""
    found: list[Any] = []
    for column, values in (
        (columns.pool, query.pools),
        (columns.submitted_by, query.users),
        (columns.status, query.statuses),
        (columns.priority, query.priorities),
    ):
        if values:
            found.append(column.in_(values))
    if query.below:
        found.append(below(columns.pool, query.below))
    return found


def below(pool: Any, tops: Collection[str]) -> Any:
    """The condition that *pool*, a column, is one of the top-level pools *tops* or a subpool of one."""
    return or_(pool.in_(tops), *(pool.startswith(f"{top}{SUBPOOL_DELIMITER}", autoescape=True) for top in tops))


def filters(query: WorkflowQuery, columns: Any = _WORKFLOW) -> list[Any]:
    """*query.name* matches a part of the id, ignoring case. Which page the query asks for does not count. *columns*: those of
    workflows.
    """
    found = key_filters(query, columns)
    if query.name is not None:
        found.append(columns.id.icontains(query.name, autoescape=True))
    if query.submitted_after is not None:
        found.append(columns.submit_time >= query.submitted_after)
    if query.submitted_before is not None:
        found.append(columns.submit_time <= query.submitted_before)
    found += (_has(selector) for selector in query.labels)
    found += (_label(key).is_(None) for key in query.no_labels)
    if query.arrays:
        found.append(_WORKFLOW.spec_hash.in_(_ARRAYS))
    if query.tags:
        found.append(exists().where(and_(_TAG.workflow == _WORKFLOW.id, _TAG.tag.in_(query.tags))))
    return found


def _label(key: str) -> Any:
    return type_coerce(_WORKFLOW.labels, JSON)[key].as_string()


def _has(selector: LabelSelector) -> Any:
    exact = [pattern for pattern in selector.patterns if "*" not in pattern]
    globs = [re.escape(pattern).replace(r"\*", ".*") for pattern in selector.patterns if "*" in pattern]
    conditions = [_label(selector.key).in_(exact)] if exact else []
    # LIKE ignores case in SQLite.
    conditions += [_label(selector.key).regexp_match(f"^(?:{'|'.join(globs)})$")] if globs else []
    return or_(*conditions)
