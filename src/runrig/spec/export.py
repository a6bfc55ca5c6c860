"""Declared objects → a cluster file that declares the same; the inverse of `spec.cluster`.

Omits nodes and backend, which are fixed once a server has started, and defaults.
"""

from collections.abc import Iterable
from typing import Any

import yaml

from runrig.domain.access import Grant
from runrig.domain.nodes import DEFAULT_FLAVOR, Flavor
from runrig.domain.pools import Cohort, Pool, PoolState, Quota, Quotas, gpus_of
from runrig.domain.quantities import format_quantity
from runrig.domain.settings import SETTINGS, default

_WIDTH = 140

Mapped = dict[str, Any]


class _Dumper(yaml.CSafeDumper):
    """Quotes each text that does not begin with a letter: our parser reads more of them as numbers (``08``) than YAML 1.1."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, None if text[:1].isalpha() else '"'),
)


def cluster_text(
    flavors: Iterable[Flavor], cohorts: Iterable[Cohort], pools: Iterable[Pool], grants: Iterable[tuple[str, Grant]]
) -> str:
    """Returns a cluster file that `apply` accepts without a change.

    Omits pools that are not ACTIVE, and roles on them: deleted pools are not declared.
    """
    kinds = tuple(flavors)
    live = sorted((pool for pool in pools if pool.state is PoolState.ACTIVE), key=lambda pool: pool.name)
    tops = [pool for pool in live if pool.parent is None]
    names = {pool.name for pool in tops}
    parts = {
        "flavors": [] if kinds == (Flavor(DEFAULT_FLAVOR),) else [_flavor(each) for each in kinds],
        "cohorts": [_cohort(each) for each in sorted(cohorts, key=lambda cohort: cohort.name)],
        "pools": [pool_settings(top, [each for each in live if each.parent == top.name], kinds) for top in tops],
        "roles": [_role(user, grant) for user, grant in grants if grant.pool is None or grant.pool in names],
    }
    said = {name: part for name, part in parts.items() if part}
    return yaml.dump(said, Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True, width=_WIDTH)


def _said(**fields: Any) -> Mapped:
    """Omits None and empty values, the defaults of all optional fields."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [], {})}


def _flavor(flavor: Flavor) -> Mapped:
    taints = [_said(key=each.key, value=each.value, effect=each.effect) for each in flavor.taints]
    return _said(name=flavor.name, node_labels=dict(flavor.node_labels), taints=taints, allow=list(flavor.allow))


def _cohort(cohort: Cohort) -> Mapped:
    return _said(
        name=cohort.name,
        parent=cohort.parent,
        weight=None if cohort.weight == 1 else cohort.weight,
        quota=_quotas(cohort.quotas),
    )


def pool_settings(pool: Pool, subpools: Iterable[Pool], flavors: Iterable[Flavor]) -> Mapped:
    """Returns an entry of `pools`, with *subpools* in it."""
    usable = pool.flavors or tuple(flavor.name for flavor in flavors)
    return _said(
        name=pool.name,
        quota=_quotas(pool.quotas),
        **{each.asked: each.plain(pool) for each in SETTINGS if each.of(pool) != default(each)},
        subpools=[{"name": each.subpool_name, "quota": _share(each, usable)} for each in subpools],
    )


def _quotas(quotas: Quotas) -> Mapped:
    by_flavor: dict[str, Mapped] = {}
    for key, quota in sorted(quotas.items()):
        by_flavor.setdefault(key.flavor, {})[key.resource] = _quota(key.resource, quota)
    return by_flavor


def _quota(resource: str, quota: Quota) -> Mapped:
    limits = {"borrowing_limit": quota.borrowing_limit, "lending_limit": quota.lending_limit}
    shown = {name: amount_text(resource, amount) for name, amount in limits.items() if amount is not None}
    return {"nominal": amount_text(resource, quota.nominal), **shown}


def amount_text(resource: str, amount: int) -> int | str:
    """Returns *amount* as written in a cluster file."""
    text = format_quantity(resource, amount)
    return int(text) if text.isdigit() else text


def _share(subpool: Pool, usable: tuple[str, ...]) -> int | str:
    """Returns GPUs, by flavor if a plain number would be ambiguous."""
    gpus = gpus_of(subpool.quotas) or {usable[0]: 0}
    if len(usable) == 1:
        return sum(gpus.values())
    return ",".join(f"{flavor}={amount}" for flavor, amount in sorted(gpus.items()))


def _role(user: str, grant: Grant) -> Mapped:
    return _said(user=user, role=grant.word, pool=grant.pool)
