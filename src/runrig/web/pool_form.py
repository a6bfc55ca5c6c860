"""The form of a pool's settings: its fields, and the edit from the submitted values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from runrig.domain.errors import InvalidInput, Problem
from runrig.domain.keep import KEEP, Keep
from runrig.domain.pools import Pool, Queueing
from runrig.domain.quantities import GPU, FlavorResource, format_quantity, parse_quantity
from runrig.service.commands.edits import PoolEdit

PARTS = ("nominal", "borrowing_limit", "lending_limit")
_SHARED = {"nominal": "quota"}
"""Names of the parts in an edit."""


@dataclass(frozen=True, slots=True)
class Cell:
    """*now*: the current amount, formatted; "" if there is none."""

    name: str
    now: str


@dataclass(frozen=True, slots=True)
class Line:
    """A resource with the cells of `PARTS`."""

    key: FlavorResource
    cells: tuple[Cell, ...]


def lines(pool: Pool, flavors: Sequence[str]) -> list[Line]:
    """Returns the quotas of a top-level pool, and the GPUs of *flavors*, which it can use."""
    keys = sorted({*pool.quotas, *(FlavorResource(flavor, GPU) for flavor in flavors)})
    return [Line(key, tuple(Cell(f"{part} {key}", _now(pool, key, part)) for part in PARTS)) for key in keys]


def _now(pool: Pool, key: FlavorResource, part: str) -> str:
    quota = pool.quotas.get(key)
    amount = None if quota is None else getattr(quota, part)
    return "" if amount is None else format_quantity(key.resource, amount)


def edit_of(pool: Pool, flavors: Sequence[str], typed: Mapping[str, str]) -> PoolEdit:
    """Returns an edit of the settings that differ from *pool*; missing fields stay. Raises InvalidInput, with field
    names as paths.
    """
    if pool.parent is not None:
        return _resized(pool, typed)
    problems: list[Problem] = []
    texts: dict[str, list[str]] = {part: [] for part in PARTS}
    for line in lines(pool, flavors):
        for part, cell in zip(PARTS, line.cells, strict=True):
            said = typed.get(cell.name, cell.now).strip()
            try:
                amount = "none" if not said else format_quantity(line.key.resource, _amount(line.key.resource, said))
            except ValueError as error:
                problems.append(Problem(str(error), cell.name))
                continue
            if amount != (cell.now or "none"):
                texts[part].append(f"{line.key}={amount}")
    weight, queueing = _weight(pool, typed, problems), _queueing(pool, typed, problems)
    if problems:
        raise InvalidInput(tuple(problems))
    amounts = {_SHARED.get(part, part): ",".join(found) for part, found in texts.items() if found}
    now = settings_now(pool)
    wanted = {name: typed.get(name, text).strip() for name, text in now.items()}
    differs = {name for name in now if wanted[name] != now[name]}
    return PoolEdit(
        **amounts,  # type: ignore[arg-type]
        weight=weight,
        queueing=queueing,
        cohort=(wanted["cohort"] or None) if "cohort" in differs else KEEP,
        flavors=_names(wanted["flavors"]) if "flavors" in differs else KEEP,
        description=wanted["description"] if "description" in differs else KEEP,
    )


def settings_now(pool: Pool) -> dict[str, str]:
    """Returns the settings other than amounts, formatted: "" means no cohort, or all flavors."""
    return {
        "weight": str(pool.weight),
        "queueing": pool.queueing.value,
        "cohort": pool.cohort or "",
        "flavors": ", ".join(pool.flavors),
        "description": pool.description,
    }


def _names(said: str) -> tuple[str, ...]:
    return tuple(name for name in (each.strip() for each in said.split(",")) if name)


def _amount(resource: str, said: str) -> int:
    """Raises ValueError."""
    try:
        return parse_quantity(resource, said)
    except ValueError as error:
        raise ValueError(
            str(error) if resource != GPU else f"invalid number of GPUs {said!r}. Use a whole number, 0 or more"
        ) from None


def _weight(pool: Pool, typed: Mapping[str, str], problems: list[Problem]) -> int | Keep:
    said = typed.get("weight", str(pool.weight)).strip()
    if not (said.isascii() and said.isdecimal() and len(said) < 10):
        problems.append(Problem(f"invalid weight {said!r}. Use a whole number, 1 or more", "weight"))
        return KEEP
    return KEEP if int(said) == pool.weight else int(said)


def _queueing(pool: Pool, typed: Mapping[str, str], problems: list[Problem]) -> Queueing | Keep:
    said = typed.get("queueing", pool.queueing.value)
    if said not in (each.value for each in Queueing):
        problems.append(Problem("choose one from the list", "queueing"))
        return KEEP
    return KEEP if said == pool.queueing.value else Queueing(said)


def _resized(pool: Pool, typed: Mapping[str, str]) -> PoolEdit:
    """A subpool has only a quota: GPUs, a percentage, or ``h100=8,b200=4``."""
    said = typed.get("quota", "").strip()
    return PoolEdit(quota=share(said)) if said != share_now(pool) else PoolEdit()


def share(said: str) -> int | str:
    """Raises InvalidInput."""
    if not said:
        raise InvalidInput.one("enter a number of GPUs such as 8, or a percentage of the parent such as 25%", "quota")
    return int(said) if said.isascii() and said.isdecimal() and len(said) < 19 else said


def share_now(pool: Pool) -> str:
    """Returns the quota of a subpool, formatted."""
    gpus = {key.flavor: quota.nominal for key, quota in sorted(pool.quotas.items()) if key.resource == GPU}
    return (
        str(next(iter(gpus.values()), 0))
        if len(gpus) < 2
        else ",".join(f"{name}={each}" for name, each in gpus.items())
    )


def mentioned(edit: PoolEdit) -> set[str]:
    """Returns the settings that *edit* changes."""
    return {each.name for each in fields(edit) if not isinstance(getattr(edit, each.name), Keep)}
