"""Every example of `simulate`, run by the command in its own head, does what docs/simulate.md says.

The outcomes are worked out from the rules: quota and limits (Q3), one head per queue and cycle, the order of heads, preemption
(R2, R3, R5), partial admission (A1).
"""

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.command_line import runrig

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "simulate.md"
KUEUE = sorted((ROOT / "examples" / "kueue").glob("*.yaml"))
CLUSTER = sorted((ROOT / "examples" / "simulate").glob("*.yaml"))


@dataclass(frozen=True)
class Told:
    """*cycles*: what each did, admissions and preemptions in order, then who was looked at and got nothing.

    *waits*: everybody who waits in the end, with the quotas that are short.  *held*: what queues and cohorts use in the end.
    *warned*: document and path of each warning.  *inactive*: kind, name, reason.
    """

    cycles: tuple[tuple[str, ...], ...]
    waits: tuple[str, ...] = ()
    held: str = ""
    warned: tuple[str, ...] = ()
    inactive: tuple[str, ...] = ()


QUIET: tuple[str, ...] = ()

OUTCOMES = {
    "01-single-queue": Told(
        (
            ("first: 3 default",),
            ("wide parked, WaitingForQuota",),
            ("huge parked, ExceedsMaxQuota",),
            ("hungry parked, ExceedsMaxQuota",),
            ("last: 4 default",),
            QUIET,
        ),
        (
            "wide parked: training default/cpu has 1000, needs 6000",
            "huge parked: training default/cpu has 8000, needs 10000",
            "huge parked: training default/memory has 19327352832, needs 21474836480",
            "hungry parked: training default/memory has 34359738368, needs 42949672960",
        ),
        held="training default/cpu 7000, training default/memory 15032385536",
    ),
    "02-cohort-borrowing": Told(
        (("b-small: 3 default", "a-wide: 3 default"), ("b-late parked, WaitingForQuota",), QUIET),
        ("b-late parked: research default/cpu has 0, needs 2000",),
        held="research default/cpu 12000, team-a default/cpu 9000, team-b default/cpu 3000",
    ),
    "03-lending-limit": Told(
        (
            ("a-six: 6 default", "b-eight: 8 default"),
            ("a-one parked, WaitingForQuota", "b-ten parked, ExceedsMaxQuota"),
            QUIET,
        ),
        (
            "a-one parked: research default/cpu has 0, needs 1000",
            "b-ten parked: team-b default/cpu has 8000, needs 10000",
        ),
        held="research default/cpu 8000, team-a default/cpu 6000, team-b default/cpu 8000",
    ),
    "04-borrowing-limit": Told(
        (("a-six: 6 default",), ("a-one parked, WaitingForQuota",), ("a-seven parked, ExceedsMaxQuota",), QUIET),
        (
            "a-one parked: team-a default/cpu has 0, needs 1000",
            "a-seven parked: team-a default/cpu has 6000, needs 7000",
        ),
        held="research default/cpu 6000, team-a default/cpu 6000",
    ),
    "05-spot-and-on-demand": Told(
        (
            ("tolerant: 4 spot",),
            ("careful: 2 on-demand",),
            ("overflow: 3 on-demand",),
            ("astray parked, NoMatchingFlavor",),
            QUIET,
        ),
        ("astray parked",),
        held="training on-demand/cpu 7000, training spot/cpu 8000",
    ),
    "06-fungibility": Told(
        (("p-four: 4 spot", "e-four: 4 reserved"), QUIET),
        held="eager reserved/cpu 4000, patient spot/cpu 4000, research reserved/cpu 4000, research spot/cpu 4000",
    ),
    "07-gpus": Told(
        (
            ("pinned: 2 cpu: default, memory: default, nvidia.com/gpu: h100",),
            ("any: 4 cpu: default, memory: default, nvidia.com/gpu: l4",),
            ("late parked, WaitingForQuota",),
            ("large: 3 cpu: default, memory: default, nvidia.com/gpu: l4",),
            QUIET,
        ),
        ("late parked: training h100/nvidia.com/gpu has 0, needs 1",),
        held="training default/cpu 36000, training default/memory 154618822656, "
        "training h100/nvidia.com/gpu 8, training l4/nvidia.com/gpu 16",
    ),
    "08-hierarchy": Told(
        (
            ("eval-two: 2 default", "translate: 8 default", "train-nine: 9 default"),
            ("eval-four parked, WaitingForQuota",),
            QUIET,
        ),
        ("eval-four parked: vision default/cpu has 1000, needs 4000",),
        held="language default/cpu 8000, language-train default/cpu 8000, org default/cpu 19000, "
        "vision default/cpu 11000, vision-eval default/cpu 2000, vision-train default/cpu 9000",
    ),
    "09-priority": Told(
        (
            ("newer stops for urgent, InClusterQueue", "urgent stays, WaitingForPreemptedWorkloads"),
            ("urgent: 6 default",),
            ("newer parked, WaitingForQuota",),
            ("routine parked, WaitingForQuota",),
            QUIET,
        ),
        (
            "newer parked: training default/cpu has 0, needs 4000",
            "routine parked: training default/cpu has 0, needs 3000",
        ),
        held="training default/cpu 10000",
    ),
    "10-reclaim": Told(
        (
            ("a-three stops for b-five, InCohortReclamation", "b-five stays, WaitingForPreemptedWorkloads"),
            ("b-five: 5 default", "a-three stays, WaitingForQuota"),
            ("a-three parked, WaitingForQuota", "b-two parked, WaitingForQuota"),
            QUIET,
        ),
        (
            "a-three parked: research default/cpu has 0, needs 2000",
            "b-two parked: research default/cpu has 0, needs 2000",
        ),
        held="research default/cpu 12000, team-a default/cpu 7000, team-b default/cpu 5000",
    ),
    "11-borrow-while-reclaiming": Told(
        (
            (
                "notebook stops for release, InCohortReclaimWhileBorrowing",
                "release stays, WaitingForPreemptedWorkloads",
            ),
            ("release: 7 default", "notebook stays, WaitingForQuota"),
            ("notebook parked, WaitingForQuota", "hotfix parked, WaitingForQuota"),
            QUIET,
        ),
        (
            "notebook parked: company default/cpu has 0, needs 3000",
            "hotfix parked: company default/cpu has 0, needs 3000",
        ),
        held="company default/cpu 10000, dev default/cpu 3000, prod default/cpu 7000",
    ),
    "12-fair-sharing": Told(
        (
            ("s-three stops for l-one, InCohortFairSharing", "l-one stays, WaitingForPreemptedWorkloads"),
            ("l-one: 1 h100", "s-three stays, WaitingForQuota"),
            (
                "s-two stops for l-two, InCohortFairSharing",
                "l-two stays, WaitingForPreemptedWorkloads",
                "s-three parked, WaitingForQuota",
            ),
            ("l-two: 1 h100", "s-two stays, WaitingForQuota"),
            ("l-three parked, WaitingForQuota", "s-two parked, WaitingForQuota"),
            QUIET,
        ),
        (
            "l-three parked: lab h100/nvidia.com/gpu has 0, needs 3",
            "s-two parked: lab h100/nvidia.com/gpu has 0, needs 3",
            "s-three parked: lab h100/nvidia.com/gpu has 0, needs 3",
        ),
        held="lab h100/nvidia.com/gpu 9, large h100/nvidia.com/gpu 6, small h100/nvidia.com/gpu 3",
    ),
    "13-queueing": Told(
        (
            ("r-three: 3 default", "s-three: 3 default"),
            ("r-two parked, WaitingForQuota", "s-two stays, WaitingForQuota"),
            ("r-one: 1 default", "s-two stays, WaitingForQuota"),
            ("s-two stays, WaitingForQuota",),
        ),
        (
            "r-two parked: relaxed default/cpu has 0, needs 2000",
            "s-two: strict default/cpu has 1000, needs 2000",
            "s-one",
        ),
        held="relaxed default/cpu 4000, strict default/cpu 3000",
    ),
    "14-partial-job": Told(
        (
            ("flexible: 5 default, written: completions 5, parallelism 5, suspend False",),
            ("rigid parked, WaitingForQuota",),
            QUIET,
        ),
        ("rigid parked: training default/cpu has 0, needs 8000",),
        held="training default/cpu 10000",
    ),
    "15-mpi-job": Told(
        (
            (
                "simulation: launcher 1 default, worker 6 cpu: default, nvidia.com/gpu: h100, "
                "written: suspend False, workers 6",
            ),
            QUIET,
        ),
        held="training default/cpu 25000, training h100/nvidia.com/gpu 8",
    ),
    "16-stopped": Told(
        (("o-waits: 1 default",), QUIET),
        ("d-runs", "d-waits", "h-waits", "p-waits"),
        held="held default/cpu 2000, open default/cpu 3000",
        inactive=("ClusterQueue drained Stopped", "ClusterQueue held Stopped"),
    ),
    "17-two-pod-sets": Told(
        (("sort-one: driver 1 on-demand, workers 4 spot",), ("sort-two parked, WaitingForQuota",), QUIET),
        (
            "sort-two parked: training spot/cpu has 4000, needs 12000",
            "sort-two parked: training on-demand/cpu has 6000, needs 14000",
        ),
        held="training on-demand/cpu 2000, training spot/cpu 12000",
    ),
    "18-cohort-cycle": Told(
        (("starts: 1 default", "stuck parked, Suspended"), QUIET),
        ("stuck parked",),
        held="fine default/cpu 1000",
        warned=("2 spec.parentName", "3 spec.parentName"),
        inactive=("Cohort east CohortCycle", "ClusterQueue lost CohortCycle", "Cohort west CohortCycle"),
    ),
    "19-v1beta1": Told(
        (("important: 6 reserved",), ("plain: 3 spot",), QUIET),
        held="company reserved/cpu 6000, company spot/cpu 3000, research reserved/cpu 6000, research spot/cpu 3000, "
        "team-a reserved/cpu 6000, team-a spot/cpu 3000",
        warned=("5 ", "6 spec.admissionChecks"),
    ),
    "20-namespaces": Told(
        (
            ("vision/welcome: 1 default", "vision/nobody parked, Misconfigured"),
            ("language/stranger parked, Misconfigured",),
            QUIET,
        ),
        ("vision/nobody parked", "language/stranger parked"),
        held="vision-only default/cpu 1000",
        warned=("4 ",),
    ),
    "21-not-simulated": Told(
        (("trial: 2 default",), QUIET),
        held="training default/cpu 2000",
        warned=(
            "2 ",
            "3 ",
            "4 spec.admissionChecksStrategy",
            "4 spec.admissionScope.admissionMode",
            "5 spec.fairSharing",
            "6 spec.maximumExecutionTimeSeconds",
        ),
    ),
    "22-comes-to-rest": Told(
        (
            ("s-waits: 3 default", "u-seven stays, WaitingForQuota"),
            ("s-waits stops for u-seven, InCohortReclaimWhileBorrowing", "u-seven stays, WaitingForPreemptedWorkloads"),
            ("u-seven: 7 default", "s-waits stays, WaitingForQuota"),
            ("s-waits parked, WaitingForQuota",),
            QUIET,
        ),
        ("s-waits parked: team default/cpu has 0, needs 3000",),
        held="org default/cpu 9000, spare default/cpu 2000, team default/cpu 9000, urgent default/cpu 7000",
    ),
    "23-topology": Told(
        (
            ("older stops for urgent, InClusterQueue", "urgent stays, WaitingForPreemptedWorkloads"),
            ("urgent: 2 h100 on n3, n4",),
            ("small: 1 h100 on n1",),
            ("pair parked, TopologyPlacementFailed",),
            ("loose: 2 h100 on n2",),
            ("older parked, TopologyPlacementFailed",),
            QUIET,
        ),
        ("pair parked: training h100 has 1, needs 2", "older parked: training h100 has 0, needs 1"),
        held="training h100/nvidia.com/gpu 28",
    ),
    "01-borrow-and-reclaim": Told(
        (
            (
                "0 s",
                "sweep-1/trial-0-group: trial-0 1 default",
                "sweep-1/trial-1-group: trial-1 1 default",
                "sweep-1/trial-2-group: trial-2 1 default",
            ),
            (
                "60 s",
                "sweep-1/trial-0-group stops for train-1/work-group, RECLAIM",
                "train-1/work-group stays, WaitsForTargets",
            ),
            ("61 s", "train-1/work-group: work 4 default", "sweep-1/trial-0-group parked, NoIdleToBorrow"),
            ("361 s", "sweep-1/trial-0-group: trial-0 1 default"),
            ("600 s",),
            ("961 s",),
        )
    ),
    "02-subpool": Told(
        (
            (
                "0 s",
                "sweep-1/trial-0-group: trial-0 1 default",
                "sweep-1/trial-1-group: trial-1 1 default",
                "sweep-1/trial-2-group: trial-2 1 default",
            ),
            (
                "120 s",
                "sweep-1/trial-0-group stops for train-1/work-group, RECLAIM",
                "train-1/work-group stays, WaitsForTargets",
            ),
            ("121 s", "train-1/work-group: work 4 default", "sweep-1/trial-0-group parked, NoIdleToBorrow"),
            ("421 s", "sweep-1/trial-0-group: trial-0 1 default"),
            ("600 s",),
            ("1021 s",),
        ),
        warned=("1 workflows[0]",),
    ),
    "03-fewer-pods": Told(
        (
            ("0 s", "train-1/work-group: work 4 default", "elastic-1/work-group: work 6 default"),
            (
                "60 s",
                "elastic-1/work-group stops for train-2/work-group, PRIORITY",
                "train-2/work-group stays, WaitsForTargets",
            ),
            ("61 s", "train-2/work-group: work 4 default", "elastic-1/work-group parked, BorrowingLimit"),
            ("300 s", "elastic-1/work-group: work 6 default"),
            ("361 s",),
            ("1500 s",),
        )
    ),
    "04-weights": Told(
        (
            (
                "0 s",
                "sweep-1/trial-0-group: trial-0 1 default",
                "sweep-3/trial-0-group: trial-0 1 default",
                "sweep-1/trial-1-group: trial-1 1 default",
                "sweep-3/trial-1-group: trial-1 1 default",
                "sweep-3/trial-2-group: trial-2 1 default",
                "sweep-1/trial-2-group: trial-2 1 default",
                "sweep-4/trial-0-group: trial-0 1 default",
                "sweep-4/trial-1-group: trial-1 1 default",
                "sweep-2/trial-0-group parked, NoIdleToBorrow",
                "sweep-2/trial-1-group parked, NoIdleToBorrow",
                "sweep-2/trial-2-group parked, NoIdleToBorrow",
                "sweep-4/trial-2-group parked, NoIdleToBorrow",
            ),
            (
                "60 s",
                "sweep-1/trial-0-group stops for train-1/work-group, RECLAIM",
                "sweep-3/trial-0-group stops for train-1/work-group, RECLAIM",
                "train-1/work-group stays, WaitsForTargets",
                "sweep-2/trial-0-group parked, NoIdleToBorrow",
                "sweep-2/trial-1-group parked, NoIdleToBorrow",
                "sweep-2/trial-2-group parked, NoIdleToBorrow",
                "sweep-4/trial-2-group parked, NoIdleToBorrow",
            ),
            (
                "61 s",
                "train-1/work-group: work 4 default",
                "sweep-1/trial-0-group parked, NoIdleToBorrow",
                "sweep-2/trial-0-group parked, NoIdleToBorrow",
                "sweep-2/trial-1-group parked, NoIdleToBorrow",
                "sweep-2/trial-2-group parked, NoIdleToBorrow",
                "sweep-3/trial-0-group parked, NoIdleToBorrow",
                "sweep-4/trial-2-group parked, NoIdleToBorrow",
            ),
            (
                "361 s",
                "sweep-1/trial-0-group: trial-0 1 default",
                "sweep-3/trial-0-group: trial-0 1 default",
                "sweep-2/trial-0-group parked, NoIdleToBorrow",
                "sweep-2/trial-1-group parked, NoIdleToBorrow",
                "sweep-2/trial-2-group parked, NoIdleToBorrow",
                "sweep-4/trial-2-group parked, NoIdleToBorrow",
            ),
            (
                "600 s",
                "sweep-2/trial-0-group: trial-0 1 default",
                "sweep-4/trial-2-group: trial-2 1 default",
                "sweep-2/trial-1-group: trial-1 1 default",
                "sweep-2/trial-2-group: trial-2 1 default",
            ),
            ("961 s",),
            ("1200 s",),
        )
    ),
    "05-one-way-borrowing": Told(
        (
            (
                "0 s",
                "sweep-1/trial-0-group: trial-0 1 default",
                "sweep-1/trial-1-group: trial-1 1 default",
                "sweep-1/trial-2-group: trial-2 1 default",
            ),
            ("600 s",),
            (
                "3600 s",
                "sweep-2/trial-0-group: trial-0 1 default",
                "sweep-2/trial-1-group: trial-1 1 default",
                "sweep-2/trial-2-group parked, BorrowingLimit",
            ),
            ("4200 s", "sweep-2/trial-2-group: trial-2 1 default"),
            ("4800 s",),
        )
    ),
    "06-dedicated-and-special": Told(
        (
            (
                "0 s",
                "sweep-1/trial-0-group: trial-0 1 default",
                "sweep-1/trial-1-group: trial-1 1 default",
                "sweep-1/trial-2-group: trial-2 1 default",
            ),
            (
                "60 s",
                "sweep-2/trial-0-group: trial-0 1 default",
                "sweep-2/trial-1-group parked, NoIdleToBorrow",
                "sweep-2/trial-2-group parked, NoIdleToBorrow",
            ),
            (
                "120 s",
                "sweep-1/trial-0-group stops for train-1/work-group, RECLAIM",
                "sweep-1/trial-1-group stops for train-1/work-group, RECLAIM",
                "train-1/work-group stays, WaitsForTargets",
                "sweep-2/trial-1-group parked, NoIdleToBorrow",
                "sweep-2/trial-2-group parked, NoIdleToBorrow",
            ),
            (
                "121 s",
                "train-1/work-group: work 4 default",
                "sweep-2/trial-1-group parked, NoIdleToBorrow",
                "sweep-2/trial-2-group parked, NoIdleToBorrow",
                "sweep-1/trial-0-group parked, NoIdleToBorrow",
                "sweep-1/trial-1-group parked, NoIdleToBorrow",
            ),
            (
                "421 s",
                "sweep-2/trial-1-group: trial-1 1 default",
                "sweep-1/trial-0-group: trial-0 1 default",
                "sweep-1/trial-1-group parked, NoIdleToBorrow",
                "sweep-2/trial-2-group parked, BorrowingLimit",
            ),
            ("600 s", "sweep-1/trial-1-group: trial-1 1 default", "sweep-2/trial-2-group parked, BorrowingLimit"),
            ("660 s", "sweep-2/trial-2-group: trial-2 1 default"),
            ("1021 s",),
            ("1200 s",),
            ("1260 s",),
        )
    ),
    "07-shared-quota": Told(
        (
            (
                "0 s",
                "sweep-1/trial-0-group: trial-0 1 default",
                "sweep-1/trial-1-group: trial-1 1 default",
                "sweep-1/trial-2-group: trial-2 1 default",
                "sweep-2/trial-0-group: trial-0 1 default",
                "sweep-2/trial-1-group: trial-1 1 default",
                "sweep-2/trial-2-group: trial-2 1 default",
            ),
            (
                "60 s",
                "sweep-1/trial-0-group stops for train-1/work-group, RECLAIM",
                "sweep-1/trial-1-group stops for train-1/work-group, RECLAIM",
                "sweep-1/trial-2-group stops for train-2/work-group, RECLAIM",
                "sweep-2/trial-0-group stops for train-2/work-group, RECLAIM",
                "train-1/work-group stays, WaitsForTargets",
                "train-2/work-group stays, WaitsForTargets",
            ),
            (
                "61 s",
                "train-1/work-group: work 4 default",
                "train-2/work-group: work 4 default",
                "sweep-1/trial-0-group parked, NoIdleToBorrow",
                "sweep-1/trial-1-group parked, NoIdleToBorrow",
                "sweep-1/trial-2-group parked, NoIdleToBorrow",
                "sweep-2/trial-0-group parked, NoIdleToBorrow",
            ),
            (
                "120 s",
                "train-3/work-group parked, QuotaFull",
                "sweep-1/trial-0-group parked, NoIdleToBorrow",
                "sweep-1/trial-1-group parked, NoIdleToBorrow",
                "sweep-1/trial-2-group parked, NoIdleToBorrow",
                "sweep-2/trial-0-group parked, NoIdleToBorrow",
            ),
            (
                "361 s",
                "train-3/work-group: work 4 default",
                "sweep-1/trial-0-group: trial-0 1 default",
                "sweep-1/trial-1-group: trial-1 1 default",
                "sweep-1/trial-2-group parked, NoIdleToBorrow",
                "sweep-2/trial-0-group parked, NoIdleToBorrow",
            ),
            ("600 s", "sweep-1/trial-2-group: trial-2 1 default", "sweep-2/trial-0-group: trial-0 1 default"),
            ("661 s",),
            ("961 s",),
            ("1200 s",),
        )
    ),
}


# ---------------------------------------------------------------- an answer in the terms of the table


def told(answer: dict[str, Any]) -> Told:
    return Told(
        tuple(tuple(_of_cycle(each)) for each in answer["cycles"]),
        tuple(line for each in answer["cycles"][-1]["pending"] for line in _waits(each)),
        ", ".join(_held(answer)),
        tuple(f"{each['document']} {each['path']}" for each in answer["warnings"]),
        tuple(f"{each['kind']} {each['node']} {each['reason']}" for each in answer["inactive"]),
    )


def _of_cycle(cycle: dict[str, Any]) -> list[str]:
    assert cycle["skipped_preemptions"] == {}
    at = [f"{cycle['at']} s"] if "at" in cycle else []
    starts = [_starts(each) for each in cycle["admitted"]]
    stops = [f"{_name(each)} stops for {_short(each['by'])}, {each['reason']}" for each in cycle["preempted"]]
    looked = [
        f"{_name(each)} {'parked' if each['parked'] else 'stays'}, {each['reason']}"
        for each in cycle["pending"]
        if each["considered"]
    ]
    return [*at, *starts, *stops, *looked]


def _starts(admitted: dict[str, Any]) -> str:
    pod_sets = [
        f"{'' if each['name'] == 'main' else each['name'] + ' '}{each['count']} {_flavors(each['flavors'])}"
        + (f" on {', '.join(placed['domain'][-1] for placed in each['placement'])}" if "placement" in each else "")
        for each in admitted["pod_sets"]
    ]
    job = {key: value for key, value in admitted.get("job", {}).items() if admitted["job"].keys() != {"suspend"}}
    written = [f"written: {', '.join(f'{key} {value}' for key, value in sorted(job.items()))}"] if job else []
    return f"{_name(admitted)}: {', '.join((*pod_sets, *written))}"


def _flavors(flavors: dict[str, str]) -> str:
    if len(set(flavors.values())) == 1:
        return next(iter(flavors.values()))
    return ", ".join(f"{resource}: {flavor}" for resource, flavor in flavors.items())


def _waits(pending: dict[str, Any]) -> list[str]:
    who = _name(pending) + (" parked" if pending["parked"] else "")
    short = [each for each in pending["reasons"] if each["need"]]
    return [f"{who}: {each['node']} {each['resource']} has {each['have']}, needs {each['need']}" for each in short] or [
        who
    ]


def _held(answer: dict[str, Any]) -> list[str]:
    return [
        f"{node} {key} {amounts['usage']}"
        for node, of_node in answer["quota"]["after"].items()
        for key, amounts in of_node.items()
        if amounts["usage"]
    ]


def _name(each: dict[str, Any]) -> str:
    return _short(each["workload"])


def _short(workload: str) -> str:
    return workload.removeprefix("default/")


# ---------------------------------------------------------------- tests


def arguments(example: Path) -> list[str]:
    """Returns the arguments of the command in the head of the file."""
    typed = re.findall(r"^# runrig (simulate .*)$", example.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(typed) == 1, f"{example.name} says in its head how it is run"
    *options, file = shlex.split(typed[0])
    assert ROOT / file == example
    return [*options, str(example)]


def run(*typed: str) -> dict[str, Any]:
    done = runrig(*typed, "-t", "json")
    assert (done.code, done.err) == (0, "")
    answer: dict[str, Any] = json.loads(done.out)
    return answer


@pytest.mark.parametrize("example", [*KUEUE, *CLUSTER], ids=lambda path: path.stem)
def test_example_does_what_the_table_says(example: Path) -> None:
    assert told(run(*arguments(example))) == OUTCOMES[example.stem]


def test_every_example_is_in_the_table_and_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert {path.stem for path in (*KUEUE, *CLUSTER)} == set(OUTCOMES)
    assert [path.name for path in (*KUEUE, *CLUSTER) if f"/{path.name})" not in page] == []
    assert len(KUEUE) >= 15


def test_without_fair_sharing_nothing_is_preempted_in_its_example() -> None:
    answer = run("simulate", "--cycles", "0", str(ROOT / "examples" / "kueue" / "12-fair-sharing.yaml"))
    assert told(answer).cycles == (("l-one parked, WaitingForQuota",), QUIET)
    assert told(answer).held == "lab h100/nvidia.com/gpu 9, small h100/nvidia.com/gpu 9"


@pytest.mark.parametrize(
    "shown", re.findall(r"^\$ runrig (simulate .*)\n((?:.*\n)*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
)
def test_page_shows_what_is_printed(shown: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    typed, printed = shown
    done = runrig(*shlex.split(typed))
    assert (done.code, done.err) == (0, "")
    assert [line.rstrip() for line in done.out.splitlines()] == printed.splitlines()
