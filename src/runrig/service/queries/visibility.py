"""Visibility: users see their own pools and the work in them, and only amounts, without names, of all others.

Queries take a `Visibility`. Hidden objects are reported as not found, not as forbidden, so that users cannot
find out whether they exist.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from runrig.domain.access import Identity, Permission, allows

Sight = tuple[tuple[str, ...] | None, bool]
"""The visible top-level pools, None: all; and whether things outside of pools are visible."""


@dataclass(frozen=True, slots=True)
class Visibility:
    """*identity* None: the server itself, which sees everything."""

    identity: Identity | None = None

    @property
    def whole(self) -> bool:
        """Whether it covers everything, including pools that do not exist yet."""
        return self.identity is None or allows(self.identity, Permission.READ_POOL)

    @property
    def none_there(self) -> str:
        """The message in place of an empty list of pools."""
        return "none yet" if self.whole else "none that you can see"

    @property
    def everything(self) -> bool:
        """Whether it also covers what belongs to no pool, such as changes of nodes and cohorts."""
        return self.identity is None or allows(self.identity, Permission.READ_EVERYTHING)

    def sees(self, pool: str) -> bool:
        return self.identity is None or allows(self.identity, Permission.READ_POOL, pool=pool)

    @property
    def tops(self) -> tuple[str, ...]:
        """The visible top-level pools, which include their subpools, unless everything is visible."""
        grants = () if self.identity is None else self.identity.grants
        return tuple(sorted({grant.pool for grant in grants if grant.pool is not None}))

    @property
    def sight(self) -> Sight:
        """Equal for users who see the same."""
        return None if self.whole else self.tops, self.everything

    def of(self, pools: Iterable[str]) -> tuple[str, ...]:
        """Returns the visible pools among *pools*, in their order."""
        return tuple(pool for pool in pools if self.sees(pool))


ALL = Visibility()
