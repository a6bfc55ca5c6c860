"""Why the workflows of a pool are waiting, without names that the user may not see."""

from dataclasses import replace

from runrig.domain.errors import NotFound
from runrig.domain.shown.why import PoolWhy
from runrig.domain.steps import Steps
from runrig.engine.explain.pool_why import Known, pool_why
from runrig.engine.state.state import State
from runrig.service.queries.lookup import live_pool
from runrig.service.queries.redaction import Names
from runrig.service.queries.visibility import Visibility


def waiting_in(state: State, name: str, visibility: Visibility, known: Known | None = None) -> Steps[PoolWhy | str]:
    """Returns the pending work in the pool *name*; a message if the user may not see that pool. *known*: as in
    `pool_why`.
    """
    try:
        pool = live_pool(state, name, visibility)
    except NotFound as unknown:
        return unknown.message
    return (yield from pool_why(state, pool.name, known))


def seen(found: PoolWhy, names: Names) -> PoolWhy:
    held = (replace(each, reason=names.reason(each.reason), first=names.several(each.first)) for each in found.held)
    places = (
        replace(each, gang=names.name_of(each.gang), reason=None if each.reason is None else names.reason(each.reason))
        for each in found.places
    )
    return replace(found, held=tuple(held), places=tuple(places))
