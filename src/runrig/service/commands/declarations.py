"""Commands about the cluster: single pools and cohorts, and whole cluster files (`apply`).

The actor of what a file created begins with `APPLY` in the event log, so that a later `apply --prune` may delete it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from runrig.domain.budgets import HeldBefore, Owner, Scope
from runrig.domain.cluster import ClusterSpec
from runrig.domain.errors import Conflict, InvalidInput, NotFound
from runrig.domain.limits import LimitValues
from runrig.domain.plan import PutCohort, PutPool
from runrig.domain.pools import BudgetReached, Cohort, Pool, PoolState
from runrig.domain.records import Said
from runrig.domain.shown.limits import LimitsChange
from runrig.domain.tags import Expected, check_unchanged
from runrig.engine.lifecycle import budgets, closing, limits, pausing, pools
from runrig.engine.state.state import State
from runrig.ports.backend import Backend
from runrig.ports.store import Store
from runrig.service.access import roles
from runrig.service.access.access import Access
from runrig.service.commands import by_hand
from runrig.service.commands.differences import Difference, is_creation, of_file, of_roles
from runrig.service.commands.edits import CohortEdit, PoolEdit, edited_cohort, edited_pool, kinds_of, known_resources
from runrig.service.commands.moved import check_not_moved
from runrig.service.commands.pool_steps import Deleted, created, deleted, done
from runrig.service.queries import limit_queries
from runrig.service.queries.lookup import known_pool, live_pool
from runrig.service.queries.resource_queries import PoolView, pool_view
from runrig.service.runtime.reconciler import Reconciler
from runrig.service.runtime.transactor import APPLY, Transactor
from runrig.service.runtime.writing import Writing
from runrig.spec import cluster
from runrig.spec.export import cluster_text
from runrig.spec.quota import Kinds
from runrig.spec.values import parse_until


@dataclass(frozen=True, slots=True)
class RolledBack:
    """*revision*: of the rollback; None: nothing differed. *draining*: pools that were not restored because they are
    still DELETING. *deleted*: pools that did not exist at that revision.
    """

    revision: int | None
    draining: tuple[str, ...]
    deleted: tuple[str, ...]


class Paused(NamedTuple):
    """*waiting*, *running*: its workflows and those of its subpools that wait for the end, and those that continue."""

    view: PoolView
    waiting: int
    running: int


@dataclass(eq=False)
class Declarations:
    """*_held_before*: as in `Reconciler`."""

    _transactor: Transactor
    _store: Store
    _backend: Backend
    _reconciler: Reconciler
    _access: Access
    _held_before: Callable[[Collection[Scope]], HeldBefore | None]

    # ------------------------------------------------------------ one by one

    def create_pool(
        self, name: str, edit: PoolEdit, *, user: str, dry_run: bool = False, again: bool = False
    ) -> PoolView:
        """Returns the created pool; with *dry_run*, as it would be. *again*: as in `created`.

        Raises Conflict if it exists, and InvalidInput, NotFound or Refused according to the rules.
        """
        with self.editing(user) as writing:
            pool = edited_pool(Pool(name), edit, writing.state)
            return done(writing, created(writing.state, pool, again=again), name, dry_run=dry_run)

    def update_pool(
        self,
        name: str,
        edit: PoolEdit,
        *,
        user: str,
        dry_run: bool = False,
        expected: Expected = None,
    ) -> PoolView:
        """Also raises Changed if the pool is not as *expected*."""
        with self.editing(user) as writing:
            before = live_pool(writing.state, name)
            check_unchanged(expected, before, f"pool {name}")
            pool = edited_pool(before, edit, writing.state)
            return done(writing, pools.put_pool(writing.state, pool, create=False), name, dry_run=dry_run)

    def close_pool(self, name: str, *, user: str, reason: str, expected: Expected = None) -> PoolView:
        """Closes the pool to submissions (rule S7). Raises NotFound, Conflict, InvalidInput; Changed if the pool is not
        as *expected*.
        """
        with self.editing(user) as writing:
            check_unchanged(expected, known_pool(writing.state, name), f"pool {name}")
            plan = closing.close(writing.state, name, user=user, now=writing.now, reason=reason)
            return done(writing, plan, name, dry_run=False)

    def open_pool(self, name: str, *, user: str, expected: Expected = None) -> PoolView:
        """Reopens the pool. Raises NotFound, Conflict; Changed if the pool is not as *expected*."""
        with self.editing(user) as writing:
            check_unchanged(expected, known_pool(writing.state, name), f"pool {name}")
            return done(writing, closing.open_again(writing.state, name), name, dry_run=False)

    def pause_pool(
        self, name: str, *, user: str, reason: str, until: str | None = None, expected: Expected = None
    ) -> Paused:
        """Starts nothing new in the pool and its subpools (rule S8). *until*: as in `parse_until`; None: until a user
        resumes it. Raises NotFound, Conflict, InvalidInput; Changed if the pool is not as *expected*.
        """
        with self.editing(user) as writing:
            check_unchanged(expected, known_pool(writing.state, name), f"pool {name}")
            end = end_of_pause(until, writing.now)
            plan = pausing.pause(writing.state, name, user=user, now=writing.now, reason=reason, until=end)
            view = done(writing, plan, name, dry_run=False)
            return Paused(view, *pausing.touched(writing.state, name))

    def resume_pool(self, name: str, *, user: str, expected: Expected = None) -> PoolView:
        """Undoes `pause_pool`. Raises NotFound, Conflict; Changed if the pool is not as *expected*."""
        with self.editing(user) as writing:
            check_unchanged(expected, known_pool(writing.state, name), f"pool {name}")
            return done(writing, pausing.resume(writing.state, name), name, dry_run=False)

    def put_pools(
        self, edits: Sequence[tuple[Pool, Expected]], *, user: str, said: Said | None = None
    ) -> list[PoolView]:
        """Replaces all settings of several pools except their states: all pools or none (rule Q7)."""
        with self.editing(user) as writing:
            writing.said, state = said, writing.state
            for pool, expected in edits:
                check_unchanged(expected, live_pool(state, pool.name), f"pool {pool.name}")
            spec = ClusterSpec(flavors=tuple(state.flavors.values()), pools=_parents_first([pool for pool, _ in edits]))
            writing.commit(pools.declare(state, spec, user=user))
            return [pool_view(state, pool.name) for pool, _ in edits]

    def delete_pool(
        self, name: str, *, user: str, dry_run: bool = False, expected: Expected = None, said: Said | None = None
    ) -> Deleted:
        with self.editing(user) as writing:
            writing.said = said
            check_unchanged(expected, known_pool(writing.state, name), f"pool {name}")
            return deleted(writing, name, user=user, dry_run=dry_run)

    def create_cohort(self, name: str, edit: CohortEdit, *, user: str, again: bool = False) -> None:
        """*again*: succeed if an identical cohort exists."""
        with self.editing(user) as writing:
            cohort = edited_cohort(Cohort(name), edit, writing.state)
            if not (again and writing.state.cohorts.get(name) == cohort):
                writing.commit(pools.put_cohort(writing.state, cohort, create=True))

    def update_cohort(self, name: str, edit: CohortEdit, *, user: str, expected: Expected = None) -> None:
        with self.editing(user) as writing:
            before = writing.state.cohorts.get(name)
            if before is None:
                raise NotFound(f"cohort {name!r} not found. List cohorts with `runrig cohort list`")
            check_unchanged(expected, before, f"cohort {name}")
            cohort = edited_cohort(before, edit, writing.state)
            writing.commit(pools.put_cohort(writing.state, cohort, create=False))

    def delete_cohort(self, name: str, *, user: str, leave_children: bool = False, expected: Expected = None) -> None:
        with self.editing(user) as writing:
            if (before := writing.state.cohorts.get(name)) is not None:
                check_unchanged(expected, before, f"cohort {name}")
            writing.commit(pools.delete_cohort(writing.state, name, leave_children=leave_children))

    def update_pool_limits(self, name: str, edit: PoolEdit, *, user: str, dry_run: bool) -> LimitsChange:
        """As `update_pool`, for limits of each user of the pool."""
        held = self._held_before({(Owner.POOL, name)}) if dry_run and "budget" in edit.mentioned else None
        with self.editing(user) as writing:
            before = live_pool(writing.state, name)
            pool = edited_pool(before, edit, writing.state)
            done(writing, pools.put_pool(writing.state, pool, create=False), name, dry_run=dry_run)
            values = LimitValues.of_pool(before), LimitValues.of_pool(pool)
            reached = pool.budget_reached or BudgetReached.STOP
            return _limits_change(writing, (Owner.POOL, name), values, (reached, held), dry_run=dry_run)

    def update_user_limits(self, user: str, edit: Mapping[str, Any], *, by: str, dry_run: bool) -> LimitsChange:
        """Changes the limits of *user* over all pools (rule W6). *edit*: the fields of `Limits` to change.

        Raises InvalidInput.
        """
        scope = (Owner.USER, user)
        held = self._held_before({scope}) if dry_run and "budget" in edit else None
        with self.editing(by) as writing:
            before = writing.state.ledger.users.limits_of(user)
            after = replace(before, **edit)
            plan = limits.put_limits(writing.state, after)
            if not dry_run:
                writing.commit(plan)
            values = LimitValues.of(before), LimitValues.of(after)
            return _limits_change(writing, scope, values, (BudgetReached.STOP, held), dry_run=dry_run)

    def roll_back(self, wanted: Sequence[Pool], *, user: str, said: Said | None = None) -> RolledBack:
        """Makes the ACTIVE pools equal to *wanted*, all or none (rule Q7).

        Deletes other pools, as `delete_pool` does. Raises the errors of the single edits.
        """
        with self.editing(user) as writing:
            writing.said, state = said, writing.state
            kept = {pool.name for pool in wanted}
            active = {pool.name for pool in state.pools.values() if pool.state is PoolState.ACTIVE}
            deleted = sorted(active - kept)
            spec = ClusterSpec(flavors=tuple(state.flavors.values()), pools=_parents_first(wanted))
            writing.commit(pools.declare(state, spec, prune=[f"pool/{name}" for name in deleted], user=user))
            draining = [name for name in sorted(kept) if state.pools[name].state is not PoolState.ACTIVE]
        revision = None if writing.revision is None else writing.revision.number
        return RolledBack(revision, tuple(draining), tuple(deleted))

    # ------------------------------------------------------------ whole files

    def kinds(self, pool: Pool | None = None) -> Kinds:
        """Returns the names that quotas and settings can use: of *pool*, else of any pool."""
        with self._transactor.reading() as state:
            return kinds_of(state, pool)

    def apply(
        self,
        text: str,
        *,
        user: str,
        prune: bool = False,
        dry_run: bool = False,
        if_revision: int | None = None,
        force: bool = False,
    ) -> tuple[Difference, ...]:
        """Returns the changes that the cluster file *text* makes, all or none (rule Q7); *dry_run*: without making
        them.

        *prune*: delete what an earlier apply created and *text* does not contain. Without flavors, *text* uses the
        current ones. *if_revision*: what the file changes must be unchanged since this revision. *force*: also undo
        changes by hand. Raises InvalidInput with all problems, Changed, and Conflict if it would undo changes by hand.
        """
        with self._transactor.reading() as state:
            spec = self.read(state, text)
        return self.declare(
            spec, actor=APPLY + user, prune=prune, dry_run=dry_run, if_revision=if_revision, force=force
        )

    def read(self, state: State, text: str) -> ClusterSpec:
        """Reads the cluster file *text* for *state*. Raises InvalidInput, Conflict."""
        spec = cluster.read_cluster(text, there=tuple(state.flavors.values()), resources=known_resources(state))
        self._check_fixed(state, spec)
        return spec

    def export(self) -> str:
        """Returns a cluster file of all declared settings, which `apply` accepts without a change."""
        grants = [(row.user, row.grant) for row in self._access.users.grants()]
        with self._transactor.reading() as state:
            return cluster_text(state.flavors.values(), state.cohorts.values(), state.pools.values(), grants)

    def declare(
        self,
        spec: ClusterSpec,
        *,
        actor: str,
        prune: bool = False,
        dry_run: bool = False,
        if_revision: int | None = None,
        force: bool = False,
    ) -> tuple[Difference, ...]:
        """Applies a cluster file as *actor*; also at the start, before the backend is fixed.

        Roles have their own store, and come after the pools that they refer to.
        """
        role_changes = roles.changes(self._access, spec.roles, prune=APPLY if prune else None)
        with self.editing(actor) as writing:
            names = self.prunable(writing.state, spec) if prune else ()
            plan = pools.declare(writing.state, spec, prune=names, user=actor.removeprefix(APPLY))
            differences = tuple(by_hand.marked(self._store.log, of_file(writing.state, spec, plan, names)))
            if if_revision is not None:
                check_not_moved(self._store.log, writing.state, differences, if_revision)
            if not dry_run:
                if not force:
                    by_hand.check(differences)
                writing.commit(plan)
        if not dry_run:
            self._access.users.change_roles(role_changes.granted, role_changes.withdrawn, actor)
        return (*differences, *of_roles(role_changes))

    def _check_fixed(self, state: State, spec: ClusterSpec) -> None:
        """Raises Conflict if the file would change the backend or its nodes, which are fixed once a server has started."""
        if spec.backend_type is not None and spec.backend_type != self._backend.name:
            raise Conflict(
                f"the file sets backend {spec.backend_type}, but this server was started with {self._backend.name}. "
                "Remove `backend` from the file, or start another server"
            )
        there = {node.name: node for node in state.nodes.values()}
        changed = [node.name for node in spec.nodes if there.get(node.name, node).resources != node.resources]
        missing = [node.name for node in spec.nodes if node.name not in there]
        if there and (changed or missing) and self._backend.name == "simulated":
            raise Conflict(
                f"nodes cannot change while the server runs, but these differ: {', '.join([*changed, *missing][:5])}. "
                "Restart `runrig up` with this file, or remove `nodes` from it"
            )

    def prunable(self, state: State, spec: ClusterSpec) -> tuple[str, ...]:
        """Returns pools and cohorts that an apply created and *spec* lacks, as ``kind/name``. Reads only their log."""
        kept_pools, kept_cohorts = {pool.name for pool in spec.pools}, {cohort.name for cohort in spec.cohorts}
        live = sorted(each.name for each in state.pools.values() if each.state is not PoolState.ARCHIVED)
        pools_made = [name for name in live if name not in kept_pools and self._applied_pool(name)]
        cohorts = set(state.cohorts) - kept_cohorts
        cohorts_made = sorted(cohorts & self._applied_cohorts()) if cohorts else []
        return (*(f"pool/{name}" for name in pools_made), *(f"cohort/{name}" for name in cohorts_made))

    def _applied_pool(self, name: str) -> bool:
        creations = [
            event
            for event in self._store.log.events(pool=name)
            if isinstance(event.action, PutPool) and is_creation(event.action)
        ]
        return bool(creations) and creations[-1].actor.startswith(APPLY)

    def _applied_cohorts(self) -> set[str]:
        makers: dict[str, str] = {}
        for event in self._store.log.cohort_changes():
            if isinstance(event.action, PutCohort) and event.action.before is None:
                makers[event.action.cohort.name] = event.actor
        return {name for name, actor in makers.items() if actor.startswith(APPLY)}

    @contextmanager
    def editing(self, actor: str) -> Iterator[Writing]:
        """Runs a command of *actor*. Wakes the loop, because any change of the cluster may let a workflow start."""
        with self._transactor.writing(actor) as writing:
            yield writing
        if writing.committed:
            self._reconciler.wake()


def _limits_change(
    writing: Writing,
    scope: Scope,
    values: tuple[LimitValues, LimitValues],
    budget: tuple[BudgetReached, HeldBefore | None],
    *,
    dry_run: bool,
) -> LimitsChange:
    """*values*: before and after. *budget*: what a reached one does, and what was held before. *dry_run*: also foresees its effect."""
    of, name = scope
    user, pool = (name, None) if of == Owner.USER else (None, name)
    before, after = values
    over = limit_queries.above(writing.state, after, pool, () if user is None else (user,), now=writing.now)
    spent = None
    if dry_run and after.budget is not None and before.budget != after.budget:
        reached, held = budget
        spent = budgets.preview(writing.state, scope, (after.budget, reached), writing.now, held)
    return LimitsChange(user, pool, before, after, over, spent)


def end_of_pause(until: str | None, now: float) -> float | None:
    """Returns when a pause until *until*, a duration or a time, ends; None: not by itself. Raises InvalidInput."""
    try:
        return None if until is None else parse_until(until, now)
    except ValueError as error:
        raise InvalidInput.one(str(error), "until") from None


def _parents_first(found: Sequence[Pool]) -> tuple[Pool, ...]:
    return tuple(sorted(found, key=lambda pool: (pool.parent is not None, pool.name)))
