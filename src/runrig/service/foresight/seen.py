"""The consequences of an edit as somebody sees them: of other pools only amounts, without names."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from runrig.engine.foresight.consequences import (
    Consequences,
    Loss,
    Never,
    Preempted,
    Start,
)
from runrig.engine.foresight.outcome import Party
from runrig.service.queries.redaction import ANOTHER
from runrig.service.queries.visibility import Visibility

Told = TypeVar("Told", Party, Start, Preempted, Loss, Never)
About = TypeVar("About", Start, Preempted, Loss, Never)


@dataclass(frozen=True, slots=True)
class Amount:
    """Work that is not named."""

    gangs: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Seen:
    """*others*: list → what is left out of it, where anything is."""

    consequences: Consequences
    others: dict[str, Amount]


def seen(found: Consequences, visibility: Visibility) -> Seen:
    if visibility.whole:
        return Seen(found, {})
    others: dict[str, Amount] = {}

    def shown(name: str, told: tuple[Told, ...]) -> tuple[Told, ...]:
        kept = tuple(each for each in told if visibility.sees(_party(each).pool))
        hidden = [_party(each) for each in told if not visibility.sees(_party(each).pool)]
        _count(others, name, hidden)
        return kept

    named = _named(found, visibility)
    exposed = tuple(each for each in found.exposed if visibility.sees(each.pool))
    _count(others, "exposed", [gang for each in found.exposed if each not in exposed for gang in each.gangs])
    return Seen(
        replace(
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
        ),
        others,
    )


def told(found: Consequences, alone: Callable[[str], bool]) -> Consequences:
    """*found* with gangs called as in other answers.  *alone*: whether a workflow has one group."""

    def name(gang: str) -> str:
        workflow, slash, _ = gang.partition("/")
        return workflow if slash and alone(workflow) else gang

    def party(each: Party) -> Party:
        return replace(each, gang=name(each.gang))

    def of_all(several: tuple[About, ...]) -> tuple[About, ...]:
        return tuple(replace(each, party=party(each.party)) for each in several)

    def preempted(several: tuple[Preempted, ...]) -> tuple[Preempted, ...]:
        return tuple(replace(each, by=name(each.by)) for each in of_all(several))

    return replace(
        found,
        starts=of_all(found.starts),
        waits=of_all(found.waits),
        preempted=preempted(found.preempted),
        spared=preempted(found.spared),
        moves=tuple(map(party, found.moves)),
        loses=of_all(found.loses),
        cancels=tuple(map(party, found.cancels)),
        stays=tuple(map(party, found.stays)),
        exposed=tuple(replace(each, gangs=tuple(map(party, each.gangs))) for each in found.exposed),
        never=of_all(found.never),
    )


def _named(found: Consequences, visibility: Visibility) -> set[str]:
    """Gangs that start or would have: whoever preempts is one of them."""
    parties = [each.party for each in (*found.starts, *found.waits)]
    return {each.gang for each in parties if visibility.sees(each.pool)}


def _without_names(told: Iterable[Preempted], named: set[str]) -> tuple[Preempted, ...]:
    return tuple(each if each.by in named else replace(each, by=ANOTHER) for each in told)


def _party(told: Party | Start | Preempted | Loss | Never) -> Party:
    return told if isinstance(told, Party) else told.party


def _count(others: dict[str, Amount], name: str, hidden: list[Party]) -> None:
    if hidden:
        others[name] = Amount(len(hidden), sum(each.gpus for each in hidden))
