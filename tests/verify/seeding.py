"""How a wrong decision is seeded into a lawful log, and what the log knows at a place."""

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

from runrig.verify.court import Commit
from tests.verify.logs import Event

Way = Callable[[random.Random, list[Commit]], list[Commit] | None]
Place = tuple[int, int]
"""(index of the commit, index of the event)."""
Fits = Callable[[Any], bool]
More = Callable[[list[Commit], Place, Any], list[Event]]


def places(log: Sequence[Commit], kind: str, fits: Fits = lambda action: True) -> list[Place]:
    return [
        (at, number)
        for at, commit in enumerate(log)
        for number, (each, action) in enumerate(commit.events)
        if each == kind and fits(action)
    ]


def with_events(log: list[Commit], at: int, events: Sequence[Any]) -> list[Commit]:
    return [*log[:at], log[at]._replace(events=events), *log[at + 1 :]]


def anything(action: Any) -> bool:
    return True


def edited(kind: str, fits: Fits, make: Callable[[random.Random, list[Commit], Place, Any], list[Event]]) -> Way:
    """Other events in the place of one; *make* returns none where it cannot."""

    def way(chance: random.Random, log: list[Commit]) -> list[Commit] | None:
        found = places(log, kind, fits)
        if not found:
            return None
        at, number = chance.choice(found)
        new = make(chance, log, (at, number), copy.deepcopy(log[at].events[number][1]))
        events: list[Any] = [*log[at].events]
        return with_events(log, at, [*events[:number], *new, *events[number + 1 :]]) if new else None

    return way


def changed(kind: str, change: Callable[[random.Random, Any], Any], fits: Fits = anything) -> Way:
    """Another action in its place; *change* returns None where there is no other."""

    def make(chance: random.Random, log: list[Commit], place: Place, action: Any) -> list[Event]:
        new = change(chance, action)
        return [] if new is None else [(kind, new)]

    return edited(kind, fits, make)


def before(kind: str, more: More, fits: Fits = anything) -> Way:
    """More events before an action; none where *more* finds nothing."""

    def make(chance: random.Random, log: list[Commit], place: Place, action: Any) -> list[Event]:
        found = more(log, place, action)
        return [*found, (kind, action)] if found else []

    return edited(kind, fits, make)


def after(kind: str, more: More, fits: Fits = anything) -> Way:
    def make(chance: random.Random, log: list[Commit], place: Place, action: Any) -> list[Event]:
        found = more(log, place, action)
        return [(kind, action), *found] if found else []

    return edited(kind, fits, make)


# ---------------------------------------------------------------- contents of a log


def queued(log: Sequence[Commit], gang: str, upto: Place) -> Any:
    """The gang as it was last queued."""
    known = [
        action["gang"]
        for at, number in places(log, "Queue", lambda action: action["gang"]["id"] == gang)
        for action in [log[at].events[number][1]]
        if (at, number) <= upto
    ]
    return known[-1]


def pool_at(log: Sequence[Commit], name: str, upto: Place) -> Any:
    found = [log[at].events[number][1]["pool"] for at, number in places(log, "PutPool") if (at, number) < upto]
    return [each for each in found if each["name"] == name][-1]


def running(log: Sequence[Commit], upto: Place) -> dict[str, Any]:
    """Gang → placement of all that were admitted and did not stop."""
    found: dict[str, Any] = {}
    for at, commit in enumerate(log[: upto[0] + 1]):
        for number, (kind, action) in enumerate(commit.events):
            if (at, number) >= upto:
                break
            if kind == "Admit":
                found[action["gang"]] = action["placement"]
            elif kind in ("Release", "Preempt", "Stop", "Refuse"):
                found.pop(action["gang"], None)
    return found


def has_gpus(action: Any) -> bool:
    return any(share["gpus"] for each in action["placement"] for share in each["shares"])


def keys_of(log: list[Commit], place: Place, action: Any) -> set[str]:
    """Those of quota that the placement uses."""
    needs = {each["name"]: each["requests"] for each in queued(log, action["gang"], place)["pod_sets"]}
    return {f"{each['flavor']}/{resource}" for each in action["placement"] for resource, _ in needs[each["pod_set"]]}


def pending(log: list[Commit], place: Place, gang: str) -> bool:
    """It is in the queue, and neither nominated nor turned back."""
    since = [
        kind
        for at, commit in enumerate(log[: place[0] + 1])
        for number, (kind, action) in enumerate(commit.events)
        if (at, number) < place and (action["gang"]["id"] if kind == "Queue" else action.get("gang")) == gang
    ]
    return since[-1] in ("Queue", "Withdraw") and not queued(log, gang, place)["refused"]


def gpus_of(action: Any) -> set[tuple[str, int]]:
    return {(share["node"], gpu) for each in action["placement"] for share in each["shares"] for gpu in share["gpus"]}
