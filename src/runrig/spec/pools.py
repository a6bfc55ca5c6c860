"""The `cohorts` and `pools` of a cluster file."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from runrig.domain.pools import (
    DEFAULT_GRACE_S,
    MOST_WEIGHT,
    Cohort,
    Pool,
    Queueing,
    Quotas,
    TopologyKey,
    gpus_of,
    name_problem,
    run_time_problem,
    subpool_name_problem,
    subpool_of,
    topology_problem,
)
from runrig.domain.quantities import GPU, FlavorResource, amount_in_words
from runrig.spec.fields import Field, Fields, Problems, closest, repeated
from runrig.spec.quota import RESOURCES, Kinds, read_quota, read_share
from runrig.spec.task import exit_rules
from runrig.spec.values import parse_duration
from runrig.spec.yamltree import node_of

_COHORT = ("name", "parent", "quota", "weight")
_POOL = (
    *("name", "cohort", "quota", "topology_keys", "subpools", "weight", "queueing", "grace_s", "flavors"),
    *("default_platform", "default_exit_actions", "namespaces", "description"),
    *("default_run_time", "max_run_time"),
)
_LIMIT_HINT = "set it in the quota, as in quota: {gpu: {nominal: 8, borrowing_limit: 4}}"
_HINTS = dict.fromkeys(("borrowing_limit", "lending_limit", "borrowingLimit", "lendingLimit"), _LIMIT_HINT)
_SUBPOOL_HINTS = dict.fromkeys(_POOL, "a subpool has only name and quota; it inherits the rest")
_QUEUEING = {queueing.value: queueing for queueing in Queueing}
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LONGEST_GRACE_S = 86_400.0


def read_name(field: Field | None, kind: str) -> str:
    """Returns a valid name for a pool or cohort (rule S4); "" if there is none."""
    name = field.text() if field else None
    if field is not None and name is not None and (problem := name_problem(kind, name)):
        field.wrong(problem)
    return name or ""


# ---------------------------------------------------------------- cohorts


def read_cohorts(fields: Fields, kinds: Kinds) -> tuple[Cohort, ...]:
    """Returns the cohorts, and reports cycles of parents (rule Q7). A parent that is not in the file is an empty cohort (rule Q6)."""
    found: list[tuple[Cohort, Field]] = []
    names = []
    for item in fields.items("cohorts"):
        inner = item.fields("a cohort", _COHORT, _HINTS)
        name = inner.need("name", "name: research") if inner else None
        if inner is None or name is None:
            continue
        parent, quota = inner.get("parent"), inner.get("quota")
        cohort = Cohort(
            read_name(name, "cohort"),
            read_name(parent, "cohort") or None,
            read_quota(quota, kinds) if quota else {},
            inner.whole("weight", 1, MOST_WEIGHT) or 1,
        )
        names.append((cohort.name, name))
        found.append((cohort, parent or name))
    repeated(names, "cohort")
    _check_parents(found)
    return tuple(cohort for cohort, _ in found)


def _check_parents(found: Sequence[tuple[Cohort, Field]]) -> None:
    parents = {cohort.name: cohort.parent for cohort, _ in found}
    fields = {cohort.name: field for cohort, field in found}
    seen: set[str] = set()
    for start in parents:
        path: list[str] = []
        at: str | None = start
        while at is not None and at in parents and at not in seen:
            seen.add(at)
            path.append(at)
            at = parents[at]
        if at in path:
            cycle = [*path[path.index(at) :], at]
            fields[at].wrong(f"the parents of cohorts form a cycle: {' → '.join(cycle)}")


# ---------------------------------------------------------------- pools


def read_pools(fields: Fields, kinds: Kinds) -> tuple[Pool, ...]:
    """Returns the pools in file order, parents before subpools."""
    pools: list[Pool] = []
    names = []
    for item in fields.items("pools"):
        inner = item.fields("a pool", _POOL, _HINTS)
        name = inner.need("name", "name: vision") if inner else None
        if inner is None or name is None:
            continue
        pool, own = _pool(inner, read_name(name, "pool"), kinds)
        names.append((pool.name, name))
        pools += [pool, *_subpools(inner, pool, own)]
    repeated(names, "pool")
    return tuple(pools)


def pool_from_json(
    settings: Mapping[str, object], flavors: tuple[str, ...], resources: Collection[str], path: str
) -> Pool:
    """Returns the pool declared by *settings*, an entry of `pools`. *flavors*: all. *resources*: in addition to the
    standard ones.

    Raises InvalidInput with all errors, with paths below *path*.
    """
    problems = Problems()
    kinds = Kinds(flavors, flavors, tuple(dict.fromkeys((*RESOURCES, *resources))))
    inner = Field(node_of(settings), path, problems).fields("a pool", _POOL, _HINTS)
    pool = _pool(inner, read_name(inner.get("name"), "pool"), kinds)[0] if inner else None
    problems.raise_if_any()
    assert pool is not None, "settings without a problem declare a pool"
    return pool


def _pool(fields: Fields, name: str, kinds: Kinds) -> tuple[Pool, Kinds]:
    """Returns the pool, and the names that quotas in it can use."""
    flavors = _flavors(fields, kinds)
    own = replace(kinds, flavors=flavors or kinds.declared)
    quota, platform = fields.get("quota"), fields.get("default_platform")
    if platform is not None and (wanted := platform.text()) is not None and wanted not in own.flavors:
        platform.wrong(f"{wanted!r} is not one of the pool's flavors: {closest(wanted, own.flavors)}")
    queueing, grace = fields.get("queueing"), fields.get("grace_s")
    grace_s = grace.number(0, _LONGEST_GRACE_S) if grace else None
    _check_namespaces(fields)
    run_times = _run_times(fields)
    pool = Pool(
        name,
        read_quota(quota, own) if quota else {},
        cohort=read_name(fields.get("cohort"), "cohort") or None,
        weight=fields.whole("weight", 1, MOST_WEIGHT) or 1,
        queueing=(queueing.choice(_QUEUEING) if queueing else None) or Queueing.BEST_EFFORT_FIFO,
        grace_s=DEFAULT_GRACE_S if grace_s is None else grace_s,
        flavors=flavors,
        topology_keys=_topology_keys(fields),
        default_platform=fields.text("default_platform"),
        default_exit_actions=tuple(
            (rule.action.value, rule.first, rule.last) for rule in exit_rules(fields, "default_exit_actions")
        ),
        description=fields.text("description") or "",
        default_run_time_s=run_times[0],
        max_run_time_s=run_times[1],
    )
    return pool, own


def _run_times(fields: Fields) -> tuple[float | None, float | None]:
    """Returns (default, maximum), in seconds (rule P6)."""
    found = [fields.get(name) for name in ("default_run_time", "max_run_time")]
    default_s, most_s = (field.parsed(parse_duration) if field else None for field in found)
    last = found[0] or found[1]
    if last is not None and (problem := run_time_problem(default_s, most_s)):
        last.wrong(problem)
    return default_s, most_s


def _flavors(fields: Fields, kinds: Kinds) -> tuple[str, ...]:
    found = [(name, item) for item in fields.items("flavors") if (name := item.text()) is not None]
    for name, item in found:
        if name not in kinds.declared:
            item.wrong(f"unknown flavor {name!r}: {closest(name, kinds.declared)}")
    repeated(found, "flavor")
    return tuple(dict.fromkeys(name for name, _ in found if name in kinds.declared))


def _topology_keys(fields: Fields) -> tuple[TopologyKey, ...]:
    keys, labels, found = [], [], []
    for item in fields.items("topology_keys"):
        inner = item.fields("a topology key", ("key", "label"))
        key = inner.need("key", "key: rack") if inner else None
        label = inner.need("label", "label: topology.kubernetes.io/rack") if inner else None
        if key is None or label is None:
            continue
        found.append(TopologyKey(key.text() or "", label.text() or ""))
        keys.append((found[-1].key, key))
        labels.append((found[-1].label, label))
    repeated(keys, "the key")
    repeated(labels, "the label")
    unlike = len(dict(keys)) == len(dict(labels)) == len(found)
    if unlike and (whole := fields.get("topology_keys")) and (problem := topology_problem(found)):
        whole.wrong(problem)
    return tuple(found)


def _check_namespaces(fields: Fields) -> None:
    """Checks the syntax of namespaces; they matter only on Kubernetes."""
    for item in fields.items("namespaces"):
        name = item.text()
        if name is not None and not _NAMESPACE.fullmatch(name):
            item.wrong(f"{name!r} is not a namespace. Use up to 63 lower-case letters, digits and '-'.")


# ---------------------------------------------------------------- subpools


def _subpools(fields: Fields, parent: Pool, kinds: Kinds) -> list[Pool]:
    subpools, names = [], []
    for item in fields.items("subpools"):
        inner = item.fields("a subpool", ("name", "quota"), _SUBPOOL_HINTS)
        name = inner.need("name", "name: a") if inner else None
        quota = inner.need("quota", 'quota: 8, or "25%"') if inner else None
        if name is None:
            continue
        short = name.text() or ""
        if short and (problem := subpool_name_problem(parent.name, short)):
            name.wrong(problem)
        quotas = read_share(quota, parent.quotas, kinds) if quota else {}
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
    field = fields.get("subpools")
    for key, amount in sums.items():
        if field is not None and key.resource == GPU and amount > parent.quotas[key].nominal:
            whole = parent.quotas[key].nominal
            field.wrong(
                f"together they have {amount_in_words(GPU, amount)} ({key.flavor}), "
                f"but pool {parent.name} has {whole}. Reduce their quotas."
            )
