"""The form of a pool's settings: its fields, and the edit from the submitted values."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runrig.domain.amounts import Amount, Share
from runrig.domain.errors import InvalidInput, Problem
from runrig.domain.pools import Pool
from runrig.domain.quantities import GPU, FlavorResource, format_quantity, parse_quantity, whole_number
from runrig.domain.settings import PARTS, SETTINGS, Choice, CohortName, Number, Setting, called
from runrig.service.commands.edits import PoolEdit
from runrig.spec.quota import Kinds, share_from_json
from runrig.spec.settings import settings_from_json
from runrig.web.rendering import capital


@dataclass(frozen=True, slots=True)
class Cell:
    """*now*: the current amount, formatted; "" if there is none."""

    name: str
    now: str


def lines(pool: Pool, flavors: Sequence[str]) -> dict[FlavorResource, list[Cell]]:
    """Returns the cells of `PARTS` for the quotas of a top-level pool, and for the GPUs of *flavors*, which it can use."""
    keys = sorted({*pool.quotas, *(FlavorResource(flavor, GPU) for flavor in flavors)})
    return {key: [Cell(f"{part} {key}", _now(pool, key, part)) for part in PARTS] for key in keys}


def _now(pool: Pool, key: FlavorResource, part: str) -> str:
    amount = _before(pool, key, part)
    return "" if amount is None else format_quantity(key.resource, amount)


def _before(pool: Pool, key: FlavorResource, part: str) -> int | None:
    quota = pool.quotas.get(key)
    return None if quota is None else getattr(quota, part)


def edit_of(pool: Pool, kinds: Kinds, typed: Mapping[str, str]) -> PoolEdit:
    """Returns an edit of the settings that differ from *pool*; missing fields stay. Raises InvalidInput, with field
    names as paths.

    *kinds*: the names that the pool may use.
    """
    if pool.parent is not None:
        return _resized(pool, kinds, typed)
    problems: list[Problem] = []
    amounts = []
    for key, cells in lines(pool, kinds.flavors).items():
        for part, cell in zip(PARTS, cells, strict=True):
            said = typed.get(cell.name, cell.now).strip()
            try:
                amount = _amount(key.resource, said) if said else None
            except ValueError as error:
                problems.append(Problem(str(error), cell.name))
                continue
            if amount != _before(pool, key, part):
                amounts.append(Amount(key, part, amount))
    settings = _settings(pool, kinds, typed, problems)
    if problems:
        raise InvalidInput(tuple(problems))
    return PoolEdit(tuple(amounts), settings=settings)


def _settings(pool: Pool, kinds: Kinds, typed: Mapping[str, str], problems: list[Problem]) -> dict[str, Any]:
    """Changed settings, by field of `Pool`."""
    sent = {}
    for setting in SETTINGS:
        said, now = typed.get(setting.asked, "").strip(), setting.text(setting.of(pool))
        if setting.asked in typed and said != now:
            try:
                sent[setting.asked] = setting.parse(said)
            except ValueError as error:
                problems.append(Problem(str(error), setting.asked))
    try:
        return settings_from_json(sent, kinds)
    except InvalidInput as error:
        problems += [replace(each, path=re.split(r"\W", each.path)[0]) for each in error.problems]
        return {}


@dataclass(frozen=True, slots=True)
class Box:
    """The field of a setting.  *options*: valid values; None: any text.  *unset*: shown for no value; "" if it always has one."""

    name: str
    label: str
    now: str
    what: str
    options: tuple[str, ...] | None
    unset: str


def boxes(pool: Pool, cohorts: Sequence[str], *, promise: bool) -> list[Box]:
    """*cohorts*: those that the pool can join."""
    return [_box(each, pool, cohorts) for each in SETTINGS if promise or not each.promise]


def _box(setting: Setting, pool: Pool, cohorts: Sequence[str]) -> Box:
    kind = setting.kind
    options: tuple[str, ...] | None = None
    if isinstance(kind, Choice):
        options = tuple(kind.of)
    elif isinstance(kind, CohortName):
        options = tuple(cohorts)
    now, unset = setting.text(setting.of(pool)), setting.unset if setting.removable or options is None else ""
    label = called(setting.name) + (", in seconds" if isinstance(kind, Number) and kind.unit == "s" else "")
    return Box(setting.asked, capital(label), now, setting.what, options, unset)


def _amount(resource: str, said: str) -> int:
    """Reads an amount in the base unit: GPUs, milli-cores, bytes. Raises ValueError with what to enter."""
    try:
        return parse_quantity(resource, said)
    except ValueError as error:
        shape = resource == GPU and whole_number(said) is None
        raise ValueError(
            f"invalid number of GPUs {said!r}. Use a whole number, 0 or more" if shape else str(error)
        ) from None


def _resized(pool: Pool, kinds: Kinds, typed: Mapping[str, str]) -> PoolEdit:
    """A subpool has only a quota."""
    said = typed.get("quota", "").strip()
    return PoolEdit(share=share(said, kinds)) if said != share_now(pool) else PoolEdit()


def share(said: str, kinds: Kinds) -> Share:
    """GPUs, a percentage, or ``h100=8,b200=4``.  Raises InvalidInput."""
    if not said:
        raise InvalidInput.one("enter a number of GPUs such as 8, or a percentage of the parent such as 25%", "quota")
    return share_from_json(said, kinds)


def share_now(pool: Pool) -> str:
    """Returns the quota of a subpool, formatted."""
    gpus = {key.flavor: quota.nominal for key, quota in sorted(pool.quotas.items()) if key.resource == GPU}
    return (
        str(next(iter(gpus.values()), 0))
        if len(gpus) < 2
        else ",".join(f"{name}={each}" for name, each in gpus.items())
    )
