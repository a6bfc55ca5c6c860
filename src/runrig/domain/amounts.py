"""Amounts in a request, parsed once by the API that received it.  What depends on the state is resolved under the lock."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from runrig.domain.quantities import GPU, FlavorResource

ONLY = ""
"""As the flavor of an amount: the owner's only one, which the state knows."""


@dataclass(frozen=True, slots=True)
class Amount:
    """One part of a quota that changes.

    *part*: a key of `settings.PARTS`.  *value*: in the unit of the resource; None: no limit, or as *nominal*, no quota any more.
    """

    key: FlavorResource
    part: str
    value: int | None


def plain(gpus: int | None, part: str = "nominal") -> Amount:
    """GPUs of the only flavor."""
    return Amount(FlavorResource(ONLY, GPU), part, gpus)


Share = int | Decimal | Mapping[str, int]
"""The quota of a subpool: GPUs of the only flavor, a percentage of its parent's, or GPUs by flavor."""
