"""Visibility: people see their own pools with the work in them, and only amounts, without names, of all others.

Questions take a `Visibility`.  What lies outside of it is not refused but not found, so nobody can probe for what others have.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from runrig.domain.access import Identity, Permission, allows

Sight = tuple[tuple[str, ...] | None, bool]
"""The top-level pools that are seen, None: all; and whether what belongs to no pool is seen too."""


@dataclass(frozen=True, slots=True)
class Visibility:
    """*identity* None: the server itself, which sees everything."""

    identity: Identity | None = None

    @property
    def whole(self) -> bool:
        """True if it reaches everywhere, even pools that do not exist yet."""
        return self.identity is None or allows(self.identity, Permission.READ_POOL)

    @property
    def none_there(self) -> str:
        """Shown in place of an empty list of pools."""
        return "none yet" if self.whole else "none that you can see"

    @property
    def everything(self) -> bool:
        """True if it also reaches what belongs to no pool, such as changes of nodes and cohorts."""
        return self.identity is None or allows(self.identity, Permission.READ_EVERYTHING)

    def sees(self, pool: str) -> bool:
        return self.identity is None or allows(self.identity, Permission.READ_POOL, pool=pool)

    @property
    def tops(self) -> tuple[str, ...]:
        """The top-level pools that it reaches, with their subpools, if it is not whole."""
        grants = () if self.identity is None else self.identity.grants
        return tuple(sorted({grant.pool for grant in grants if grant.pool is not None}))

    @property
    def sight(self) -> Sight:
        """Equal for those who see as much."""
        return None if self.whole else self.tops, self.everything

    def of(self, pools: Iterable[str]) -> tuple[str, ...]:
        """The pools among *pools* that it reaches, in their order."""
        return tuple(pool for pool in pools if self.sees(pool))


ALL = Visibility()
