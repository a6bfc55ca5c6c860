"""The workflows that a submission waits for: which they are, and how they stand (rule W5)."""

from dataclasses import replace

from runrig.domain.after import After
from runrig.domain.errors import Conflict, NotFound
from runrig.domain.workflow_status import WorkflowStatus
from runrig.domain.workflows import Workflow
from runrig.engine.lifecycle.arrays import check_element
from runrig.engine.state.state import State
from runrig.ports.store import SpecText, Store
from runrig.service.queries.lookup import unknown_workflow
from runrig.service.queries.visibility import Visibility
from runrig.spec import workflow


def as_they_are(after: tuple[After, ...], state: State, store: Store, visibility: Visibility) -> tuple[After, ...]:
    """Returns *after* with ids and how they ended.

    Raises NotFound if one does not exist, or the user cannot see it; Conflict for an element of what is not an array.
    """
    return tuple(_as_it_is(each, state, store, visibility) for each in after)


def _as_it_is(each: After, state: State, store: Store, visibility: Visibility) -> After:
    try:
        found = state.workflows.get(each.workflow) or store.head(each.workflow)
    except NotFound:
        raise unknown_workflow(store, each.workflow, visibility) from None
    if not visibility.sees(found.pool):
        raise unknown_workflow(store, each.workflow, visibility)
    if found.status.finished or found.id in state.workflows:
        return replace(each, workflow=found.id, ended=_ended(each, found, state, store))
    # It ends in a command that is stored together with this one, so its row does not say yet how.
    raise Conflict(f"{found.id} is ending right now. Submit again")


def _ended(each: After, found: Workflow, state: State, store: Store) -> WorkflowStatus | None:
    if not each.element:
        return found.status if found.status.finished else None
    alive = found.id in state.workflows
    check_element(found.id, state.spec_of(found.id) if alive else store.spec(found.spec_hash).spec, each.element)
    groups = state.groups_of(found.id) if alive else store.workflow(found.id).groups
    status = next(group.status for group in groups if group.name == each.element)
    return status.alone


def of_restart(spec: SpecText, old: Workflow, store: Store) -> SpecText:
    """Returns *spec* of a restart of *old*, which waits for the restarts of what *old* waited for."""
    after = tuple(replace(each, workflow=_newest(each, store), ended=None) for each in old.after)
    if after == spec.spec.after:
        return spec
    return replace(spec, hash=workflow.spec_hash(spec.hash, *map(str, after)), spec=replace(spec.spec, after=after))


def _newest(each: After, store: Store) -> str:
    """The newest restart that has the element, if *each* names one: a restart of what had failed may lack it."""
    newest = id = each.workflow
    while (repeat := store.repeat_of(id)) is not None:
        id = repeat
        if not each.element or _has(id, each.element, store):
            newest = id
    return newest


def _has(id: str, element: str, store: Store) -> bool:
    array = store.spec(store.head(id).spec_hash).spec.array
    return array is not None and element in map(str, array.indices)
