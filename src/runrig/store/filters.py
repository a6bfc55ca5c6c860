"""Filters of workflows as SQL conditions."""

import re
from collections.abc import Callable, Collection
from operator import ge, le
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


def given(*asked: tuple[Any, Callable[[Any, Any], Any], Any]) -> list[Any]:
    """The conditions that a query has. *asked*: a column, how it compares, and the value; None and empty tuples do not filter."""
    return [compares(column, value) for column, compares, value in asked if value is not None and value != ()]


def one_of(column: Any, values: Collection[Any]) -> Any:
    return column.in_(values)


def key_filters(query: WorkflowQuery, columns: Any) -> list[Any]:
    """The conditions on the pool, user, status and priority. *columns*: of a table that has these."""
    return given(
        (columns.pool, one_of, query.pools),
        (columns.submitted_by, one_of, query.users),
        (columns.status, one_of, query.statuses),
        (columns.priority, one_of, query.priorities),
        (columns.pool, below, query.below),
    )


def below(pool: Any, tops: Collection[str]) -> Any:
    """The condition that *pool*, a column, is one of the top-level pools *tops* or a subpool of one."""
    return or_(pool.in_(tops), *(pool.startswith(f"{top}{SUBPOOL_DELIMITER}", autoescape=True) for top in tops))


def filters(query: WorkflowQuery, columns: Any = _WORKFLOW) -> list[Any]:
    """*query.name* matches a part of the id, ignoring case. Which page the query asks for does not count. *columns*: those of
    workflows.
    """
    found = key_filters(query, columns)
    found += given((columns.submit_time, ge, query.submitted_after), (columns.submit_time, le, query.submitted_before))
    if query.name is not None:
        found.append(columns.id.icontains(query.name, autoescape=True))
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
