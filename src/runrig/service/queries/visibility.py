"""What somebody sees: their pools with the work in them; of all other pools amounts, without names.

Questions take a `Visibility`.  What lies outside of it is not refused but not there, so that nobody learns what others have by asking.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from runrig.domain.access import Identity, Permission, allows


@dataclass(frozen=True, slots=True)
class Visibility:
    """*identity* None: of the server itself, which sees everything."""

    identity: Identity | None = None

    @property
    def whole(self) -> bool:
        """It reaches everywhere, also to pools that are not there yet."""
        return self.identity is None or allows(self.identity, Permission.READ_POOL)

    @property
    def none_there(self) -> str:
        """What stands in a list of pools that has none."""
        return "none yet" if self.whole else "none that you see"

    def sees(self, pool: str) -> bool:
        return self.identity is None or allows(self.identity, Permission.READ_POOL, pool=pool)

    @property
    def tops(self) -> tuple[str, ...]:
        """Top-level pools: these with their subpools are what a visibility sees that is not whole."""
        grants = () if self.identity is None else self.identity.grants
        return tuple(sorted({grant.pool for grant in grants if grant.pool is not None}))

    def of(self, pools: Iterable[str]) -> tuple[str, ...]:
        """Those of *pools* that it reaches, in their order."""
        return tuple(pool for pool in pools if self.sees(pool))


ALL = Visibility()
