"""Quotas as users write them: ``64``, ``{gpu: 64}``, ``{gpu: {nominal: 64}}``, ``{h100: {gpu: {nominal: 8,
borrowing_limit: 8}}}``.

A key that is both a flavor and a resource means the flavor.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal
from functools import partial

from runrig.domain.pools import Quota, Quotas, gpus_of, share_of
from runrig.domain.quantities import CPU, GPU, MEMORY, STORAGE, FlavorResource, amount_in_words, parse_quantity
from runrig.spec.fields import Field, Problems, closest, listed
from runrig.spec.yamltree import node_of

RESOURCES = (GPU, CPU, MEMORY, STORAGE)
_QUOTA = ("nominal", "borrowing_limit", "lending_limit")
_NONE = "none"
LONGEST_TEXT = 10_000
"""Maximum characters of a quota written as text."""
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)%")


@dataclass(frozen=True, slots=True)
class Kinds:
    """Names a quota can use. *flavors*: of its owner. *declared*: all flavors."""

    flavors: tuple[str, ...]
    declared: tuple[str, ...]
    resources: tuple[str, ...] = RESOURCES

    @property
    def full_form(self) -> str:
        """Returns how to write a quota when a plain number is ambiguous."""
        shown = self.flavors[:3]
        short = ",".join(f"{flavor}=8" for flavor in shown)
        return f"{short}, or in full {{{', '.join(f'{flavor}: {{gpu: 8}}' for flavor in shown)}}}"


def parse_quota_option(text: str, flavors: tuple[str, ...]) -> dict[FlavorResource, int]:
    """Returns the GPUs in ``64`` or ``h100=8,b200=4``. A plain number requires a single flavor. Raises InvalidInput."""
    problems = Problems()
    field = Field(node_of(text), "quota", problems)
    gpus = _option(field, text, Kinds(flavors, flavors))
    problems.raise_if_any()
    return gpus


def quota_from_json(value: object, flavors: tuple[str, ...], resources: Collection[str] = ()) -> Quotas:
    """Returns the quota in *value*, in any form, including that of ``--quota``. *resources*: in addition to the
    standard ones.

    Raises InvalidInput with all errors.
    """
    problems = Problems()
    field = Field(node_of(value), "quota", problems)
    quotas = read_quota(field, Kinds(flavors, flavors, tuple(dict.fromkeys((*RESOURCES, *resources)))))
    problems.raise_if_any()
    return quotas


def amounts_from_text(
    text: str, flavors: tuple[str, ...], resources: Collection[str] = (), path: str = "quota"
) -> dict[FlavorResource, int | None]:
    """Returns the amounts in ``h100=8,b200/cpu=96,memory=none``, None for ``none``; ``64`` means GPUs of the only
    flavor.

    *flavors*: allowed ones. *resources*: in addition to the standard ones. Raises InvalidInput with all errors.
    """
    problems = Problems()
    kinds = Kinds(flavors, flavors, tuple(dict.fromkeys((*RESOURCES, *resources))))
    amounts = _parts(Field(node_of(text), path, problems), text, kinds)
    problems.raise_if_any()
    return amounts


def read_quota(field: Field, kinds: Kinds) -> dict[FlavorResource, Quota]:
    """Returns the valid part and reports the rest."""
    value = field.node.value
    if isinstance(value, str) and not value.strip().isdigit():
        return {key: Quota(gpus) for key, gpus in _option(field, value, kinds).items()}
    if not isinstance(value, Mapping):
        gpus = field.whole()
        flavor = _only_flavor(field, kinds) if gpus is not None else None
        return {FlavorResource(flavor, GPU): Quota(gpus)} if flavor is not None and gpus is not None else {}
    quotas: dict[FlavorResource, Quota] = {}
    for key, item in field.entries():
        if key in kinds.declared:
            quotas.update(_of_flavor(key, item, kinds))
        elif key in kinds.resources or not _names_flavor(item):
            flavor = _only_flavor(item, kinds) if _is_resource(key, item, kinds) else None
            if flavor is not None:
                quotas[FlavorResource(flavor, key)] = _amount(key, item)
        else:
            item.wrong(f"unknown flavor {key!r}. {closest(key, kinds.declared)}")
    return quotas


def _names_flavor(item: Field) -> bool:
    """Returns True if an unknown key must be a flavor, because its value is not a quota."""
    return isinstance(item.node.value, Mapping) and not any(name in item.node.value for name in _QUOTA)


def _of_flavor(flavor: str, field: Field, kinds: Kinds) -> dict[FlavorResource, Quota]:
    if flavor not in kinds.flavors:
        field.wrong(f"flavor {flavor!r} is not one of its flavors, {listed(kinds.flavors)}: add it there")
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
    field.wrong(f"{name!r} is neither a resource nor a flavor. {closest(name, (*kinds.resources, *kinds.declared))}")
    return False


def _amount(resource: str, field: Field) -> Quota:
    quantity = partial(parse_quantity, resource)
    if not isinstance(field.node.value, Mapping):
        return Quota(field.parsed(quantity) or 0)
    inner = field.fields("a quota", _QUOTA)
    assert inner is not None, "it is a mapping"
    amounts = [inner.parsed(name, quantity) for name in _QUOTA]
    return Quota(amounts[0] or 0, amounts[1], amounts[2])


def _only_flavor(field: Field, kinds: Kinds) -> str | None:
    if len(kinds.flavors) == 1:
        return kinds.flavors[0]
    field.wrong(
        f"there are {len(kinds.flavors)} flavors, {listed(kinds.flavors)}. Give an amount for each: {kinds.full_form}"
    )
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
        key = _key(field, name, kinds) if equals else _gpus_of_only(field, kinds)
        if key is None:
            continue
        if key in amounts:
            field.wrong(f"{text!r} names {name or key} twice")
        elif equals and number == _NONE:
            amounts[key] = None
        elif (amount := _number(field, text, key.resource, number)) is not None:
            amounts[key] = amount
    return amounts


def _key(field: Field, name: str, kinds: Kinds) -> FlavorResource | None:
    """Returns the key: ``h100`` means its GPUs, ``cpu`` the CPU of the only flavor; or ``h100/cpu``."""
    flavor, slash, resource = name.partition("/")
    if not slash and name not in kinds.flavors and name in kinds.resources:
        only = _only_flavor(field, kinds)
        return None if only is None else FlavorResource(only, name)
    if flavor not in kinds.flavors:
        field.wrong(f"unknown flavor {flavor!r}. {closest(flavor, kinds.flavors)}")
        return None
    if slash and not _is_resource(resource, field, kinds):
        return None
    return FlavorResource(flavor, resource if slash else GPU)


def _gpus_of_only(field: Field, kinds: Kinds) -> FlavorResource | None:
    flavor = _only_flavor(field, kinds)
    return None if flavor is None else FlavorResource(flavor, GPU)


def _number(field: Field, text: str, resource: str, number: str) -> int | None:
    if resource == GPU:
        if number.isascii() and number.isdigit() and len(number) <= 18:
            return int(number)
        field.wrong(f"{text!r} is not a number of GPUs. Use for example 64, or h100=8,b200=4.")
        return None
    try:
        return parse_quantity(resource, number)
    except ValueError as error:
        field.wrong(str(error))
        return None


# ---------------------------------------------------------------- subpools


def read_share(field: Field, parent: Quotas, kinds: Kinds) -> Quotas:
    """Returns the quota of a subpool: GPUs, or a percentage of its parent's, rounded down. Other resources follow in
    proportion (rules S1, S5).
    """
    value = field.node.value
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        field.wrong(f"a quota of {len(value)} characters is too long: at most {LONGEST_TEXT}")
        return {}
    percent = isinstance(value, str) and "%" in value
    gpus = _percentage(field, str(value).strip(), parent) if percent else _share_in_gpus(field, parent, kinds)
    if percent and gpus and not any(gpus.values()) and str(value).strip(" 0.%"):
        whole = sum(gpus_of(parent).values())
        field.wrong(
            f"{value} of {amount_in_words(GPU, whole)}, rounded down, is 0 GPUs. Use a larger percentage, or 0 if you mean it."
        )
    return share_of(parent, gpus)


def share_from_json(value: object, parent: Quotas, flavors: tuple[str, ...]) -> Quotas:
    """`read_share` for a JSON value. *flavors*: of the parent. Raises InvalidInput."""
    problems = Problems()
    quotas = read_share(Field(node_of(value), "quota", problems), parent, Kinds(flavors, flavors))
    problems.raise_if_any()
    return quotas


def _percentage(field: Field, text: str, parent: Quotas) -> dict[str, int]:
    """Returns GPUs by flavor; empty, and reported, unless *text* is a percentage from 0 to 100."""
    match, whole = _PERCENT.fullmatch(text), gpus_of(parent)
    if match is None:
        field.wrong(f"{text!r} is not a percentage. Use 0% to 100%, such as 25% or 33.3%.")
        return {}
    share = Decimal(match[1])
    if share > 100:
        field.wrong(f"{text} is more than the parent's quota. Use at most 100%.")
        return {}
    if not whole:
        field.wrong(f"its parent has no GPU quota to take {text} of")
    return {flavor: int((gpus * share / 100).to_integral_value(ROUND_FLOOR)) for flavor, gpus in whole.items()}


def _share_in_gpus(field: Field, parent: Quotas, kinds: Kinds) -> dict[str, int]:
    """Returns GPUs by flavor. A plain number means the only flavor of the parent's quota."""
    value, there = field.node.value, tuple(gpus_of(parent))
    plain = isinstance(value, int) or (isinstance(value, str) and value.strip().isdigit())
    quotas = read_quota(field, replace(kinds, flavors=there) if plain and there else kinds)
    for key, quota in quotas.items():
        if key.resource != GPU or quota != Quota(quota.nominal):
            field.wrong(
                f"a subpool has only a GPU quota, without limits: {key.resource} and the limits come from its parent"
            )
            return {}
    for key, quota in quotas.items():
        if key not in parent and quota.nominal:
            field.wrong(f"its parent has no quota of {key}, so it has nothing to share")
    return {key.flavor: quota.nominal for key, quota in quotas.items() if key in parent}
