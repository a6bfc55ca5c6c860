"""Scenarios of our own dialect: the whole line that each gives, and every way in which a file is refused."""

import json
from typing import Any

import pytest

from runrig.backends import simulated
from runrig.domain.errors import InvalidInput
from runrig.service.simulate import cluster_run
from runrig.service.simulate.simulate import Options, start
from tests.service.simulate.simulations import cell, folder, line, share
from tests.worlds.workflow_files import one_task

TO_THE_END = Options(cycles=0)

ALONE = """
nodes: [{name: n0, resources: {gpu: 4}}]
pools: [{name: vision, quota: 4}]
workflows:
- {file: a.yaml}
- {file: b.yaml, priority: LOW}
"""

SHARED = """
nodes: [{name: "n{0..1}", resources: {gpu: 4}}]
cohorts: [{name: lab}]
pools:
- {name: vision, cohort: lab, quota: 4}
- {name: batch, cohort: lab, quota: 4}
workflows:
- {file: low.yaml, pool: batch, priority: LOW}
- {file: low.yaml, pool: batch, priority: LOW, at: 5s}
- {file: high.yaml, pool: vision, priority: HIGH, at: 10s}
"""


def admitted(workload: str, pool: str, count: int = 1, pod_set: str = "main") -> dict[str, Any]:
    pods = [{"name": pod_set, "count": count, "flavors": {"gpu": "default"}}]
    return {"workload": workload, "queue": pool, "pod_sets": pods}


def pending(
    workload: str, pool: str, code: str, law: str, *, parked: bool = True, considered: bool = True, **why: Any
) -> dict[str, Any]:
    reason = {"code": code, "node": "", "resource": "", "have": 0, "need": 0, "law": law} | why
    waits = {"workload": workload, "queue": pool, "considered": considered, "parked": parked}
    return waits | {"reason": code, "reasons": [reason]}


def cycle(at: float, *, starts: Any = (), preempted: Any = (), waits: Any = ()) -> dict[str, Any]:
    told = {"admitted": list(starts), "preempted": list(preempted), "pending": list(waits)}
    return {"at": at, **told, "skipped_preemptions": {}}


# ---------------------------------------------------------------- whole lines


def test_only_the_first_cycle_is_shown_unless_more_are_requested() -> None:
    files: dict[str, Any] = {"a": one_task("a", gpus=3), "b": one_task("b", gpus=2)}
    full: dict[str, Any] = {"node": "vision", "resource": "default/gpu", "have": 1, "need": 2}
    assert line(ALONE, **files) == {
        "scenario": "test.yaml",
        "quota": {
            "before": {"vision": {"default/gpu": cell(4, 0, 4, 4, used=0)}},
            "after": {"vision": {"default/gpu": cell(4, 3, 1, 4, used=3)}},
        },
        "inactive": [],
        "cohorts": {},
        "cycles": [
            cycle(
                0,
                starts=[admitted("a-1/main-group", "vision")],
                waits=[pending("b-1/main-group", "vision", "NoIdleToBorrow", "Q3", **full | {"node": "the cluster"})],
            )
        ],
        "shares": {"before": {"vision": share()}, "after": {"vision": share()}},
        "warnings": [],
    }


def test_borrowed_work_is_reclaimed_and_requeued_until_everything_has_ended() -> None:
    files: dict[str, Any] = {
        "low": one_task("low", gpus=2, count=2, duration="100s"),
        "high": one_task("high", gpus=4, duration="30s"),
    }
    low, high = "low-2/main-group", "high-1/main-group"
    idle: dict[str, Any] = {"node": "the cluster", "resource": "default/gpu", "have": 0, "need": 4}
    rest = {
        "batch": {"default/gpu": cell(4, 0, 8, 8, used=0)},
        "lab": {"default/gpu": cell(0, 0, 8, 8, subtree=8)},
        "vision": {"default/gpu": cell(4, 0, 8, 8, used=0)},
    }
    nobody = {"batch": share(), "lab": share(), "vision": share()}
    assert line(SHARED, TO_THE_END, **files) == {
        "scenario": "test.yaml",
        "quota": {"before": rest, "after": rest},
        "inactive": [],
        "cohorts": {"lab": {"CohortActive": True}},
        "cycles": [
            cycle(0, starts=[admitted("low-1/main-group", "batch", 2)]),
            cycle(5, starts=[admitted(low, "batch", 2)]),
            cycle(
                10,
                preempted=[{"workload": low, "queue": "batch", "by": high, "reason": "RECLAIM"}],
                waits=[pending(high, "vision", "WaitsForTargets", "R4", parked=False)],
            ),
            cycle(11, starts=[admitted(high, "vision")], waits=[pending(low, "batch", "NoIdleToBorrow", "Q3", **idle)]),
            cycle(41, starts=[admitted(low, "batch", 2)]),
            cycle(100),
            cycle(141),
        ],
        "shares": {"before": nobody, "after": nobody},
        "warnings": [],
    }


def test_share_and_balance_of_a_pool_include_borrowing() -> None:
    files: dict[str, Any] = {"low": one_task("low", gpus=2, count=2), "high": one_task("high")}
    told = line(SHARED, Options(cycles=2), **files)
    assert told["quota"]["after"] == {
        "batch": {"default/gpu": cell(4, 8, 0, 8, used=0)},
        "lab": {"default/gpu": cell(0, 8, 0, 8, subtree=8)},
        "vision": {"default/gpu": cell(4, 0, 0, 8, used=0)},
    }
    assert told["shares"]["after"] == {"batch": share(500, "gpu"), "lab": share(), "vision": share()}


def test_a_task_group_waits_for_those_before_it_and_for_the_head_of_a_strict_queue() -> None:
    chain = """{workflow: {name: chain, resources: {one: {gpu: 2}}, tasks: [
        {name: first, image: any, command: [x], resource: one, duration: 10s},
        {name: second, image: any, command: [x], resource: one, duration: 10s, inputs: [{task: first}]}]}}"""
    scenario = """
    nodes: [{name: n0, resources: {gpu: 2}}]
    pools: [{name: vision, quota: 2, queueing: STRICT_FIFO}]
    workflows: [{file: chain.yaml}, {file: b.yaml, at: 1s}, {file: c.yaml, at: 2s}]
    """
    told = line(scenario, TO_THE_END, chain=chain, b=one_task("b", gpus=2, duration=1), c=one_task("c", duration=1))
    after_first = pending("chain-1/second-group", "vision", "WaitsForUpstream", "W1", considered=False)
    full: dict[str, Any] = {"node": "vision", "resource": "default/gpu", "have": 0, "need": 2}
    head = pending("b-1/main-group", "vision", "QuotaFull", "P2", **full)
    behind = pending(
        "c-1/main-group", "vision", "BehindHeadOfQueue", "P4", considered=False, parked=False, node="vision"
    )
    last = pending("c-1/main-group", "vision", "QuotaFull", "P2", **full | {"need": 1})
    assert told["cycles"] == [
        cycle(0, starts=[admitted("chain-1/first-group", "vision", pod_set="first")], waits=[after_first]),
        cycle(1, waits=[head, after_first]),
        cycle(2, waits=[head, behind, after_first]),
        cycle(10, starts=[admitted("chain-1/second-group", "vision", pod_set="second")], waits=[head, behind]),
        cycle(20, starts=[admitted("b-1/main-group", "vision")], waits=[last]),
        cycle(21, starts=[admitted("c-1/main-group", "vision")]),
        cycle(22),
    ]


def test_fewer_pods_start_where_the_workflow_allows_it() -> None:
    """Law A1."""
    scenario = "{nodes: [{name: n0, resources: {gpu: 3}}], pools: [{name: p, quota: 3}], workflows: [{file: a.yaml}]}"
    told = line(scenario, a=one_task("a", count=5, minCount=2))
    assert told["cycles"] == [cycle(0, starts=[admitted("a-1/main-group", "p", 3)])]


def test_task_with_no_duration_ends_in_its_own_cycle() -> None:
    scenario = "{nodes: [{name: n0, resources: {gpu: 1}}], pools: [{name: p, quota: 1}], workflows: [{file: a.yaml}, {file: a.yaml}]}"
    told = line(scenario, TO_THE_END, a=one_task("a", duration=0))
    full: dict[str, Any] = {"node": "p", "resource": "default/gpu", "have": 0, "need": 1}
    assert told["cycles"] == [
        cycle(
            0,
            starts=[admitted("a-1/main-group", "p")],
            waits=[pending("a-2/main-group", "p", "QuotaFull", "P2", **full)],
        ),
        cycle(0, starts=[admitted("a-2/main-group", "p")]),
        cycle(0),
    ]


def test_a_timeout_is_an_event() -> None:
    wf = """{workflow: {name: a, timeout: {exec_timeout: 5s}, resources: {one: {gpu: 1}}, tasks: [
        {name: main, image: any, command: [x], resource: one, duration: 1h}]}}"""
    scenario = (
        "{nodes: [{name: n0, resources: {gpu: 1}}], pools: [{name: p, quota: 1}], workflows: [{file: a.yaml, at: 0.5}]}"
    )
    told = line(scenario, TO_THE_END, a=wf)
    assert [each["at"] for each in told["cycles"]] == [0.5, 5.5, 6.5]


# ---------------------------------------------------------------- errors and warnings


def test_workflow_that_can_never_run_is_a_warning_and_the_others_run() -> None:
    """Law P3."""
    told = line(ALONE, a=one_task("a", gpus=5), b=one_task("b"))
    assert [each["workload"] for each in told["cycles"][0]["admitted"]] == ["b-1/main-group"]
    assert told["warnings"] == [
        {
            "document": 1,
            "path": "workflows[0]",
            "message": "refused: a needs 5 GPUs, but pool vision has a quota of 4 GPUs. Request less",
        }
    ]


@pytest.mark.parametrize("at", ["0s", "90d"])
@pytest.mark.parametrize("files", [("small", "large"), ("large", "small")])
def test_workflows_with_the_same_time_are_submitted_in_file_order(files: tuple[str, str], at: str) -> None:
    text = f"""
    nodes: [{{name: n0, resources: {{gpu: 4}}}}]
    pools: [{{name: p, quota: 4, queueing: STRICT_FIFO}}]
    workflows: [{{file: {files[0]}.yaml, at: {at}}}, {{file: {files[1]}.yaml, at: {at}}}]
    """
    found = line(text, TO_THE_END, small=one_task("small", gpus=1), large=one_task("large", gpus=4))
    starts = [admitted["workload"] for cycle in found["cycles"] for admitted in cycle["admitted"]]
    assert starts == [f"{name}-1/main-group" for name in files]
    assert next(cycle["at"] for cycle in found["cycles"] if cycle["admitted"]) == (0 if at == "0s" else 90 * 86400)


def test_quota_alone_decides_if_the_file_has_no_nodes() -> None:
    told = line("{pools: [{name: p, quota: 2}], workflows: [{file: a.yaml}]}", a=one_task("a", gpus=2))
    assert told["cycles"] == [cycle(0, starts=[admitted("a-1/main-group", "p")])]
    assert [each["path"] for each in told["warnings"]] == ["nodes"]


def test_a_scenario_without_workflows_has_no_cycle() -> None:
    told = line("pools: [{name: p, quota: 2}]", TO_THE_END)
    assert (told["cycles"], list(told["quota"]["after"])) == ([], ["p"])


@pytest.mark.parametrize(
    ("workflows", "message"),
    [
        ("[{pool: vision}]", "a workflow of a scenario needs file. Add file: train.yaml"),
        (
            "[{file: a.yaml, pool: batch, name: x}]",
            "a workflow of a scenario has no field 'name'. Use one of file, pool, priority, at",
        ),
        ("[{file: a.yaml, pool: visoin}]", "pool: unknown pool 'visoin' in this file. Did you mean 'vision'?"),
        ("[{file: a.yaml}]", "workflows[0]: the file has 2 pools. Set pool: to one of vision, batch"),
        ("[{file: a.yaml, pool: batch, priority: TOP}]", "priority: expected one of HIGH, NORMAL, LOW, got text 'TOP'"),
        ("[{file: a.yaml, pool: batch, at: soon}]", "at: 'soon' is not a duration. Use one number with a unit of"),
        ("[{file: nope.yaml, pool: batch}]", "nope.yaml: no such file"),
        ("[{file: bad.yaml, pool: batch}]", "bad.yaml:1:1: a workflow file needs workflow. Add workflow:"),
        ("7", "workflows: expected a list with '- ' before each item, got 7"),
    ],
)
def test_errors_in_a_scenario_have_positions(workflows: str, message: str) -> None:
    text = SHARED[: SHARED.index("workflows")] + f"workflows: {workflows}\n"
    with pytest.raises(InvalidInput) as caught:
        start(text, "test.yaml", Options(), folder(a=one_task("a"), bad="workflow: "))
    (problem,) = caught.value.problems
    assert message in problem.message
    assert problem.line == 7


def test_every_invalid_workflow_file_is_named() -> None:
    text = "{pools: [{name: p, quota: 2}], workflows: [{file: a.yaml}, {file: b.yaml}]}"
    with pytest.raises(InvalidInput) as caught:
        start(text, "test.yaml", Options(), folder())
    assert [(each.message, each.path) for each in caught.value.problems] == [
        ("a.yaml: no such file", "workflows[0].file"),
        ("b.yaml: no such file", "workflows[1].file"),
    ]


def test_tasks_take_as_long_as_on_the_simulated_backend() -> None:
    ours = (cluster_run.DEFAULT_DURATION_S, cluster_run.LONGEST_GRACE_S)
    assert ours == (simulated.DEFAULT_DURATION_S, simulated.LONGEST_GRACE_S)


@pytest.mark.parametrize(("short", "plenty"), [("gpu", "cpu"), ("cpu", "gpu")])
def test_workload_short_of_quota_and_nodes_preempts_different_work_for_each(short: str, plenty: str) -> None:
    """R2: the one holds the quota of *short*, the other most of the node, and uses only what there is plenty of."""

    def workflow(name: str, **asks: int) -> str:
        task = {"name": "main", "image": "any", "command": ["true"]}
        return json.dumps({"workflow": {"name": name, "resources": {"default": asks}, "tasks": [task]}})

    scenario = f"""
    nodes: [{{name: n0, resources: {{gpu: 8, cpu: 8}}}}]
    pools: [{{name: p, quota: {{default: {{{short}: 8, {plenty}: 100}}}}}}]
    workflows:
    - {{file: quota.yaml, priority: LOW}}
    - {{file: node.yaml, priority: LOW, at: 1s}}
    - {{file: high.yaml, priority: HIGH, at: 2s}}
    """
    asks: dict[str, dict[str, int]] = {"quota": {short: 8}, "node": {plenty: 6}, "high": {short: 4, plenty: 4}}
    told = line(scenario, TO_THE_END, **{name: workflow(name, **amounts) for name, amounts in asks.items()})
    assert [
        ([each["workload"] for each in made["admitted"]], [each["workload"] for each in made["preempted"]])
        for made in told["cycles"][:4]
    ] == [
        (["quota-1/main-group"], []),
        (["node-1/main-group"], []),
        ([], ["node-1/main-group", "quota-1/main-group"]),
        (["high-1/main-group"], []),
    ]


SWEEP = """
workflow:
  name: sweep
  groups:
  - name: runs
    array: {indices: "0-4", most: 2}
    tasks: [{name: main, image: i, command: [x], resource: one}]
  resources: {one: {gpu: 1}}
"""


def test_an_array_runs_so_many_at_a_time_and_others_wait_for_one_of_its_elements() -> None:
    def after(name: str, *ids: str) -> str:
        tasks = "[{name: main, image: i, command: [x]}]"
        return f"workflow: {{name: {name}, after: {json.dumps(ids)}, tasks: {tasks}}}"

    scenario = """
nodes: [{name: n0, resources: {gpu: 8}}]
pools: [{name: vision, quota: 8}]
workflows: [{file: sweep.yaml}, {file: a.yaml}, {file: b.yaml}, {file: c.yaml}, {file: d.yaml}, {file: e.yaml, at: 200s}]
"""
    found = line(
        scenario,
        TO_THE_END,
        sweep=SWEEP,
        a=after("a", "sweep-1/2"),
        b=after("b", "sweep-1/2:fail"),
        c=after("c", "sweep-2"),
        d=after("d", "a-1/0"),
        e=after("e", "sweep-1/4", "sweep-1:any"),
    )
    starts = [[each["workload"] for each in cycle["admitted"]] for cycle in found["cycles"]]
    first, second = ["sweep-1/0", "sweep-1/1"], ["sweep-1/2", "sweep-1/3"]
    assert [each for each in starts if each] == [first, second, ["sweep-1/4", "a-1/main-group"], ["e-1/main-group"]]
    waits = {each["workload"]: each["reason"] for each in found["cycles"][0]["pending"]}
    others = {f"{name}-1/main-group": "WaitsForWorkflow" for name in "ab"}
    assert waits == others | {f"sweep-1/{index}": "ArrayLimit" for index in (2, 3, 4)}
    assert [each["message"] for each in found["warnings"]] == [
        "refused: workflow 'sweep-2' has not been submitted before. List it earlier",
        "refused: a-1 is not an array: it has no elements",
    ]
