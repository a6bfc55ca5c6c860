"""The effects of an edit as a user may see them: of other pools only amounts, without names."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from runrig.domain.shown.plans import Plan, PlanGang, PlanPreempted, PlanUnseen
from runrig.service.queries.redaction import ANOTHER
from runrig.service.queries.visibility import Visibility

Gang = TypeVar("Gang", bound=PlanGang)


def seen(found: Plan, visibility: Visibility) -> Plan:
    if visibility.whole:
        return found
    others: dict[str, PlanUnseen] = {}

    def shown(name: str, gangs: tuple[Gang, ...]) -> tuple[Gang, ...]:
        left = tuple(each for each in gangs if visibility.sees(each.pool))
        _count(others, name, [each for each in gangs if not visibility.sees(each.pool)])
        return left

    named = _named(found, visibility)
    exposed = tuple(each for each in found.exposed if visibility.sees(each.pool))
    _count(others, "exposed", [gang for each in found.exposed if each not in exposed for gang in each.gangs])
    kept = replace(
        found,
        starts=shown("starts", found.starts),
        waits=shown("waits", found.waits),
        preempted=shown("preempted", _without_names(found.preempted, named)),
        spared=shown("spared", _without_names(found.spared, named)),
        moves=shown("moves", found.moves),
        loses=shown("loses", found.loses),
        cancels=shown("cancels", found.cancels),
        stays=shown("stays", found.stays),
        exposed=exposed,
        never=shown("never", found.never),
        drains=tuple(each for each in found.drains if visibility.sees(each.pool)),
        pools=tuple(each for each in found.pools if visibility.sees(each.pool)),
    )
    return replace(kept, others=dict(sorted(others.items())))


def with_names(found: Plan, alone: Callable[[str], bool]) -> Plan:
    """Returns *found* with the names of gangs that other responses use. *alone*: whether a workflow has one group."""

    def name(gang: str) -> str:
        workflow, slash, _ = gang.partition("/")
        return workflow if slash and alone(workflow) else gang

    def of_all(several: tuple[Gang, ...]) -> tuple[Gang, ...]:
        return tuple(replace(each, gang=name(each.gang)) for each in several)

    def preempted(several: tuple[PlanPreempted, ...]) -> tuple[PlanPreempted, ...]:
        return tuple(replace(each, by=name(each.by)) for each in of_all(several))

    return replace(
        found,
        starts=of_all(found.starts),
        waits=of_all(found.waits),
        preempted=preempted(found.preempted),
        spared=preempted(found.spared),
        moves=of_all(found.moves),
        loses=of_all(found.loses),
        cancels=of_all(found.cancels),
        stays=of_all(found.stays),
        exposed=tuple(replace(each, gangs=of_all(each.gangs)) for each in found.exposed),
        never=of_all(found.never),
    )


def _named(found: Plan, visibility: Visibility) -> set[str]:
    """Returns the gangs that start or would have started. Preemptors are among them."""
    return {each.gang for each in (*found.starts, *found.waits) if visibility.sees(each.pool)}


def _without_names(told: Iterable[PlanPreempted], named: set[str]) -> tuple[PlanPreempted, ...]:
    return tuple(each if each.by in named else replace(each, by=ANOTHER) for each in told)


def _count(others: dict[str, PlanUnseen], name: str, hidden: Sequence[PlanGang]) -> None:
    if hidden:
        others[name] = PlanUnseen(len(hidden), sum(each.gpus for each in hidden))
