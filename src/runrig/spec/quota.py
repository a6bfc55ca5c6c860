"""Quotas as users write them: ``64``, ``{gpu: 64}``, ``{gpu: {nominal: 64}}``, ``{h100: {gpu: {nominal: 8,
borrowing_limit: 8}}}``.

A key that is both a flavor and a resource means the flavor.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal
from functools import partial

from runrig.domain.amounts import ONLY, Amount, Share, plain
from runrig.domain.pools import Quota, Quotas, gpus_of, share_of
from runrig.domain.quantities import CPU, GPU, MEMORY, STORAGE, FlavorResource, amount_in_words, few, parse_quantity
from runrig.domain.settings import PARTS
from runrig.spec.fields import Field, Problems, closest
from runrig.spec.yamltree import node_of

RESOURCES = (GPU, CPU, MEMORY, STORAGE)
_QUOTA = ("nominal", "borrowing_limit", "lending_limit")
_NONE = "none"
LONGEST_TEXT = 10_000
"""Maximum characters of a quota written as text."""
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)%")


@dataclass(frozen=True, slots=True)
class Kinds:
    """Names a quota can use. *flavors*: of its owner. *declared*: all flavors. *later*: the owner is not known yet, so that an
    amount without a flavor is one of `ONLY`.
    """

    flavors: tuple[str, ...]
    declared: tuple[str, ...]
    resources: tuple[str, ...] = RESOURCES
    later: bool = False

    def ambiguity(self, *, whole: bool = True) -> str:
        """Returns why a plain number is ambiguous, and what to write. *whole*: of a quota, which has a full form."""
        shown = self.flavors[:3]
        forms = [",".join(f"{flavor}=8" for flavor in shown)]
        if whole:
            forms.append(f"in full {{{', '.join(f'{flavor}: {{gpu: 8}}' for flavor in shown)}}}")
        return f"there are {len(self.flavors)} flavors, {few(self.flavors)}. Give an amount for each: {', or '.join(forms)}"


def read_amounts(value: object, part: str, kinds: Kinds) -> tuple[Amount, ...]:
    """Reads *part* of a quota in a request: ``h100=8,b200/cpu=96,memory=none``, a number of GPUs, None for no limit; or a whole
    quota, as in a cluster file. The short forms leave the other parts unchanged, and the full form replaces them.

    Raises InvalidInput with all errors.
    """
    problems = Problems()
    field, kinds = Field(node_of(value), PARTS[part], problems), replace(kinds, later=True)
    found: list[Amount]
    if isinstance(value, str):
        found = [Amount(key, part, amount) for key, amount in _parts(field, value, kinds).items()]
    elif isinstance(value, Mapping) and part == "nominal":
        quotas = read_quota(field, kinds)
        found = [Amount(key, each, getattr(quota, each)) for key, quota in quotas.items() for each in PARTS]
    else:
        found = [plain(None if value is None else field.whole(), part)]
    problems.raise_if_any()
    return tuple(found)


def read_quota(field: Field, kinds: Kinds) -> dict[FlavorResource, Quota]:
    """Returns the valid part and reports the rest."""
    value = field.node.value
    if isinstance(value, str) and not value.strip().isdigit():
        return {key: Quota(gpus) for key, gpus in _option(field, value, kinds).items()}
    if not isinstance(value, Mapping):
        gpus = field.whole()
        only = _of_only_flavor(GPU, field, kinds) if gpus is not None else None
        return {only: Quota(gpus)} if only is not None and gpus is not None else {}
    quotas: dict[FlavorResource, Quota] = {}
    for key, item in field.entries():
        if key in kinds.declared:
            quotas.update(_of_flavor(key, item, kinds))
        elif key in kinds.resources or not _names_flavor(item):
            only = _of_only_flavor(key, item, kinds) if _is_resource(key, item, kinds) else None
            if only is not None:
                quotas[only] = _amount(key, item)
        else:
            item.wrong(f"unknown flavor {key!r}. {closest(key, kinds.declared)}")
    return quotas


def _names_flavor(item: Field) -> bool:
    """Whether an unknown key must be a flavor, because its value is not a quota."""
    return isinstance(item.node.value, Mapping) and not any(name in item.node.value for name in _QUOTA)


def _of_flavor(flavor: str, field: Field, kinds: Kinds) -> dict[FlavorResource, Quota]:
    if flavor not in kinds.flavors:
        field.wrong(f"{flavor!r} is not one of the pool's flavors ({few(kinds.flavors)}). Add it there")
        return {}
    if not isinstance(field.node.value, Mapping):
        return {FlavorResource(flavor, GPU): _amount(GPU, field)}
    return {
        FlavorResource(flavor, resource): _amount(resource, item)
        for resource, item in field.entries()
        if _is_resource(resource, item, kinds)
    }


def _is_resource(name: str, field: Field, kinds: Kinds) -> bool:
    if name in kinds.resources:
        return True
    if name in _QUOTA:
        field.wrong("set it for a resource, as in quota: {gpu: {nominal: 8, borrowing_limit: 4}}")
    else:
        field.wrong(
            f"{name!r} is neither a resource nor a flavor. {closest(name, (*kinds.resources, *kinds.declared))}"
        )
    return False


def _amount(resource: str, field: Field) -> Quota:
    quantity = partial(parse_quantity, resource)
    if not isinstance(field.node.value, Mapping):
        return Quota(field.parsed(quantity) or 0)
    inner = field.fields("a quota", _QUOTA)
    amounts = [inner[name].parsed(quantity) for name in _QUOTA]
    return Quota(amounts[0] or 0, amounts[1], amounts[2])


def _of_only_flavor(resource: str, field: Field, kinds: Kinds) -> FlavorResource | None:
    if kinds.later or len(kinds.flavors) == 1:
        return FlavorResource(ONLY if kinds.later else kinds.flavors[0], resource)
    field.wrong(kinds.ambiguity())
    return None


def _option(field: Field, text: str, kinds: Kinds) -> dict[FlavorResource, int]:
    """Returns the amounts in ``64`` or ``h100=8,b200=4``; every flavor must exist."""
    amounts = _parts(field, text, kinds)
    for key in [key for key, amount in amounts.items() if amount is None]:
        field.wrong(f'"none" is not an amount of {key}. Omit it instead.')
        del amounts[key]
    return {key: amount for key, amount in amounts.items() if amount is not None}


def _parts(field: Field, text: str, kinds: Kinds) -> dict[FlavorResource, int | None]:
    """Returns the valid part and reports the rest."""
    amounts: dict[FlavorResource, int | None] = {}
    for part in text.split(","):
        name, equals, number = (each.strip() for each in part.rpartition("="))
        key = _key(field, name, kinds) if equals else _of_only_flavor(GPU, field, kinds)
        if key is None:
            continue
        if key in amounts:
            field.wrong(f"{text!r} names {name or key} twice")
        elif any(other.resource == key.resource and ONLY in (other.flavor, key.flavor) for other in amounts):
            field.wrong(f"{text!r} names {key.resource} with and without its flavor")
        elif equals and number == _NONE:
            amounts[key] = None
        elif (amount := _number(field, text, key.resource, number)) is not None:
            amounts[key] = amount
    return amounts


def _key(field: Field, name: str, kinds: Kinds) -> FlavorResource | None:
    """Returns the key: ``h100`` means its GPUs, ``cpu`` the CPU of the only flavor; or ``h100/cpu``."""
    flavor, slash, resource = name.partition("/")
    if not slash and name not in kinds.flavors and name in kinds.resources:
        return _of_only_flavor(name, field, kinds)
    if flavor not in kinds.flavors:
        field.wrong(f"unknown flavor {flavor!r}. {closest(flavor, kinds.flavors)}")
        return None
    if slash and not _is_resource(resource, field, kinds):
        return None
    return FlavorResource(flavor, resource if slash else GPU)


def _number(field: Field, text: str, resource: str, number: str) -> int | None:
    if resource == GPU and not (number.isascii() and number.isdigit()):
        field.wrong(f"{text!r} is not a number of GPUs. Use for example 64, or h100=8,b200=4.")
        return None
    try:
        return parse_quantity(resource, number)
    except ValueError as error:
        field.wrong(str(error))
        return None


# ---------------------------------------------------------------- subpools


def read_share(field: Field, parent: Quotas, kinds: Kinds) -> Quotas:
    """Returns the quota of a subpool in a file (rules S1, S5)."""
    share = _share(field, replace(kinds, later=True))
    try:
        return {} if share is None else resolved_share(share, parent, kinds.flavors)
    except ValueError as error:
        field.wrong(str(error))
        return {}


def share_from_json(value: object, kinds: Kinds) -> Share:
    """Reads the quota of a subpool in a request. Raises InvalidInput."""
    problems = Problems()
    share = _share(Field(node_of(value), "quota", problems), replace(kinds, later=True))
    problems.raise_if_any()
    assert share is not None, "a share without a problem is one"
    return share


def resolved_share(share: Share, parent: Quotas, flavors: tuple[str, ...]) -> Quotas:
    """Returns the quota of a subpool: GPUs, or a percentage of its parent's, rounded down. Other resources follow in proportion
    (rules S1, S5). *flavors*: of the parent. Raises ValueError.
    """
    whole = gpus_of(parent)
    if isinstance(share, Decimal):
        return share_of(parent, _percentage(share, whole))
    if isinstance(share, int):
        own = tuple(whole) or flavors
        if len(own) != 1:
            raise ValueError(Kinds(own, own).ambiguity())
        share = {own[0]: share}
    lacking = [f"{flavor}/{GPU}" for flavor, gpus in share.items() if gpus and flavor not in whole]
    if lacking:
        raise ValueError(f"its parent has no quota of {few(lacking)}, so it has nothing to share")
    return share_of(parent, {flavor: gpus for flavor, gpus in share.items() if flavor in whole})


def _percentage(share: Decimal, whole: Mapping[str, int]) -> dict[str, int]:
    """Returns GPUs by flavor. Raises ValueError."""
    if not whole:
        raise ValueError(f"its parent has no GPU quota, so {share:f}% of it is nothing")
    gpus = {flavor: int((each * share / 100).to_integral_value(ROUND_FLOOR)) for flavor, each in whole.items()}
    if share and not any(gpus.values()):
        raise ValueError(
            f"{share:f}% of {amount_in_words(GPU, sum(whole.values()))}, rounded down, is 0 GPUs. Use a larger percentage, or 0 "
            "if you mean it."
        )
    return gpus


def _share(field: Field, kinds: Kinds) -> Share | None:
    """Returns None if there is a problem, which is reported."""
    value = field.node.value
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        field.wrong(f"the quota is too long ({len(value)} characters, maximum {LONGEST_TEXT})")
        return None
    if isinstance(value, str) and "%" in value:
        return _percent(field, value.strip())
    quotas = read_quota(field, kinds)
    for key, quota in quotas.items():
        if key.resource != GPU or quota != Quota(quota.nominal):
            field.wrong(
                f"a subpool has only a GPU quota, without limits: {key.resource} and the limits come from its parent"
            )
            return None
    gpus = {key.flavor: quota.nominal for key, quota in quotas.items()}
    if ONLY in gpus and len(gpus) > 1:
        field.wrong(kinds.ambiguity())
    return gpus.get(ONLY, gpus)


def _percent(field: Field, text: str) -> Decimal | None:
    match = _PERCENT.fullmatch(text)
    if match is None:
        field.wrong(f"{text!r} is not a percentage. Use 0% to 100%, such as 25% or 33.3%.")
    elif Decimal(match[1]) > 100:
        field.wrong(f"{text} is more than the parent's quota. Use at most 100%.")
    else:
        return Decimal(match[1])
    return None
