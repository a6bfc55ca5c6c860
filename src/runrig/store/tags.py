"""Tags of workflows: rows outside the state, which can also change after a workflow finished."""

from collections.abc import Collection

from sqlalchemy import Connection, delete, select

from runrig.domain.errors import Conflict, NotFound
from runrig.domain.tags import Expected, check_unchanged
from runrig.ports.store import WorkflowQuery
from runrig.store import schema
from runrig.store.dialect import insert_new
from runrig.store.filters import filters
from runrig.store.transactions import Tables

_TAG = schema.workflow_tags.c
_WORKFLOW = schema.workflows.c


class SqlTags(Tables):
    """`ports.store.TagStore`."""

    def of(self, workflow: str) -> tuple[str, ...]:
        with self._transactions.reading() as connection:
            return _of(connection, workflow)

    def change(
        self, workflow: str, add: Collection[str], remove: Collection[str], most: int, expected: Expected = None
    ) -> tuple[str, ...]:
        with self._transactions.writing() as connection:
            # Locks its row, so that retention does not delete it and its tags do not change.
            row = select(_WORKFLOW.id).where(_WORKFLOW.id == workflow).with_for_update(key_share=True)
            if connection.execute(row).scalar_one_or_none() is None:
                raise NotFound(f"workflow {workflow!r} not found. List workflows with `runrig workflow list`")
            if expected is not None:
                check_unchanged(expected, _of(connection, workflow), f"workflow {workflow}")
            connection.execute(delete(schema.workflow_tags).where(_TAG.workflow == workflow, _TAG.tag.in_(remove)))
            for tag in sorted(add):
                insert_new(connection, schema.workflow_tags, (workflow, tag))
            found = _of(connection, workflow)
            if len(found) > most:
                raise Conflict(f"too many tags for {workflow} ({len(found)}, maximum {most}). Remove some first")
            return found

    def used(self, query: WorkflowQuery) -> tuple[str, ...]:
        statement = (
            select(_TAG.tag)
            .join(schema.workflows, _WORKFLOW.id == _TAG.workflow)
            .where(*filters(query))
            .distinct()
            .order_by(_TAG.tag)
            .limit(query.limit)
            .offset(query.offset)
        )
        return tuple(tag for (tag,) in self._rows(statement))


def _of(connection: Connection, workflow: str) -> tuple[str, ...]:
    return tuple(connection.execute(select(_TAG.tag).where(_TAG.workflow == workflow).order_by(_TAG.tag)).scalars())
