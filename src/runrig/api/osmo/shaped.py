"""Pools in the format of the osmo client."""

from collections.abc import Iterable, Sequence

from runrig.domain.nodes import Flavor
from runrig.domain.pools import Pool
from runrig.domain.shown.pools import DeclaredPool, fields_of
from runrig.osmo import pools
from runrig.osmo.shape import Shape
from runrig.service.queries.resource_queries import PoolView
from runrig.wire.json import to_plain


def pool(view: PoolView, backend: str) -> Shape:
    return pools.pool(to_plain(view.shown(backend)), _platforms(view.flavors))


def settings(view: PoolView, backend: str) -> Shape:
    return settings_then(view.pool, view.settings, view.flavors, backend)


def settings_then(pool: Pool, inherited: Pool, flavors: Iterable[Flavor], backend: str) -> Shape:
    """Returns the settings of a pool at an earlier revision. *inherited*: its parent at that time, if it is a subpool;
    *flavors*: the current ones.
    """
    plain = to_plain(DeclaredPool(**fields_of(pool, inherited)))
    return pools.settings(plain | {"backend": backend}, _platforms(flavors))


def pool_quota(views: Sequence[PoolView], backend: str) -> Shape:
    flavors = {flavor.name: flavor for view in views for flavor in view.flavors}
    return pools.pool_quota((to_plain(view.shown(backend)) for view in views), _platforms(flavors.values()))


def _platforms(flavors: Iterable[Flavor]) -> pools.Platforms:
    return pools.platforms_of(map(to_plain, flavors))
