"""The output of `runrig simulate`: one outcome per scenario, and its line of JSON.

Both formats have the same structure. Values shown only to users (the tree, requested pods, nodes) are included;
`as_line` omits them.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from runrig.domain.balances import Balance, Share
from runrig.domain.kueue import Decided, Inactive, Pending, Warned
from runrig.domain.quantities import FlavorResource

Json = dict[str, object]
COHORT = "Cohort"


@dataclass(frozen=True, slots=True)
class TreeNode:
    """*key*: its name in quotas and shares; *kind*: Cohort, ClusterQueue or Pool; *parent*: a key, None at the top."""

    key: str
    name: str
    kind: str
    parent: str | None = None


Quotas = Mapping[str, Mapping[FlavorResource, Balance]]
"""Node name -> (flavor, resource) -> numbers; both sorted."""


@dataclass(frozen=True, slots=True)
class PodSetStarted:
    """*count* of *asked* pods. *flavors*: (resource, flavor); *nodes*: (node, pods).

    *placement*: (domain, pods), if a topology is requested; a domain is its values, coarse to fine.
    """

    name: str
    count: int
    asked: int
    flavors: tuple[tuple[str, str], ...] = ()
    nodes: tuple[tuple[str, int], ...] = ()
    placement: tuple[tuple[tuple[str, ...], int], ...] = ()


@dataclass(frozen=True, slots=True)
class Admitted:
    """*reserved_only*: it has reserved quota and waits for checks. *job*: changes written to its Job, None without one."""

    workload: str
    queue: str
    pod_sets: tuple[PodSetStarted, ...]
    reserved_only: bool = False
    job: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Cycle(Decided[Admitted]):
    """*at*: seconds since the start, None in the format whose cycles have no time."""

    at: float | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """The quota tree before the first cycle, or after the last."""

    quotas: Quotas
    shares: Mapping[str, Share]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one scenario. *tree*: parents before their children."""

    scenario: str
    tree: tuple[TreeNode, ...]
    before: Moment
    after: Moment
    cycles: tuple[Cycle, ...]
    inactive: tuple[Inactive, ...] = ()
    warnings: tuple[Warned, ...] = ()


# ---------------------------------------------------------------- as JSON


def as_line(outcome: Outcome) -> str:
    """Returns one line of JSON, the same for the same outcome."""
    known = frozenset(each.key for each in outcome.tree)
    return _line(
        {
            "scenario": outcome.scenario,
            "quota": {"before": _quotas(outcome.before.quotas), "after": _quotas(outcome.after.quotas)},
            "inactive": [_inactive(each) for each in outcome.inactive],
            "cohorts": _cohorts(outcome),
            "cycles": [_cycle(each, known) for each in outcome.cycles],
            "shares": {"before": _shares(outcome.before.shares), "after": _shares(outcome.after.shares)},
            "warnings": [_warning(each) for each in outcome.warnings],
        }
    )


def _warning(warned: Warned) -> dict[str, object]:
    file = {"file": warned.file} if warned.file else {}
    return {**file, "document": warned.document, "path": warned.path, "message": warned.message}


def error_line(scenario: str, error: str) -> str:
    """Returns the line for a file that is not a scenario."""
    return _line({"scenario": scenario, "error": error})


def _line(document: Json) -> str:
    return json.dumps(document).replace("\x7f", "\\u007f")


def _quotas(quotas: Quotas) -> Json:
    return {
        node: {str(key): _without_nothing(amounts[key]._asdict()) for key in sorted(amounts)}
        for node, amounts in sorted(quotas.items())
    }


def _inactive(inactive: Inactive) -> Json:
    answer: Json = {"node": inactive.name, "kind": inactive.kind, "reason": inactive.reason}
    if inactive.usage is not None:
        answer["usage"] = {str(key): amount for key, amount in inactive.usage}
    return answer


def _cohorts(outcome: Outcome) -> Json:
    """Returns the condition in KEP-79 of each cohort, by its name in quotas."""
    inactive = {each.name for each in outcome.inactive if each.kind == COHORT}
    return {
        each.key: {"CohortActive": each.name not in inactive}
        for each in sorted(outcome.tree, key=lambda node: node.key)
        if each.kind == COHORT
    }


def _shares(shares: Mapping[str, Share]) -> Json:
    return {node: asdict(share) for node, share in sorted(shares.items())}


def _cycle(cycle: Cycle, known: frozenset[str]) -> Json:
    at: Json = {} if cycle.at is None else {"at": int(cycle.at) if cycle.at.is_integer() else cycle.at}
    return at | {
        "admitted": [_admitted(each) for each in cycle.admitted],
        "preempted": [_without_nothing(asdict(each)) for each in cycle.preempted],
        "pending": [_pending(each, known) for each in cycle.pending],
        "skipped_preemptions": dict(sorted(cycle.skipped.items())),
    }


def _without_nothing(values: Mapping[str, object]) -> Json:
    return {name: value for name, value in values.items() if value is not None}


def _admitted(admitted: Admitted) -> Json:
    answer: Json = {
        "workload": admitted.workload,
        "queue": admitted.queue,
        "pod_sets": [_pod_set(each) for each in admitted.pod_sets],
    }
    if admitted.reserved_only:
        answer["reserved_only"] = True
    if admitted.job is not None:
        answer["job"] = dict(admitted.job)
    return answer


def _pod_set(started: PodSetStarted) -> Json:
    answer: Json = {"name": started.name, "count": started.count, "flavors": dict(started.flavors)}
    if started.placement:
        answer["placement"] = [{"domain": list(domain), "count": count} for domain, count in started.placement]
    return answer


def _pending(pending: Pending, known: frozenset[str]) -> Json:
    return {
        "workload": pending.workload,
        "queue": pending.queue,
        "considered": pending.considered,
        "parked": pending.parked,
        "reason": pending.reason,
        "reasons": [
            {
                "code": each.code.value,
                "node": _node(each.where, known),
                "resource": each.resource,
                "have": each.have,
                "need": each.need,
                "law": each.law,
            }
            for each in pending.reasons
        ],
    }


def _node(where: str, known: frozenset[str]) -> str:
    """Returns the name in quotas of *where* in a reason, such as "cohort lab"; *where* itself if it is not such a node."""
    kind, _, name = where.partition(" ")
    if kind == "cohort" and f"cohort/{name}" in known:
        return f"cohort/{name}"
    return name if kind in ("cohort", "pool") and name in known else where
