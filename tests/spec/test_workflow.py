"""What a good workflow file says, value by value."""

import pytest

from runrig.domain.errors import InvalidInput
from runrig.domain.gangs import Priority, Requirement
from runrig.domain.workflows import ExitAction, ExitRule, FileSpec, GroupSpec, TaskSpec, WorkflowSpec
from runrig.spec.workflow import parse_environment, read_workflow, spec_hash, with_environment
from tests.spec.files import groups, task

FULL = """
version: 2
workflow:
  name: train-all
  pool: ignored
  backend: ignored
  labels: {team: a, example.com/tier: "1"}
  priority: low
  timeout: {exec_timeout: 2h, queue_timeout: 90}
  resources:
    default: {}
    big: {cpu: 4, gpu: 2, memory: 1G, storage: 10Gi, platform: h100}
  groups:
  - name: learn
    barrier: no
    ignoreNonleadStatus: false
    tasks:
    - name: boss
      lead: true
      image: ubuntu:24.04
      command: [sh, -c]
      args: ["echo {{host:worker-1}} {{host:worker}} {{input:0}} {{input:prep}}", 3, 1.50]
      environment: {A: 1, B: 1.10, C: true, D: "", E: yes}
      files:
      - {path: /app//run.sh, contents: "{{output}}"}
      - {path: /app/logo, contents: "aGk=\\n", base64: true}
      inputs: [{task: prep, regex: '.*\\.csv'}]
      exitActions: {reschedule: "1-3,9", COMPLETE: 42}
      privileged: true
      volumeMounts: [/data:/data]
    - {name: worker, image: i, command: [run], resource: big, count: 4, minCount: 2, duration: 1m}
  - name: prepare
    tasks: [{name: prep, image: i, command: [prep]}]
"""


def test_a_file_is_read_with_every_field() -> None:
    boss = TaskSpec(
        name="boss",
        image="ubuntu:24.04",
        command=("sh", "-c"),
        args=("echo {{host:worker-1}} {{host:worker}} {{input:0}} {{input:prep}}", "3", "1.50"),
        lead=True,
        environment={"A": "1", "B": "1.10", "C": "true", "D": "", "E": "yes"},
        files=(FileSpec("/app/run.sh", "{{output}}"), FileSpec("/app/logo", "aGk=\n", base64=True)),
        inputs=("prep",),
        exit_rules=(
            ExitRule(ExitAction.RESCHEDULE, 1, 3),
            ExitRule(ExitAction.RESCHEDULE, 9, 9),
            ExitRule(ExitAction.COMPLETE, 42, 42),
        ),
        allow=("privileged", "volumeMounts"),
    )
    worker = TaskSpec(
        name="worker",
        image="i",
        command=("run",),
        requests=(("cpu", 4000), ("gpu", 2), ("memory", 2**30), ("storage", 10 * 2**30)),
        platform="h100",
        count=4,
        min_count=2,
        duration_s=60.0,
    )
    prep = TaskSpec(name="prep", image="i", command=("prep",), lead=True)
    assert read_workflow(FULL) == WorkflowSpec(
        name="train-all",
        groups=(
            GroupSpec("prepare", (prep,)),
            GroupSpec("learn", (boss, worker), upstream=("prepare",), barrier=False, ignore_nonlead_status=False),
        ),
        labels={"team": "a", "example.com/tier": "1"},
        priority=Priority.LOW,
        exec_timeout_s=7200.0,
        queue_timeout_s=90.0,
    )


def test_a_task_outside_groups_leads_a_group_of_its_own() -> None:
    lone = TaskSpec(name="a", image="i", command=("run",), lead=True)
    assert read_workflow(task()) == WorkflowSpec("w", (GroupSpec("a-group", (lone,)),))


def test_resources_may_be_next_to_the_workflow() -> None:
    inside = "workflow: {name: w, resources: {default: {gpu: 2}}, tasks: [{name: a, image: i, command: [run]}]}"
    beside = "resources: {default: {gpu: 2}}\nworkflow: {name: w, tasks: [{name: a, image: i, command: [run]}]}"
    assert read_workflow(inside) == read_workflow(beside)
    assert read_workflow(inside).groups[0].tasks[0].requests == (("gpu", 2),)


@pytest.mark.parametrize(("zero", "left_out"), [("gpu: 0", ""), ("gpu: 0, cpu: 1", "cpu: 1"), ("gpu: 0, cpu: 0", "")])
def test_zero_of_a_resource_means_omitting_it(zero: str, left_out: str) -> None:
    file = "workflow: {name: w, resources: {default: {%s}}, tasks: [{name: a, image: i, command: [run]}]}"
    assert read_workflow(file % zero) == read_workflow(file % left_out)


def test_groups_come_after_their_inputs_and_otherwise_in_file_order() -> None:
    text = groups(
        "- {name: d, tasks: [{name: dt, image: i, command: [x], inputs: [{task: bt}, {task: ct}]}]}",
        "- {name: c, tasks: [{name: ct, image: i, command: [x], inputs: [{task: at}]}]}",
        "- {name: b, tasks: [{name: bt, image: i, command: [x], inputs: [{task: at}]}]}",
        "- {name: a, tasks: [{name: at, image: i, command: [x]}]}",
    )
    found = [(group.name, group.upstream) for group in read_workflow(text).groups]
    assert found == [("a", ()), ("c", ("a",)), ("b", ("a",)), ("d", ("c", "b"))]


def test_a_thousand_groups_in_a_chain_are_read() -> None:
    lines = [
        f"- {{name: g{i}, tasks: [{{name: t{i}, image: i, command: [x], inputs: [{{task: t{i + 1}}}]}}]}}"
        for i in range(999)
    ]
    text = groups(*lines, "- {name: g999, tasks: [{name: t999, image: i, command: [x]}]}")
    assert [group.name for group in read_workflow(text).groups] == [f"g{i}" for i in reversed(range(1000))]


def test_settings_of_the_command_line_apply_to_every_task_and_take_precedence() -> None:
    spec = read_workflow(task("environment: {A: 1, B: 2}"))
    environment = parse_environment(["B=x=y", "C="])
    assert environment == {"B": "x=y", "C": ""}
    assert with_environment(spec, environment).groups[0].tasks[0].environment == {"A": "1", "B": "x=y", "C": ""}
    assert with_environment(spec, {}) is spec


@pytest.mark.parametrize("item", ["A", "=1", "1A=2", "A B=2", "A=\0"])
def test_invalid_variable_setting_is_refused(item: str) -> None:
    with pytest.raises(InvalidInput, match=r"does not set a variable\. Use --set-env NAME=VALUE"):
        parse_environment([item])


def test_equal_specifications_have_equal_hashes() -> None:
    assert spec_hash("a") == "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    spec = read_workflow(task())
    assert spec_hash("a", spec) == spec_hash("a", read_workflow(task()))
    assert spec_hash("a", spec) != spec_hash("a", with_environment(spec, {"A": "1"}))


def test_topology_requirements_are_read_in_the_order_of_the_file_with_their_defaults() -> None:
    text = """
workflow:
  name: w
  resources:
    default:
      topology: [{key: rack, requirementType: PREFERRED, group: Model_1}, {key: zone}]
    plain: {topology: []}
    sliced: {topology: [{key: rack, sliceSize: 4}, {key: host, sliceSize: "2", requirementType: required}]}
  groups:
  - name: g
    tasks:
    - {name: a, image: i, command: [run], lead: true}
    - {name: b, image: i, command: [run], resource: plain}
    - {name: c, image: i, command: [run], resource: sliced, count: 3}
"""
    near, plain, sliced = read_workflow(text).groups[0].tasks
    assert near.topology == (
        Requirement("rack", "Model_1", required=False),
        Requirement("zone", "default", required=True),
    )
    assert plain.topology == ()
    assert sliced.topology == (Requirement("rack", slice_size=4), Requirement("host", slice_size=2))
