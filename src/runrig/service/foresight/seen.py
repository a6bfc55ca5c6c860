"""The effects of an edit as a user may see them: of other pools only amounts, without names."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from runrig.domain.shown.plans import Plan, PlanGang, PlanPreempted, PlanUnseen
from runrig.service.queries.redaction import ANOTHER
from runrig.service.queries.visibility import Visibility

Gang = TypeVar("Gang", bound=PlanGang)

_GANGS = ("starts", "waits", "preempted", "spared", "moves", "loses", "cancels", "stays", "never")
"""The fields of a plan that list gangs."""


def seen(found: Plan, visibility: Visibility) -> Plan:
    if visibility.whole:
        return found

    shown: dict[str, Any] = {
        name: tuple(each for each in getattr(found, name) if visibility.sees(each.pool))
        for name in (*_GANGS, "exposed", "drains", "pools")
    }
    named = {each.gang for each in (*shown["starts"], *shown["waits"])}  # Preemptors are among them.
    for name in ("preempted", "spared"):
        shown[name] = tuple(each if each.by in named else replace(each, by=ANOTHER) for each in shown[name])
    hidden = {name: [each for each in getattr(found, name) if not visibility.sees(each.pool)] for name in _GANGS}
    hidden["exposed"] = [gang for each in found.exposed if not visibility.sees(each.pool) for gang in each.gangs]
    others = {
        name: PlanUnseen(len(gangs), sum(each.gpus for each in gangs))
        for name, gangs in sorted(hidden.items())
        if gangs
    }
    return replace(found, **shown, others=others)


def with_names(found: Plan, alone: Callable[[str], bool]) -> Plan:
    """Returns *found* with the names of gangs that other responses use. *alone*: whether a workflow has one group."""

    def name(gang: str) -> str:
        workflow, slash, _ = gang.partition("/")
        return workflow if slash and alone(workflow) else gang

    def named(gangs: tuple[Gang, ...]) -> Iterator[Gang]:
        for each in gangs:
            by: dict[str, Any] = {"by": name(each.by)} if isinstance(each, PlanPreempted) else {}
            yield replace(each, gang=name(each.gang), **by)

    several: dict[str, Any] = {field: tuple(named(getattr(found, field))) for field in _GANGS}
    exposed = tuple(replace(each, gangs=tuple(named(each.gangs))) for each in found.exposed)
    return replace(found, **several, exposed=exposed)
