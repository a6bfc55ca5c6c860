"""The examples are what their comments say."""

from pathlib import Path

import pytest

from runrig.domain.gangs import Priority
from runrig.domain.workflows import ExitAction, ExitRule, WorkflowSpec
from runrig.spec.template import render
from runrig.spec.workflow import read_workflow

FOLDER = Path(__file__).parents[2] / "examples" / "workflows"
SMALL = (("cpu", 1000), ("memory", 64 * 2**20))


def example(name: str, *settings: str) -> WorkflowSpec:
    return read_workflow(render((FOLDER / name).read_text(), settings))


def shape(spec: WorkflowSpec) -> list[tuple[str, tuple[str, ...], list[str]]]:
    """(group, its upstream, its tasks with the pods of each, the lead with a star) of *spec*."""
    return [
        (group.name, group.upstream, [f"{task.name} x{task.pods}{'*' * task.lead}" for task in group.tasks])
        for group in spec.groups
    ]


SHAPES = {
    "01-hello.yaml": [("greet-group", (), ["greet x1*"])],
    "02-parallel.yaml": [("pi-group", (), ["pi x1*"]), ("primes-group", (), ["primes x1*"]), ("clock-group", (), ["clock x1*"])],
    "03-lead.yaml": [("training", (), ["trainer x1*", "metrics x1", "dashboard x1"])],
    "04-talk.yaml": [("pair", (), ["server x1", "client x1*"])],
    "05-platforms.yaml": [("tokenize-group", (), ["tokenize x1*"]), ("embed-group", (), ["embed x1*"])],
    "06-template.yaml": [("greet-group", (), ["greet x1*"])],
    "07-simulation.yaml": [("robots", (), ["referee x1*", "walker x1", "flyer x1"])],
    "08-server.yaml": [("page-group", (), ["page x1*"])],
    "09-retries.yaml": [("crew", (), ["worker-0 x1*"])],
    "10-pipeline.yaml": [("prepare", (), ["numbers x1*"]), ("map", ("prepare",), ["square x4"]), ("reduce", ("map",), ["sum x1*"])],
}  # fmt: skip


def test_there_are_ten_examples_and_each_says_how_to_submit_it() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.yaml")) == sorted(SHAPES)
    for name in SHAPES:
        head = (FOLDER / name).read_text().partition("workflow:\n")[0]
        assert f"#   runrig workflow submit examples/workflows/{name}" in head


@pytest.mark.parametrize("name", SHAPES)
def test_an_example_has_its_groups_and_tasks(name: str) -> None:
    assert shape(example(name)) == SHAPES[name]


def test_resources_and_platforms_of_the_examples() -> None:
    hello = example("01-hello.yaml").groups[0].tasks[0]
    assert hello.requests == (("cpu", 1000), ("gpu", 1), ("memory", 256 * 2**20), ("storage", 2**30))
    tokenize, embed = (group.tasks[0] for group in example("05-platforms.yaml").groups)
    assert (tokenize.requests, tokenize.platform) == (SMALL, None)
    assert (embed.requests, embed.platform) == ((("cpu", 1000), ("gpu", 1), ("memory", 2**29)), "default")
    assert example("08-server.yaml").groups[0].tasks[0].requests == (
        ("cpu", 1000),
        ("memory", 2**27),
        ("storage", 2**30),
    )


def test_the_template_takes_its_values_from_the_command_line() -> None:
    assert example("06-template.yaml").name == "greet-everybody"
    spec = example("06-template.yaml", "who=lab", "rounds=5", "limit=1h")
    assert (spec.name, spec.exec_timeout_s) == ("greet-lab", 3600)
    assert "-lt 5 ]" in spec.groups[0].tasks[0].args[0]


def test_the_simulation_has_files_gpus_limits_and_a_priority() -> None:
    spec = example("07-simulation.yaml")
    assert (spec.priority, spec.exec_timeout_s, spec.queue_timeout_s) == (Priority.NORMAL, 300, 7200)
    robots = spec.groups[0].tasks[1:]
    assert sum(dict(task.requests)["gpu"] for task in robots) == 2
    assert robots[0].files == robots[1].files


def test_the_retries_come_from_exit_codes_and_the_workers_from_a_loop() -> None:
    spec = example("09-retries.yaml", "workers=3")
    assert shape(spec) == [("crew", (), ["worker-0 x1*", "worker-1 x1", "worker-2 x1"])]
    assert spec.groups[0].tasks[2].exit_rules == (
        ExitRule(ExitAction.RESCHEDULE, 42, 42),
        ExitRule(ExitAction.COMPLETE, 5, 7),
    )


def test_pipeline_reads_earlier_outputs_and_starts_with_fewer_pods() -> None:
    prepare, middle, reduce = (group.tasks[0] for group in example("10-pipeline.yaml").groups)
    assert (prepare.inputs, middle.inputs, reduce.inputs) == ((), ("numbers",), ("square",))
    assert (middle.count, middle.min_count, middle.duration_s) == (4, 1, 2.0)
