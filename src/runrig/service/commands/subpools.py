"""Commands about subpools: create, resize, delete (subpools.md; laws S1-S6).  Each is decided and stored under one lock."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from runrig.domain.pools import Pool, gpus_of, subpool_of
from runrig.engine.lifecycle import pools, subpools
from runrig.engine.state.state import State
from runrig.service.commands.pool_steps import Deleted, created, deleted, done
from runrig.service.queries.lookup import any_subpool, live_pool
from runrig.service.queries.resource_queries import PoolView
from runrig.service.runtime.writing import Writing
from runrig.spec import cluster

Share = object
"""GPUs, a percentage of the parent's, or ``h100=8,b200=4``; as it came, whatever it is."""

Editing = Callable[[str], AbstractContextManager[Writing]]


class Subpools:
    """*editing*: writing for a command of somebody, which wakes the loop when it has changed something.

    With *dry_run* everything is checked, the answer is what would be, and nothing changes.
    """

    def __init__(self, editing: Editing) -> None:
        self._editing = editing

    def follow_parents(self) -> None:
        """At a start: nothing to do but after an upgrade."""
        with self._editing(pools.RUNRIG) as writing:
            writing.commit(pools.follow_parents(writing.state))

    def create(
        self, parent: str, short: str, share: Share, *, user: str, dry_run: bool = False, again: bool = False
    ) -> PoolView:
        """Also brings an ARCHIVED one back.  *again*: as of `created`.

        Raises InvalidInput, NotFound, Conflict for a name in use, Refused (law S1).
        """
        with self._editing(user) as writing:
            state = writing.state
            subpool = asked_subpool(state, live_pool(state, parent), short, share)
            return done(writing, created(state, subpool, again=again), subpool.name, dry_run=dry_run)

    def resize(self, parent: str, short: str, share: Share, *, user: str, dry_run: bool = False) -> PoolView:
        """A smaller share is soft: what runs goes on (law R7).  Raises Conflict unless the subpool is ACTIVE."""
        with self._editing(user) as writing:
            state = writing.state
            before = any_subpool(state, parent, short)
            subpool = asked_subpool(state, state.pools[parent], short, share)
            return done(writing, pools.put_pool(state, subpool, create=False), before.name, dry_run=dry_run)

    def delete(self, parent: str, short: str, *, user: str, dry_run: bool = False) -> Deleted:
        """ARCHIVED if nothing runs there, else DELETING (law S3).  Raises Conflict if it is deleted already."""
        with self._editing(user) as writing:
            subpool = any_subpool(writing.state, parent, short)
            return deleted(writing, subpool.name, user=user, dry_run=dry_run)


def asked_subpool(state: State, parent: Pool, short: str, share: Share) -> Pool:
    """The subpool asked for; problems with its name and parent are reported before problems with its share."""
    draft = subpool_of(parent, short, {})
    subpools.parent_of(state.pools, draft)
    quotas = cluster.share_from_json(share, parent.quotas, parent.flavors or tuple(state.flavors))
    return subpool_of(parent, short, gpus_of(quotas))
