"""Edits of a pool or cohort: only the mentioned fields change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runrig.domain.amounts import ONLY, Amount, Share
from runrig.domain.errors import InvalidInput, NotFound, Problem
from runrig.domain.meant import suggested
from runrig.domain.pools import Cohort, Pool, Quota, Quotas, name_problem
from runrig.domain.quantities import FlavorResource, few
from runrig.domain.settings import PARTS, SETTINGS
from runrig.engine.state.state import State
from runrig.service.queries.lookup import flavors_of
from runrig.spec.quota import RESOURCES, Kinds, resolved_share


@dataclass(frozen=True, slots=True)
class PoolEdit:
    """*amounts*: applied in this order. *share*: the quota of a subpool; None if it does not change.
    *settings*: those that change, by field of `Pool`, as `spec.settings` read them."""

    amounts: tuple[Amount, ...] = ()
    share: Share | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mentioned(self) -> set[str]:
        """The fields of a request that it came from."""
        shared = set() if self.share is None else {PARTS["nominal"]}
        amounts = {PARTS[each.part] for each in self.amounts}
        return shared | amounts | {each.asked for each in SETTINGS if each.name in self.settings}


@dataclass(frozen=True, slots=True)
class CohortEdit:
    """As a `PoolEdit`, with fields of `Cohort`."""

    amounts: tuple[Amount, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


# ---------------------------------------------------------------- edited records


def edited_pool(pool: Pool, edit: PoolEdit, state: State) -> Pool:
    """Raises InvalidInput; NotFound for an unknown cohort."""
    if pool.parent is not None:
        return _edited_subpool(pool, edit, state)
    if "cohort" in edit.settings:
        _check_cohort(state, edit.settings["cohort"])
    changed = replace(pool, **edit.settings)
    return replace(changed, quotas=_edited_quotas(pool.quotas, edit.amounts, changed.flavors or tuple(state.flavors)))


def _edited_subpool(pool: Pool, edit: PoolEdit, state: State) -> Pool:
    """Only the quota of a subpool can be edited (rule S5)."""
    others = sorted(edit.mentioned - {"quota"})
    if others:
        raise InvalidInput(
            tuple(
                Problem(f"subpool {pool.name} inherits {name} from {pool.parent}. Change it there", name)
                for name in others
            )
        )
    assert not edit.amounts, "what changes of its quota is its share"
    if edit.share is None:
        return pool
    return replace(pool, quotas=shared_quotas(state, state.pools[pool.parent or ""], edit.share))


def shared_quotas(state: State, parent: Pool, share: Share) -> Quotas:
    """The quota of a subpool of *parent*.  Raises InvalidInput."""
    try:
        return resolved_share(share, parent.quotas, parent.flavors or tuple(state.flavors))
    except ValueError as error:
        raise InvalidInput.one(f"quota: {error}", "quota") from None


def edited_cohort(cohort: Cohort, edit: CohortEdit, state: State) -> Cohort:
    """Raises InvalidInput; NotFound for an unknown parent."""
    parent = edit.settings.get("parent")
    if parent != cohort.name:  # Otherwise it is reported later as a cycle, with a better message.
        _check_cohort(state, parent)
    quotas = _edited_quotas(cohort.quotas, edit.amounts, tuple(state.flavors))
    return replace(cohort, **edit.settings, quotas=quotas)


def _check_cohort(state: State, name: str | None) -> None:
    """Raises NotFound unless cohort *name* is declared or others name it (rule Q6): only a file can introduce a new name."""
    known = sorted(node.name for node in state.ledger.tree.cohorts.values())
    if name is None or name in known or name_problem("cohort", name):  # Invalid names are reported later.
        return
    there = suggested(name, known, f" (cohorts: {few(known) or 'none'}).")
    raise NotFound(f"unknown cohort {name!r}{there} To create it: `runrig cohort create {name}`")


def _edited_quotas(before: Quotas, amounts: Iterable[Amount], flavors: tuple[str, ...]) -> Quotas:
    """Returns *before* with *amounts*: a nominal of None removes the quota, a limit of None means no limit.

    Raises InvalidInput for a flavor that the pool does not have.
    """
    quotas = dict(before)
    for each in amounts:
        key, name = _key(each, quotas, flavors), PARTS[each.part]
        if each.part == "nominal" and each.value is None:
            quotas.pop(key, None)
        elif each.value is None and key in before and key not in quotas:
            continue  # The edit removes the quota, and its limits with it.
        elif key.flavor in flavors:
            change: dict[str, Any] = {each.part: each.value}
            quotas[key] = replace(quotas.get(key, Quota()), **change)
        else:
            raise InvalidInput.one(
                f"{name}: {key.flavor!r} is not one of the pool's flavors ({few(flavors)}). Add it there", name
            )
    return quotas


def _key(amount: Amount, quotas: Quotas, flavors: tuple[str, ...]) -> FlavorResource:
    """Returns the flavor and resource. A limit without a flavor applies to the only quota of its resource."""
    if amount.key.flavor != ONLY:
        return amount.key
    resource, name = amount.key.resource, PARTS[amount.part]
    limited = () if amount.part == "nominal" else sorted(key.flavor for key in quotas if key.resource == resource)
    found = tuple(limited) or flavors
    if len(found) != 1:
        raise InvalidInput.one(f"{name}: {Kinds(found, found).ambiguity(whole=amount.part == 'nominal')}", name)
    return FlavorResource(found[0], resource)


def kinds_of(state: State, pool: Pool | None) -> Kinds:
    declared = tuple(state.flavors)
    flavors = declared if pool is None else tuple(each for each in flavors_of(state, pool) if each in declared)
    return Kinds(flavors, declared, tuple(dict.fromkeys((*RESOURCES, *known_resources(state)))))


def known_resources(state: State) -> list[str]:
    """Returns the resources of all nodes and quotas. A quota can have resources whose nodes no longer exist."""
    quotas = [each.quotas for each in state.pools.values()] + [each.quotas for each in state.cohorts.values()]
    promised = {key.resource for each in quotas for key in each}
    return sorted(promised.union(*(node.resources for node in state.nodes.values())))
