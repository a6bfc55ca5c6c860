"""Differences between a plan and the declared settings: the lines that `apply` prints."""

from collections.abc import Iterator, Sequence

from runrig.domain.access import Grant
from runrig.domain.cluster import ClusterSpec
from runrig.domain.nodes import Flavor
from runrig.domain.plan import DropCohort, Plan, PutCohort, PutPool, SetFlavors
from runrig.domain.pools import Cohort, Pool, PoolState
from runrig.domain.shown.declared import Action, ChangeOf, DeclaredKind
from runrig.engine.state.state import State
from runrig.service.access.roles import RoleChanges


class Difference(ChangeOf[Pool | Cohort | Flavor | Grant]):
    """One line of an apply. *kind*: pool, cohort, flavor, or role (named ``USER ROLE``).

    *action*: create, update, delete, unchanged, or keep: a cohort that cannot be pruned because it has children that
    are not in the file. *undoes*: the change by hand that it would undo, as a sentence (`by_hand`).
    """

    __slots__ = ()


def of_file(state: State, spec: ClusterSpec, plan: Plan, prune: Sequence[str]) -> Iterator[Difference]:
    """Returns the differences in the order of the plan, then cohorts that cannot be pruned, then everything unchanged."""
    touched: set[tuple[str, str]] = set()
    for difference in of_plan(state, plan):
        touched.add((difference.kind, difference.name))
        yield difference
    for name in sorted(name for name in state.cohorts if f"cohort/{name}" in prune and ("cohort", name) not in touched):
        yield Difference("keep", "cohort", name, state.cohorts[name], state.cohorts[name])
    declared: tuple[tuple[DeclaredKind, Sequence[Cohort | Pool]], ...] = (
        ("cohort", spec.cohorts),
        ("pool", spec.pools),
    )
    for kind, several in declared:
        for each in several:
            if (kind, each.name) not in touched:
                yield Difference("unchanged", kind, each.name, each, each)


def of_plan(state: State, plan: Plan) -> Iterator[Difference]:
    """Returns the declared settings that *plan* changes, in its order."""
    for action in plan.actions:
        yield from _of_action(state, action)


def _of_action(state: State, action: object) -> Iterator[Difference]:
    match action:
        case PutPool(pool, before):
            deleted = before is not None and before.state is PoolState.ACTIVE and pool.state is not PoolState.ACTIVE
            verb: Action = "create" if is_creation(action) else "delete" if deleted else "update"
            yield Difference(verb, "pool", pool.name, before, pool)
        case PutCohort(cohort, before):
            yield Difference("create" if before is None else "update", "cohort", cohort.name, before, cohort)
        case DropCohort(before):
            yield Difference("delete", "cohort", before.name, before, None)
        case SetFlavors(flavors):
            after = {flavor.name: flavor for flavor in flavors}
            for name in sorted({*after, *state.flavors}):
                old, new = state.flavors.get(name), after.get(name)
                if old != new:
                    verb = "create" if old is None else "delete" if new is None else "update"
                    yield Difference(verb, "flavor", name, old, new)


def of_roles(found: RoleChanges) -> Iterator[Difference]:
    for user, grant in found.granted:
        yield Difference("create", "role", f"{user} {grant}", None, grant)
    for row in found.withdrawn:
        yield Difference("delete", "role", f"{row.user} {row.grant}", row.grant, None)
    for user, grant in found.unchanged:
        yield Difference("unchanged", "role", f"{user} {grant}", grant, grant)


def is_creation(action: PutPool) -> bool:
    return action.before is None or action.before.state is PoolState.ARCHIVED
