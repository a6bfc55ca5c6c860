"""The short names of the scheduling rules, which docs/laws.md explains."""

NAMES = {
    "Q1": "Quota tree",
    "Q2": "Exact amounts",
    "Q3": "Balance",
    "Q4": "Headroom",
    "Q5": "No cycles",
    "Q6": "Implicit cohorts",
    "Q7": "All or nothing",
    "Q8": "Root",
    "P1": "Priorities",
    "P2": "Guarantee",
    "P3": "Gate",
    "P4": "Queue order",
    "P5": "Full cycle",
    "P6": "Run time limits",
    "R1": "Preempt by priority",
    "R2": "Reclaim",
    "R3": "No needless stops",
    "R4": "Reserve, then start",
    "R5": "Preemption ends",
    "R6": "Requeue",
    "R7": "Edits stop nothing",
    "A1": "Fewer pods",
    "A2": "No side effects",
    "A3": "Recorded size",
    "T1": "Placement",
    "T2": "Close together",
    "T3": "Constraint tree",
    "T4": "Domain first",
    "T5": "Any size",
    "T6": "One task group",
    "T7": "Bound to nodes",
    "S1": "Shares add up",
    "S2": "Unallocated",
    "S3": "Drain",
    "S4": "Names",
    "S5": "Inheritance",
    "S6": "History",
    "S7": "Closed pools",
    "S8": "Paused pools",
    "N1": "Cordon",
    "N2": "Drain",
    "W1": "Gangs start whole",
    "W2": "Nothing is lost",
    "W3": "Hold",
    "W4": "Arrays",
    "W5": "After",
    "W6": "Limits",
    "W7": "Budgets",
    "W8": "Set aside",
    "U1": "Held",
    "U2": "Lost",
    "U3": "Lent",
    "U4": "Closed hours",
}
OF_PREEMPTIONS = {"PRIORITY": "R1", "RECLAIM": "R2"}
"""The rule behind each `gangs.Law`, by its name in answers."""


def titled(law: str) -> str:
    """``Reclaim R2`` for ``R2``; only the number if a newer server has a rule that this version does not know."""
    return f"{NAMES[law]} {law}" if law in NAMES else law


def cited(law: str) -> str:
    """``(Reclaim, rule R2)`` for ``R2``, to end a sentence; without a name as in `titled`."""
    return f"({NAMES[law]}, rule {law})" if law in NAMES else f"(rule {law})"
