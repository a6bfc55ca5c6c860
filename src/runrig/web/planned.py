"""A plan as two sentences, a table, and lists of names."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runrig.domain.laws import OF_PREEMPTIONS
from runrig.domain.quantities import counted, few, format_quantity
from runrig.domain.settings import PARTS, called, in_words
from runrig.domain.shown.plans import (
    Plan,
    PlanDrain,
    PlanExposed,
    PlanGang,
    PlanPreempted,
    PlanStart,
    PlanUnseen,
)
from runrig.web.rendering import moment, number

MOST_NAMED = 8
"""Maximum names listed per kind."""
_NONE = "none"
_THEN = {"queued": "requeued", "elsewhere": "restarts elsewhere"}


@dataclass(frozen=True, slots=True)
class Item:
    """*gang*: the gang concerned, or "". *text*: the rest. *law*: the rule, or ""."""

    gang: str
    text: str
    law: str = ""


@dataclass(frozen=True, slots=True)
class PlanSection:
    """*more*: number of gangs not listed."""

    label: str
    items: tuple[Item, ...]
    more: int


def plan_view(plan: Plan) -> dict[str, Any]:
    """*settings*: (pool, setting, before, after). *sentences*: gains, and costs. *pools*: those with changes. *rests*: the plan is
    complete.
    """
    return {
        "revision": plan.revision,
        "settings": list(_settings(plan)),
        "sentences": [*sentences(plan), *([f"Budget: {plan.budget.sentence}."] if plan.budget else [])],
        "pools": plan.pools,
        "kinds": list(_kinds(plan)),
        "rests": plan.rests,
    }


# ---------------------------------------------------------------- two sentences


def sentences(plan: Plan) -> Iterator[str]:
    """Yields the gains, then the costs."""
    gains = list[PlanGang](_starts(plan)) + [each for each in plan.spared if not each.again]
    unseen = plan.others.get("starts")
    gangs, gpus = len(gains), sum(each.gpus for each in gains)
    if unseen is not None:
        gangs, gpus = gangs + unseen.gangs, gpus + unseen.gpus
    costs = list(_costs(plan))
    if gangs:
        first = ", ".join(each.gang for each in gains[:2])
        named = f" ({first}{' and more' if gangs > 2 else ''})" if first else ""
        yield f"{counted(gangs, 'group')}{named} would start on {counted(gpus, 'GPU')}."
    if costs:
        yield f"Cost: {' and '.join([', '.join(costs[:-1]), costs[-1]] if costs[1:] else costs)}."
    if not (gangs or costs or plan.loses or plan.moves):  # Groups that restart elsewhere are named below.
        yield (
            "No workflow is affected." if not (plan.exposed or plan.drains) else "No workflow is started or preempted."
        )


def _starts(plan: Plan) -> list[PlanStart]:
    """Returns the gangs that start, but not those that only keep running."""
    kept = {each.gang for each in plan.spared}
    return [each for each in plan.starts if each.gang not in kept]


def _costs(plan: Plan) -> Iterator[str]:
    for name, found, verb in (
        ("preempted", [each for each in plan.preempted if not each.again], "preempted"),
        ("loses", [each for each in plan.loses if each.then != "elsewhere"], "stopped"),
        ("waits", plan.waits, "delayed"),
        ("cancels", plan.cancels, "cancelled"),
        ("never", plan.never, "can never start"),
    ):
        yield from _cost(found, verb, plan.others.get(name))


def _cost(found: Sequence[PlanGang], verb: str, unseen: PlanUnseen | None) -> Iterator[str]:
    """Yields ``16 GPUs in nlp (2 groups preempted)``, pool by pool."""
    by_pool: dict[str, list[int]] = {}
    for each in found:
        by_pool.setdefault(each.pool, []).append(each.gpus)
    for pool, amounts in sorted(by_pool.items()):
        yield f"{counted(sum(amounts), 'GPU')} in {pool} ({counted(len(amounts), 'group')} {verb})"
    if unseen is not None:
        yield f"{counted(unseen.gpus, 'GPU')} in other pools ({counted(unseen.gangs, 'group')} {verb})"


# ---------------------------------------------------------------- tables


def _settings(plan: Plan) -> Iterator[tuple[str, str, str, str]]:
    for change in plan.changes:
        before, after = _flat(change.before), _flat(change.after)
        for name in dict.fromkeys((*before, *after)):
            old, new = before.get(name, _NONE), after.get(name, _NONE)
            told = change.action == "update" or name == "state" or name.startswith("quota ")
            if told and old != new:
                yield change.name, name, old, new


def _flat(settings: Mapping[str, Any] | None) -> dict[str, str]:
    """Settings as text, by name."""
    flat: dict[str, str] = {}
    for name, value in (settings or {}).items():
        if name != "quotas":
            flat[called(name)] = in_words(name, value)
            continue
        for flavor, resources in value.items():
            for resource, parts in resources.items():
                for part, amount in parts.items():
                    told = _NONE if amount is None else format_quantity(resource, amount)
                    flat[f"{called(PARTS[part])} of {flavor}/{resource}"] = told
    return flat


# ---------------------------------------------------------------- by name


def _kinds(plan: Plan) -> Iterator[PlanSection]:
    yield from _kind(plan, "starts", "Starts", [Item(each.gang, _start(each)) for each in _starts(plan)])
    yield from _kind(plan, "waits", "Waits", [Item(each.gang, _who(each)) for each in plan.waits])
    yield from _kind(plan, "preempted", "Preempted", list(map(_preempted, plan.preempted)))
    yield from _kind(plan, "spared", "Kept", list(map(_preempted, plan.spared)))
    yield from _kind(plan, "moves", "Moves", [Item(each.gang, _who(each)) for each in plan.moves])
    loses = [Item(each.gang, f"{_who(each)}: {_THEN.get(each.then, each.then)}") for each in plan.loses]
    yield from _kind(plan, "loses", "Stopped", loses)
    yield from _kind(plan, "cancels", "Cancelled", [Item(each.gang, _who(each)) for each in plan.cancels])
    yield from _kind(plan, "stays", "Keeps running", [Item(each.gang, _who(each)) for each in plan.stays])
    yield from _kind(plan, "exposed", "Preemptible", list(map(_exposed, plan.exposed)))
    never = [Item(each.gang, f"{_who(each)}: {each.why}") for each in plan.never]
    yield from _kind(plan, "never", "Can never start", never)
    yield from _kind(plan, "drains", "Drains", list(map(_drain, plan.drains)))


def _kind(plan: Plan, name: str, label: str, items: list[Item]) -> Iterator[PlanSection]:
    unseen = plan.others.get(name)
    shown = items[:MOST_NAMED]
    if unseen is not None:
        shown.append(Item("", f"{counted(unseen.gangs, 'group')} in other pools ({counted(unseen.gpus, 'GPU')})"))
    if shown:
        yield PlanSection(label, tuple(shown), max(0, len(items) - MOST_NAMED))


def _who(each: PlanGang) -> str:
    return f"{each.pool}, {each.priority}, {counted(each.gpus, 'GPU')}"


def _start(each: PlanStart) -> str:
    return _who(each) + (f", on {few(each.nodes, 3)}" if each.nodes else "")


def _preempted(each: PlanPreempted) -> Item:
    again = "; restarts elsewhere" if each.again else ""
    return Item(each.gang, f"{_who(each)}, by {each.by}{again}", OF_PREEMPTIONS.get(each.law, each.law))


def _exposed(each: PlanExposed) -> Item:
    named = few([gang.gang for gang in each.gangs], 3)
    held = f"{each.pool} uses {number(each.held)} of its quota of {number(each.nominal)} {each.resource}"
    return Item("", f"LOW workflows ({named}): {held}", "R2")


def _drain(each: PlanDrain) -> Item:
    until = "some without a time limit" if each.until is None else f"until {moment(each.until)} UTC at the latest"
    return Item("", f"{each.pool}: {counted(each.workflows, 'workflow')}, {counted(each.gpus, 'GPU')}, {until}")
