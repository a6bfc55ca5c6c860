"""The lines below a reason: the pools involved, the closest domains, and who can make a change."""

from collections.abc import Iterable, Mapping

from runrig.domain.quantities import amount_in_words, counted, listed
from runrig.domain.reasons import Part, lacking

_PARTS = {
    Part.HOLDS: "in use by {}",
    Part.LENDING_LIMIT: "withheld by lending limits: {}",
    Part.DELETING: "returned when deleted subpools finish: {}",
    Part.PROTECTED: "not preemptible, within its own quota: {}",
}
WHO = {"owner": "you", "admin": "admin", "wait": "wait"}


def part_line(part: Part, pools: Iterable[tuple[str | None, int]], resource: str) -> str:
    """``in use by pool1 (2 GPUs), pool2 (2 GPUs)``. A name of None stands for pools that the reader cannot see."""
    return _PARTS[part].format(
        ", ".join(f"{name or 'other pools'} ({amount_in_words(resource, amount)})" for name, amount in pools)
    )


def domain_line(
    domain: Iterable[str], have: int, need: int, missing: Mapping[str, int], closed: int, reserved: Mapping[str, int]
) -> str:
    """``r1: 3 of 4 pods fit, 8 GPUs short, 1 node unavailable, 4 GPUs reserved for other gangs``.

    *missing*, *closed*, *reserved*: fields of `DomainRoom`; the last is called *spoken* there.
    """
    fit = "its pod does not fit" if need == 1 else f"{have} of {need} pods {'fits' if have == 1 else 'fit'}"
    parts = [f"{'/'.join(domain)}: {fit}", lacking(missing)]
    if closed:
        parts.append(f"{counted(closed, 'node')} unavailable")
    if any(reserved.values()):
        parts.append(f"{listed([amount_in_words(*each) for each in reserved.items()])} reserved for other gangs")
    return ", ".join(parts)
