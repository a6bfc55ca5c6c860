"""Edits of a pool or cohort: only the mentioned fields change."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runrig.domain.errors import InvalidInput, NotFound, Problem
from runrig.domain.keep import KEEP, Keep
from runrig.domain.meant import suggested
from runrig.domain.pools import Cohort, Pool, Quota, Quotas, name_problem
from runrig.domain.quantities import GPU, FlavorResource
from runrig.domain.settings import PARTS, SETTINGS
from runrig.engine.state.state import State
from runrig.spec import cluster
from runrig.spec.quota import RESOURCES, Kinds

QuotaText = int | str | Mapping[str, object]
"""GPUs; ``h100=8,b200/cpu=96``; ``none`` for no quota; or a map of flavors and resources, as in a cluster file."""

LimitText = int | str
"""GPUs of the only flavor, or ``h100=8,b200/cpu=none``."""


@dataclass(frozen=True, slots=True)
class PoolEdit:
    """*settings*: the changed fields of `Pool`, as `spec.settings` read them."""

    quota: QuotaText | Keep = KEEP
    borrowing_limit: LimitText | Keep | None = KEEP
    lending_limit: LimitText | Keep | None = KEEP
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mentioned(self) -> set[str]:
        """Returns the fields mentioned in the request."""
        amounts = {each for each in PARTS.values() if not isinstance(getattr(self, each), Keep)}
        return amounts | {each.asked for each in SETTINGS if each.name in self.settings}


@dataclass(frozen=True, slots=True)
class CohortEdit:
    quota: QuotaText | Keep = KEEP
    parent: str | Keep | None = KEEP
    borrowing_limit: LimitText | Keep | None = KEEP
    lending_limit: LimitText | Keep | None = KEEP
    weight: int | Keep = KEEP


# ---------------------------------------------------------------- edited records


def edited_pool(pool: Pool, edit: PoolEdit, state: State) -> Pool:
    """Raises InvalidInput; NotFound for an unknown cohort."""
    if pool.parent is not None:
        return _edited_subpool(pool, edit, state)
    if "cohort" in edit.settings:
        known_cohort(state, edit.settings["cohort"])
    changed = replace(pool, **edit.settings)
    return replace(changed, quotas=_edited_quotas(pool.quotas, edit, changed.flavors or tuple(state.flavors), state))


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
    if isinstance(edit.quota, Keep):
        return pool
    parent = state.pools[pool.parent or ""]
    return replace(
        pool, quotas=cluster.share_from_json(edit.quota, parent.quotas, parent.flavors or tuple(state.flavors))
    )


def edited_cohort(cohort: Cohort, edit: CohortEdit, state: State) -> Cohort:
    """Raises InvalidInput; NotFound for an unknown parent."""
    its_own = edit.parent == cohort.name  # A cycle, which has a better message.
    return replace(
        cohort,
        parent=cohort.parent
        if isinstance(edit.parent, Keep)
        else edit.parent
        if its_own
        else known_cohort(state, edit.parent),
        weight=cohort.weight if isinstance(edit.weight, Keep) else edit.weight,
        quotas=_edited_quotas(cohort.quotas, edit, tuple(state.flavors), state),
    )


def known_cohort(state: State, name: str | None) -> str | None:
    """Returns *name*, a declared cohort or one that others name (rule Q6). Raises NotFound for a new name, which only a
    file can introduce.
    """
    known = sorted(node.name for node in state.ledger.tree.cohorts.values())
    if name is None or name in known or name_problem("cohort", name):  # Invalid names are reported later.
        return name
    there = suggested(name, known, f" (cohorts: {cluster.listed(known) or 'none'}).")
    raise NotFound(f"unknown cohort {name!r}{there} To create it: `runrig cohort create {name}`")


def _edited_quotas(before: Quotas, edit: PoolEdit | CohortEdit, flavors: tuple[str, ...], state: State) -> Quotas:
    """The short form of a quota changes nominal amounts and keeps limits; the full form replaces everything that it
    mentions.
    """
    quotas = dict(before)
    resources = known_resources(state)
    if isinstance(edit.quota, Mapping):
        quotas.update(cluster.quota_from_json(edit.quota, flavors, resources))
    elif isinstance(edit.quota, str):
        for key, amount in cluster.amounts_from_text(edit.quota, flavors, resources).items():
            if amount is None:
                quotas.pop(key, None)
            else:
                quotas[key] = replace(quotas.get(key, Quota()), nominal=amount)
    elif not isinstance(edit.quota, Keep):
        for key, quota in cluster.quota_from_json(edit.quota, flavors).items():
            quotas[key] = replace(quotas.get(key, Quota()), nominal=quota.nominal)
    for key, limit in _limits(edit.borrowing_limit, "borrowing_limit", quotas, flavors, resources):
        quotas[key] = replace(quotas.get(key, Quota()), borrowing_limit=limit)
    for key, limit in _limits(edit.lending_limit, "lending_limit", quotas, flavors, resources):
        quotas[key] = replace(quotas.get(key, Quota()), lending_limit=limit)
    return quotas


def kinds_of(state: State) -> Kinds:
    flavors = tuple(state.flavors)
    return Kinds(flavors, flavors, tuple(dict.fromkeys((*RESOURCES, *known_resources(state)))))


def known_resources(state: State) -> list[str]:
    """Returns the resources of all nodes and quotas. A quota can have resources whose nodes no longer exist."""
    quotas = [each.quotas for each in state.pools.values()] + [each.quotas for each in state.cohorts.values()]
    promised = {key.resource for each in quotas for key in each}
    return sorted(promised.union(*(node.resources for node in state.nodes.values())))


def _limits(
    limit: LimitText | Keep | None, name: str, quotas: Quotas, flavors: tuple[str, ...], resources: Sequence[str]
) -> Iterator[tuple[FlavorResource, int | None]]:
    """Yields (key, limit) for each limit in the request."""
    if isinstance(limit, str):
        yield from cluster.amounts_from_text(limit, flavors, resources, path=name).items()
    elif not isinstance(limit, Keep):
        if limit is not None and limit < 0:
            raise InvalidInput.one(f"invalid {name} {limit}. Use 0 or more", name)
        yield _gpu_key(quotas, flavors, name), limit


def _gpu_key(quotas: Quotas, flavors: tuple[str, ...], name: str) -> FlavorResource:
    """Returns the only GPU quota, to which a plain limit applies."""
    keys = sorted(key for key in quotas if key.resource == GPU) or [FlavorResource(name, GPU) for name in flavors]
    if len(keys) != 1:
        raise InvalidInput.one(
            f"this cluster has {len(keys)} GPU flavors ({', '.join(key.flavor for key in keys)}). "
            f"Set the limit for each, such as {','.join(f'{key.flavor}=8' for key in keys)}",
            name,
        )
    return keys[0]
