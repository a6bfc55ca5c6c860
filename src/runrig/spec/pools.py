"""The `cohorts` and `pools` of a cluster file."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from runrig.domain.pools import (
    MOST_WEIGHT,
    Cohort,
    Pool,
    Quotas,
    gpus_of,
    run_time_problem,
    subpool_name_problem,
    subpool_of,
)
from runrig.domain.quantities import GPU, FlavorResource, amount_in_words
from runrig.domain.settings import SETTINGS
from runrig.spec.cycles import cycles
from runrig.spec.fields import Field, Fields, Problems, closest, each, repeated
from runrig.spec.quota import Kinds, read_quota, read_share
from runrig.spec.settings import read_name, read_settings
from runrig.spec.yamltree import node_of

_COHORT = ("name", "parent", "quota", "weight")
_POOL = ("name", "quota", "subpools", "namespaces", *(each.asked for each in SETTINGS))
_LIMIT_HINT = "set it in the quota, as in quota: {gpu: {nominal: 8, borrowing_limit: 4}}"
_HINTS = dict.fromkeys(("borrowing_limit", "lending_limit", "borrowingLimit", "lendingLimit"), _LIMIT_HINT)
_SUBPOOL_HINTS = dict.fromkeys(_POOL, "a subpool has only name and quota; it inherits the rest")
NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


# ---------------------------------------------------------------- cohorts


def read_cohorts(fields: Fields, kinds: Kinds) -> tuple[Cohort, ...]:
    """Returns the cohorts, and reports cycles of parents (rule Q7). A parent that is not in the file is an empty cohort (rule Q6)."""
    found: list[tuple[Cohort, Field]] = []
    names = []
    for inner, (name,) in each(fields["cohorts"].items(), "a cohort", _COHORT, {"name": "name: research"}, _HINTS):
        parent, quota = inner["parent"], inner["quota"]
        cohort = Cohort(
            read_name(name, "cohort"),
            read_name(parent, "cohort") or None,
            read_quota(quota, kinds),
            inner["weight"].whole(1, MOST_WEIGHT) or 1,
        )
        names.append((cohort.name, name))
        found.append((cohort, parent or name))
    repeated(names, "cohort")
    _check_parents(found)
    return tuple(cohort for cohort, _ in found)


def _check_parents(found: Sequence[tuple[Cohort, Field]]) -> None:
    parents = {cohort.name: cohort.parent for cohort, _ in found}
    fields = {cohort.name: field for cohort, field in found}
    for cycle in cycles(parents):
        fields[cycle[0]].wrong(f"the parents of cohorts form a cycle: {' → '.join([*cycle, cycle[0]])}")


# ---------------------------------------------------------------- pools


def read_pools(fields: Fields, kinds: Kinds) -> tuple[Pool, ...]:
    """Returns the pools in file order, parents before subpools."""
    pools: list[Pool] = []
    names = []
    for inner, (name,) in each(fields["pools"].items(), "a pool", _POOL, {"name": "name: vision"}, _HINTS):
        pool, own = _pool(inner, read_name(name, "pool"), kinds)
        names.append((pool.name, name))
        pools += [pool, *_subpools(inner, pool, own)]
    repeated(names, "pool")
    return tuple(pools)


def pool_from_json(settings: Mapping[str, object], kinds: Kinds, path: str) -> Pool:
    """Returns the pool declared by *settings*, an entry of `pools`.  Raises InvalidInput with all problems, below *path*."""
    problems = Problems()
    inner = Field(node_of(settings), path, problems).fields("a pool", _POOL, _HINTS)
    pool, _ = _pool(inner, read_name(inner["name"], "pool"), kinds)
    problems.raise_if_any()
    return pool


def _pool(fields: Fields, name: str, kinds: Kinds) -> tuple[Pool, Kinds]:
    """Returns the pool, and the names that quotas in it can use."""
    settings = read_settings(fields, kinds)
    own = replace(kinds, flavors=settings.get("flavors") or kinds.declared)
    wanted = settings.get("default_platform")
    if wanted is not None and wanted not in own.flavors:
        fields["default_platform"].wrong(f"{wanted!r} is not one of the pool's flavors. {closest(wanted, own.flavors)}")
    pool = Pool(name, read_quota(fields["quota"], own), **settings)
    if problem := run_time_problem(pool.default_run_time_s, pool.max_run_time_s):
        (fields["default_run_time"] or fields["max_run_time"]).wrong(problem)
    _check_namespaces(fields)
    return pool, own


def _check_namespaces(fields: Fields) -> None:
    """Checks the syntax of namespaces; they matter only on Kubernetes."""
    for item in fields["namespaces"].items():
        item.matching(NAMESPACE, "is not a namespace. Use up to 63 lower-case letters, digits and '-'.")


# ---------------------------------------------------------------- subpools


def _subpools(fields: Fields, parent: Pool, kinds: Kinds) -> list[Pool]:
    subpools, names = [], []
    items = fields["subpools"].items()
    for inner, (name,) in each(items, "a subpool", ("name", "quota"), {"name": "name: a"}, _SUBPOOL_HINTS):
        quota = inner.need("quota", 'quota: 8, or "25%"')
        short = name.text() or ""
        if short and (problem := subpool_name_problem(parent.name, short)):
            name.wrong(problem)
        quotas = read_share(quota, parent.quotas, kinds)
        names.append((short, name))
        subpools.append(subpool_of(parent, short, gpus_of(quotas)))
    repeated(names, "subpool")
    _check_sum(fields, parent, [pool.quotas for pool in subpools])
    return subpools


def _check_sum(fields: Fields, parent: Pool, shares: Sequence[Quotas]) -> None:
    """Reports subpools that together have more than their parent (rule S1)."""
    sums: dict[FlavorResource, int] = {}
    for quotas in shares:
        for key, quota in quotas.items():
            sums[key] = sums.get(key, 0) + quota.nominal
    field = fields["subpools"]
    for key, amount in sums.items():
        if key.resource == GPU and amount > parent.quotas[key].nominal:
            whole = parent.quotas[key].nominal
            field.wrong(
                f"together they have {amount_in_words(GPU, amount)} ({key.flavor}), "
                f"but pool {parent.name} has {whole}. Reduce their quotas."
            )
