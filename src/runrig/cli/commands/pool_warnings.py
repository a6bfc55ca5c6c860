"""Warnings after edits of pools or cohorts: missing node labels, and quotas beyond the capacity."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from runrig.cli.rendering import balances
from runrig.cli.rendering.output import warn
from runrig.client.transport import Transport, path
from runrig.domain.errors import RunrigError


def warn_of(client: Transport, pool: str, body: Mapping[str, Any]) -> None:
    """Warns about *body*, an edit of *pool* that succeeded. Ignores errors; users without permission see no warnings."""
    if body.get("topology_keys"):
        with suppress(RunrigError):
            for told in _lacking(client.get(path("topology"), {"pool": pool})["maps"][0]):
                warn(f"Warning: {told}")
    if "quota" in body:
        warn_of_quotas(client)


def warn_of_quotas(client: Transport) -> None:
    """Warns about quotas beyond the capacity (rule Q8)."""
    with suppress(RunrigError):
        for key, amount in sorted(client.get(path("quota-tree"))["overpromised"].items()):
            warn(
                f"Warning: quotas exceed capacity by {balances.shown(key, amount)}, "
                "so they cannot all be used at the same time"
            )


def _lacking(found: Mapping[str, Any]) -> Iterator[str]:
    """``label … is missing on 1 of 8 nodes``, for each key whose label some nodes lack."""
    total = found["all"]["nodes"]
    for key in found["keys"]:
        lacking = sum(key["label"] in each["lacks"] for each in found["apart"])
        if lacking:
            nodes = f"{lacking} of {total} nodes" if lacking < total else f"all {total} nodes"
            yield (
                f"label {key['label']} of topology key {key['key']} is missing on {'the only node' if total == 1 else nodes}. "
                "Gangs with topology requirements are not placed there"
            )
