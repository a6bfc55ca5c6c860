"""Pools in the format of the osmo client."""

from collections.abc import Iterable, Iterator, Sequence

from runrig.domain.nodes import Flavor
from runrig.domain.pools import Pool
from runrig.domain.settings import values
from runrig.domain.shown.pools import PlacedPool, fields_of, quotas_of
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
    plain = to_plain(PlacedPool(**fields_of(pool, inherited), backend=backend))
    return pools.settings(plain, _platforms(flavors))


def pool_quota(views: Sequence[PoolView], backend: str) -> Shape:
    flavors = {flavor.name: flavor for view in views for flavor in view.flavors}
    return pools.pool_quota(_plain(views, backend), _platforms(flavors.values()))


def _plain(views: Iterable[PoolView], backend: str) -> Iterator[Shape]:
    """Yields `to_plain` of each view. Equal settings are converted once, because a response can contain thousands of pools."""
    known: dict[object, Shape] = {}
    for view in views:
        own, settings = view.pool, view.settings
        if own.closed_by is not None or own.paused_by is not None:
            yield to_plain(view.shown(backend))
            continue
        whose = settings.name if settings.closed_by is not None or settings.paused_by is not None else ""
        key = whose, values(settings)
        if key not in known:
            known[key] = to_plain(PlacedPool(**fields_of(settings, settings), backend=backend))
        yield {
            **known[key],
            "name": own.name,
            "parent": own.parent,
            "state": own.state.value,
            "quotas": {
                flavor: {name: to_plain(quota) for name, quota in each.items()}
                for flavor, each in quotas_of(own.quotas).items()
            },
            **to_plain(view.now),
        }


def _platforms(flavors: Iterable[Flavor]) -> pools.Platforms:
    return pools.platforms_of(map(to_plain, flavors))
