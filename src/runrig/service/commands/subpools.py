"""Commands about subpools: create, resize, delete (rules S1 to S6). Each is decided and stored under one lock."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from runrig.domain.amounts import Share
from runrig.domain.pools import Pool, gpus_of, subpool_of
from runrig.engine.lifecycle import pools, subpools
from runrig.engine.state.state import State
from runrig.service.commands.edits import shared_quotas
from runrig.service.commands.pool_steps import Deleted, created, deleted, done
from runrig.service.queries.lookup import any_subpool, live_pool
from runrig.service.queries.resource_queries import PoolView
from runrig.service.runtime.writing import Writing

Editing = Callable[[str], AbstractContextManager[Writing]]


class Subpools:
    """*editing*: runs a user's command, and wakes the loop if it changed anything.

    With *dry_run*, a command only checks, and returns what the result would be.
    """

    def __init__(self, editing: Editing) -> None:
        self._editing = editing

    def follow_parents(self) -> None:
        """Gives subpools the settings of their parents, which version 0.1.0 did not; called at the start."""
        with self._editing(pools.RUNRIG) as writing:
            writing.commit(pools.follow_parents(writing.state))

    def create(
        self, parent: str, short: str, share: Share, *, user: str, dry_run: bool = False, again: bool = False
    ) -> PoolView:
        """Creates a subpool, or restores an ARCHIVED one. *again*: as in `created`.

        Raises InvalidInput, NotFound; Conflict for a name in use; Refused (rule S1).
        """
        with self._editing(user) as writing:
            state = writing.state
            subpool = asked_subpool(state, live_pool(state, parent), short, share)
            return done(writing, created(state, subpool, again=again), subpool.name, dry_run=dry_run)

    def resize(self, parent: str, short: str, share: Share, *, user: str, dry_run: bool = False) -> PoolView:
        """Changes its share. Running workflows are not stopped if the share is reduced (rule R7). Raises Conflict
        unless the subpool is ACTIVE.
        """
        with self._editing(user) as writing:
            state = writing.state
            before = any_subpool(state, parent, short)
            subpool = asked_subpool(state, state.pools[parent], short, share)
            return done(writing, pools.put_pool(state, subpool, create=False), before.name, dry_run=dry_run)

    def delete(self, parent: str, short: str, *, user: str, dry_run: bool = False) -> Deleted:
        """Sets it to ARCHIVED if nothing is running in it, else to DELETING (rule S3). Raises Conflict if it is already
        deleted.
        """
        with self._editing(user) as writing:
            subpool = any_subpool(writing.state, parent, short)
            return deleted(writing, subpool.name, user=user, dry_run=dry_run)


def asked_subpool(state: State, parent: Pool, short: str, share: Share) -> Pool:
    """Returns the requested subpool. Problems with its name or parent are reported before problems with its share."""
    draft = subpool_of(parent, short, {})
    subpools.parent_of(state.pools, draft)
    return subpool_of(parent, short, gpus_of(shared_quotas(state, parent, share)))
