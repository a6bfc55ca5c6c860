"""Which law judges what."""

from collections.abc import Callable, Iterator, Mapping

from . import laws, lives
from .court import Action, Commit, Court
from .gang import Gang

Law = Callable[[Court, Gang, Action], Iterator[str]]
_STARTS = (
    ("T1", lives.placement),
    ("Q3", laws.balance),
    ("P2", laws.guarantee),
    ("Q5", laws.no_cycles),
    ("P4", laws.strict_order),
    ("A1", laws.fewer_pods),
    ("W1", lives.legal_step),
    ("W3", lives.hold),
    ("S8", lives.paused_pools),
    ("W6", lives.user_gpus),
    ("W7", lives.reached),
)
_STEP = (("W1", lives.legal_step),)
OF_GANGS: Mapping[str, tuple[tuple[str, Law], ...]] = {
    "Queue": (
        ("P4", laws.keeps_its_place),
        ("R6", laws.requeue),
        ("A3", laws.recorded_size),
        ("W1", lives.inputs_are_done),
        ("W5", lives.others_have_ended),
        ("P3", laws.gate),
    ),
    "Admit": (
        *_STARTS,
        ("P4", laws.queue_order),
        ("W2", lives.no_gpu_twice),
        ("W4", lives.elements_at_a_time),
    ),
    "Nominate": (
        *_STARTS,
        ("R2", laws.reclaim),
        ("R3", laws.no_needless_stops),
        ("R4", laws.reserve_then_start),
    ),
    "Preempt": (
        *_STEP,
        ("P1", laws.priorities),
        ("R1", laws.named_law),
        ("R4", laws.preempts_what_it_waits_for),
    ),
    "Withdraw": (*_STEP, ("R4", laws.keeps_its_reservation)),
    "Stop": (*_STEP, ("N2", lives.drain), ("P6", lives.stops_in_time)),
    "Replace": (*_STEP, ("T1", lives.placement)),
    "SetPriority": (*_STEP, ("P2", laws.stays_within_guarantee), ("P4", laws.follows_its_workflow)),
    "Unqueue": _STEP,
    "Refuse": _STEP,
    "TryAgain": _STEP,
}
"""Before a decision about a gang is carried out, by the kind of action."""
OF_DECLARATIONS: Mapping[str, tuple[tuple[str, Callable[[Court, Action], Iterator[str]]], ...]] = {
    "PutPool": (("S3", lives.drains), ("S6", lives.history)),
    "PutCohort": (("S6", lives.history),),
    "SetSpent": (("W7", lives.said),),
    "Submit": (("S7", lives.closed_pools), ("W6", lives.waiting_limit), ("P6", lives.run_time)),
    "Reassign": (("P6", lives.run_time),),
    "MoveGroup": (("P6", lives.ends_in_time),),
}
"""Before what people declared or submitted is carried out."""
OF_COMMITS: tuple[tuple[str, Callable[[Court, Commit], Iterator[str]]], ...] = (
    ("R7", laws.edits_stop_nothing),
    ("S1", lives.shares_add_up),
)
"""After a commit with edits."""
EDITS = frozenset(("PutPool", "PutCohort", "DropCohort"))
AT_REST: tuple[tuple[str, Callable[[Court], Iterator[tuple[Gang, str]]]], ...] = (
    ("P5", laws.full_cycle),
    ("R1", laws.own_pool_first),
    ("R4", laws.free_places),
    ("P6", lives.in_time),
)
"""At the end of a cycle."""
CODES = sorted(
    {code for each in (*OF_GANGS.values(), *OF_DECLARATIONS.values()) for code, _ in each}
    | {code for code, _ in OF_COMMITS}
    | {code for code, _ in AT_REST}
)
