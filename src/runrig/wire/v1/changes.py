"""What would let a workflow start: changes, each with what the engine does then."""

from runrig.wire.base import example
from runrig.wire.v1.base import Shown


class ForeseenEffect(Shown):
    """What becomes of another gang instead: it `starts`, `stops`, `waits` or `stays`."""

    model_config = example({"gang": "eval-5", "becomes": "waits"})

    gang: str
    becomes: str


class WouldStart(Shown):
    """*who* can do it: owner, admin; wait: nobody, it takes waiting.  *changes*: one, or two of the owner's, as sentences.

    *verdict*: STARTS, or STARTS_AFTER_STOPS of the gangs in *stops*.  *pods*: how many of each pod set would start.  *instead_of*: what
    else would be different in the next cycle.
    """

    model_config = example(
        {
            "group": "main-group",
            "who": "owner",
            "kinds": ["FewerPods"],
            "changes": ["main has 7 pods, not 8"],
            "verdict": "STARTS",
            "pods": [7],
            "stops": [],
            "instead_of": [ForeseenEffect.example()],
        }
    )

    group: str
    who: str
    kinds: list[str]
    changes: list[str]
    verdict: str
    pods: list[int]
    stops: list[str]
    instead_of: list[ForeseenEffect]


class TriedDial(Shown):
    """*dial*: what was turned.  Of *values* so many were *refuted* without a cycle, and so many *run*.

    *verdict* WAITS: none of the values starts it; NOT_PROVEN: the budget ended before all were tried.
    """

    model_config = example(
        {
            "group": "main-group",
            "who": "admin",
            "dial": "quota of pool vision (default/gpu)",
            "values": 8,
            "refuted": 6,
            "run": 2,
            "verdict": "WAITS",
        }
    )

    group: str
    who: str
    dial: str
    values: int
    refuted: int
    run: int
    verdict: str


class WorkflowChanges(Shown):
    """*at_rest* False: the next cycle does something even without a change.  *revision*: of the state that this is about.

    Work of pools that you do not see appears as `work of another pool`."""

    model_config = example(
        {
            "revision": 18342,
            "at_rest": True,
            "would_start": [WouldStart.example()],
            "tried": [TriedDial.example()],
        }
    )

    revision: int
    at_rest: bool
    would_start: list[WouldStart]
    tried: list[TriedDial]
