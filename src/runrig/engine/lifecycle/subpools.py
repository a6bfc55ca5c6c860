"""Rules for subpools: names, inherited settings, and that all subpools together fit in their parent (rules S1, S4, S5)."""

from collections.abc import Iterator, Mapping

from runrig.domain.errors import Conflict, InvalidInput, NotFound, Refused
from runrig.domain.pools import SUBPOOL_DELIMITER, Pool, PoolState, gpus_of, marked_as, subpool_name_problem, subpool_of
from runrig.domain.quantities import FlavorResource, amount_in_a_sentence, amount_of_flavor, few, has_several_flavors

MOST_NAMED = 10
"""Maximum number of pools that a message names."""


def existing(pools: Mapping[str, Pool], name: str) -> Pool:
    """The pool *name*, in any state. Raises NotFound."""
    if (pool := pools.get(name)) is None:
        raise NotFound(f"unknown pool {name!r}. List pools with `runrig pool list`")
    return pool


def parent_of(pools: Mapping[str, Pool], subpool: Pool) -> Pool:
    """The parent of *subpool*, which need not exist yet.

    Raises InvalidInput if its name is invalid, NotFound if the parent does not exist, Refused if the parent is itself a
    subpool, and Conflict unless the parent is ACTIVE.
    """
    name, short = subpool.parent or "", subpool.subpool_name or ""
    parent = pools.get(name)
    if parent is None:
        raise NotFound(
            f"unknown pool {name!r}, so it cannot have a subpool {short!r}. List pools with `runrig pool list`"
        )
    if parent.parent is not None:
        raise Refused(
            f"{name} is a subpool, and a subpool cannot have subpools. Create {short!r} in {parent.parent} instead",
            law="S5",
            details={"pool": name, "parent": parent.parent},
        )
    problem = subpool_name_problem(name, short)
    if problem is None and subpool.name != f"{name}{SUBPOOL_DELIMITER}{short}":
        problem = f"subpool {short!r} of {name!r} must be called {name}--{short}"
    InvalidInput.check(problem, "name")
    if parent.state is not PoolState.ACTIVE:
        raise Conflict(f"pool {name} is {parent.state.value}: its subpools can no longer be created or changed")
    return parent


def inherited(parent: Pool, subpool: Pool) -> Pool:
    """*subpool* with the settings of its parent and its share of the other resources (rule S5)."""
    after = subpool_of(parent, subpool.subpool_name or "", gpus_of(subpool.quotas), subpool.state)
    return marked_as(after, subpool)


def followers(pools: Mapping[str, Pool], parent: Pool) -> Iterator[tuple[Pool, Pool]]:
    """Yields (before, after) for each live subpool that the settings of *parent* change, by name."""
    for child in children_of(pools, parent.name):
        after = inherited(parent, child)
        if after != child:
            yield child, after


def children_of(pools: Mapping[str, Pool], parent: str) -> list[Pool]:
    """The ACTIVE and DELETING subpools of *parent*, by name."""
    children = [pool for pool in pools.values() if pool.parent == parent and pool.state is not PoolState.ARCHIVED]
    return sorted(children, key=lambda pool: pool.name)


def check_slices(pools: Mapping[str, Pool], changed: Pool) -> None:
    """Raises Refused if the subpools of one parent, including DELETING ones, would have more quota than the parent (rule S1).

    *pools*: the future pools. *changed*: the parent or one of its subpools.
    """
    parent = pools[changed.parent or changed.name]
    children = children_of(pools, parent.name)
    for key in sorted({key for child in children for key in child.quotas}):
        total, most = sum(_nominal(child, key) for child in children), _nominal(parent, key)
        if total > most:
            raise _over(parent, children, key, changed)


def _over(parent: Pool, children: list[Pool], key: FlavorResource, changed: Pool) -> Refused:
    total, most = sum(_nominal(child, key) for child in children), _nominal(parent, key)
    parts = sorted(((_nominal(child, key), child) for child in children), key=lambda part: (-part[0], part[1].name))
    several = has_several_flavors({each for pool in (parent, *children) for each in pool.quotas}, key.resource)

    def words(amount: int) -> str:
        return amount_of_flavor(str(key), amount, named=several)

    def short(amount: int) -> str:
        return amount_in_a_sentence(key.resource, amount)

    named = [
        f"{child.subpool_name} {short(amount)}" + (" DELETING" if child.state is PoolState.DELETING else "")
        for amount, child in parts
    ]
    names = few(named, MOST_NAMED)
    details: dict[str, object] = {"pool": parent.name, "resource": str(key), "asked": total, "limit": most}
    details["subpools"] = {child.name: amount for amount, child in parts}
    if changed.name == parent.name:
        text = f"pool {parent.name} cannot have a quota of {words(most)}: its subpools have {short(total)} ({names})"
        return Refused(f"{text}. Keep at least {short(total)}, or reduce the subpools first", law="S1", details=details)
    left = most - total + _nominal(changed, key)
    text = (
        f"the subpools of {parent.name} would have {words(total)} ({names}), but {parent.name} has only {short(most)}"
    )
    way_out = f"Give {changed.subpool_name} at most {short(left)}, r" if left > 0 else "R"
    return Refused(
        f"{text}. {way_out}educe other subpools, or raise the quota of {parent.name}",
        law="S1",
        details=details | {"unallocated": left},
    )


def _nominal(pool: Pool, key: FlavorResource) -> int:
    quota = pool.quotas.get(key)
    return 0 if quota is None else quota.nominal
