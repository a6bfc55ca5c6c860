"""The catalogue behind docs/reference/messages.md: every error and every reason, with its cause and a way out."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from runrig.domain import errors
from runrig.domain.laws import titled
from runrig.domain.reasons import Code, Reason
from runrig.domain.statuses import STATUSES


class Entry(NamedTuple):
    """*shown*: a reason as an example of its sentence."""

    shown: Reason
    cause: str
    way_out: str


def _reason(code: Code, law: str, where: str = "pool vision", resource: str = "default/gpu", **more: Any) -> Reason:
    return Reason(code, law, where, resource, **({"have": 2, "need": 4} | more))


_GANG, _GANGS = ("train-1",), ("train-1", "train-2")

REASONS: dict[Code, Entry] = {
    Code.HELD: Entry(
        Reason(Code.HELD, "W3", "alice", since=1769868120),
        "Someone put the workflow on hold.",
        "`runrig workflow release ID`",
    ),
    Code.PAUSED: Entry(
        Reason(Code.PAUSED, "S8", "vision", since=1769868120),
        "An administrator paused the pool, so it starts nothing new.",
        "Wait, or ask an administrator to run `runrig pool resume vision`.",
    ),
    Code.SET_ASIDE: Entry(
        Reason(Code.SET_ASIDE, "W8", "train-3", since=1769868120),
        "The server failed while it decided about this workflow. This is a bug; the log has `event=set_aside`.",
        "Release it after an upgrade, or cancel it.",
    ),
    Code.ARRAY: Entry(
        Reason(Code.ARRAY, "W4", have=3, need=3, gangs=10),
        "It is an element of an array, whose elements take turns.",
        "Wait, or let more of them run with `runrig array ID --most N`.",
    ),
    Code.AFTER: Entry(
        Reason(Code.AFTER, "W5", "ok", holders=("train-2",)),
        "It was submitted with `--after`, and that workflow has not ended as it must.",
        "Wait, or look at that workflow with `runrig why ID`.",
    ),
    Code.UPSTREAM: Entry(
        Reason(Code.UPSTREAM, "W1", holders=("prep", "split")),
        "The group takes its inputs from groups that have not completed.",
        "Wait, or look at these groups with `runrig workflow query ID`.",
    ),
    Code.QUOTA_FULL: Entry(
        Reason(Code.QUOTA_FULL, "P2", "vision", "default/gpu", 2, 4, _GANGS),
        "HIGH and NORMAL workflows never use more than the guaranteed quota of their pool.",
        "Use priority LOW, another pool, or ask for more quota.",
    ),
    Code.BORROWING_LIMIT: Entry(
        _reason(Code.BORROWING_LIMIT, "Q3"),
        "The pool, or a pool or cohort above it, has borrowed as much as it may.",
        "Wait, use another pool, or ask for a higher borrowing limit.",
    ),
    Code.NO_IDLE_TO_BORROW: Entry(
        _reason(Code.NO_IDLE_TO_BORROW, "Q3", "the cluster"),
        "Other pools use their quota, or withhold it with lending limits.",
        "Wait, or use NORMAL priority within your quota.",
    ),
    Code.USER_LIMIT: Entry(
        Reason(Code.USER_LIMIT, "W6", "vision", "gpu", have=8, need=2, own=8, said="cy"),
        "The user already uses all GPUs that the pool allows one user. Work of other users is not delayed.",
        "Wait until work of the same user ends, use another pool, or ask for a higher limit.",
    ),
    Code.BUDGET: Entry(
        Reason(Code.BUDGET, "W7", "vision", have=1000, own=1000, until=1_793_491_200.0),
        "The pool, or the user in all pools, has used the GPU-hours of this month. Running work continues.",
        "Wait until the month ends, use another pool, or ask for a higher budget. If the budget lets LOW work start, lower the priority.",
    ),
    Code.COHORT_CYCLE: Entry(
        _reason(Code.COHORT_CYCLE, "Q5"),
        "The parents of cohorts lead back to where they begin.",
        "An administrator changes the parent of one of them.",
    ),
    Code.EXCEEDS_POTENTIAL: Entry(
        _reason(Code.EXCEEDS_POTENTIAL, "P3"),
        "Quota was reduced after submission: even an idle cluster could not admit the workflow.",
        "Request less, move it to another pool, or ask for more quota.",
    ),
    Code.NO_MATCHING_FLAVOR: Entry(
        _reason(Code.NO_MATCHING_FLAVOR, "P3", resource="b200, h100"),
        "No flavor of the pool matches the platform of a task.",
        "Name a platform that the pool has, or none.",
    ),
    Code.MISCONFIGURED: Entry(
        _reason(Code.MISCONFIGURED, "P3", "training"),
        "`simulate` only: no queue accepts the workload.",
        "Fix the manifest; the warnings name the fields.",
    ),
    Code.REQUESTS_NOTHING: Entry(
        _reason(Code.REQUESTS_NOTHING, "T1", "training", "main"),
        "`simulate` only: a pod set needs nodes, but requests no resource that the queue covers.",
        "Add a request.",
    ),
    Code.NO_ROOM_ON_NODES: Entry(
        _reason(Code.NO_ROOM_ON_NODES, "T1", have=3),
        "There is enough quota, but the free GPUs are on too many nodes, or nodes are cordoned.",
        "Wait, use smaller pods, or uncordon nodes.",
    ),
    Code.NO_DOMAIN_FITS: Entry(
        _reason(Code.NO_DOMAIN_FITS, "T1", "rack", have=3),
        "A topology requirement needs one rack, spine or zone with enough free nodes.",
        "Require a coarser level, prefer it instead, or request fewer pods.",
    ),
    Code.NOT_ALL_GROUPS_FIT: Entry(
        _reason(Code.NOT_ALL_GROUPS_FIT, "T1", "rack"),
        "Several required groups compete for the same domains.",
        "As for `NoDomainFits`.",
    ),
    Code.KEYS_CHANGED: Entry(
        _reason(Code.KEYS_CHANGED, "T3"),
        "The pool lost topology keys that the workflow names.",
        "Submit it again without them.",
    ),
    Code.PLACEMENT_NOT_PROVEN: Entry(
        _reason(Code.PLACEMENT_NOT_PROVEN, "T1"),
        "The exact search for a placement reached its limit. A placement may exist.",
        "Use fewer kinds of pods or requirements, or wait.",
    ),
    Code.BEHIND_HEAD: Entry(
        Reason(Code.BEHIND_HEAD, "P4", holders=_GANG),
        "In a STRICT_FIFO queue, nothing starts before the head.",
        "Wait, or ask for BEST_EFFORT_FIFO.",
    ),
    Code.KAI_NOT_PLACED: Entry(
        _reason(Code.KAI_NOT_PLACED, "T7", "0/3 nodes are available"),
        "The Kubernetes cluster rejected the gang or evicted one of its pods.",
        "Look for pods of others, taints, pressure and resource quotas on its nodes.",
    ),
    Code.STOPPED: Entry(
        _reason(Code.STOPPED, "P4", "training"),
        "`simulate` only: the queue, the local queue or the workload is stopped.",
        "Change `stopPolicy`, or `active` of the workload.",
    ),
    Code.FLAVOR_NOT_FOUND: Entry(
        _reason(Code.FLAVOR_NOT_FOUND, "Q2", "training", "h100"),
        "`simulate` only: a queue names a ResourceFlavor that the file does not have.",
        "Add the ResourceFlavor.",
    ),
    Code.WAITS_FOR_TARGETS: Entry(
        Reason(Code.WAITS_FOR_TARGETS, "R4", holders=_GANGS),
        "Preempted or drained work is still stopping.",
        "Wait; the grace period of the pool limits how long it takes.",
    ),
    Code.NO_TARGETS: Entry(
        _reason(Code.NO_TARGETS, "R2", gangs=3),
        "The gang is within its guaranteed quota, but not enough LOW work can be preempted for it.",
        "Wait, or request less.",
    ),
    Code.WOULD_BORROW: Entry(
        _reason(Code.WOULD_BORROW, "R2", "training"),
        "`simulate` only: the queue may not preempt while it borrows.",
        "Set `borrowWithinCohort`.",
    ),
    Code.NO_EMPTY_NODES: Entry(
        _reason(Code.NO_EMPTY_NODES, "P3", have=3),
        "Nodes left the cluster after submission.",
        "Request less, or bring the nodes back.",
    ),
    Code.NOT_CONSIDERED: Entry(
        _reason(Code.NOT_CONSIDERED, "P5"),
        "The next cycle evaluates it.",
        "Ask again in a second.",
    ),
}

ERRORS: dict[type[errors.RunrigError], tuple[str, str]] = {
    errors.InvalidInput: ("A file, an option or a field breaks the rules. All problems are listed.", "Fix them."),
    errors.NotFound: ("The name does not exist, or you have no access to it.", "Check the name; the message lists similar ones."),
    errors.Conflict: ("The name is in use, or the object is in a state that forbids the request.", "Do what the message says."),
    errors.Changed: ("The object changed after you read it.", "Read it again, and repeat the change."),
    errors.Refused: ("A rule forbids it. `law` names the rule.", "The message has the numbers and a way out; see [the rules](../laws.md)."),
    errors.NoCredential: ("A task names a credential that its user does not have.", "`runrig credential set NAME`"),
    errors.NotAllowed: ("You lack the permission.", "Ask for the role that the message names."),
    errors.NotLoggedIn: ("The token is missing, wrong or expired.", "`runrig login URL`"),
    errors.Unavailable: ("The server is starting, stopping or busy, or cannot reach its database or cluster.", "Try again."),
    errors.TooMany: ("Too many requests or failed logins.", "Wait as long as `Retry-After` says."),
    errors.ServerFault: ("The machine of the server is at fault: disk, database or port.", "See the log of the server."),
}  # fmt: skip


def error_rows() -> Iterator[str]:
    rows = ["| code | HTTP | exit code | cause | way out |", "|---|---|---|---|---|"]
    for kind, (cause, way_out) in ERRORS.items():
        rows.append(f"| `{kind.code}` | {STATUSES[kind]} | {kind.exit_code} | {cause} | {way_out} |")
    yield "\n".join(rows)


def reason_rows() -> Iterator[str]:
    rows = ["| code | rule | example | cause | way out |", "|---|---|---|---|---|"]
    for code in Code:
        shown, cause, way_out = REASONS[code]
        rows.append(f"| `{code.value}` | {titled(shown.law)} | {shown} | {cause} | {way_out} |")
    yield "\n".join(rows)
