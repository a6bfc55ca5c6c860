"""The workflow file that a command line becomes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runrig.domain.credentials import CredentialUse
from runrig.domain.gangs import Priority, Requirement
from runrig.domain.workflows import ExitAction, ExitRule, TaskSpec, WorkflowSpec
from runrig.spec.one_task import OneTask, file_of, looks_secret, name_of, starts_once_per_node
from runrig.spec.overrides import parse_retry
from runrig.spec.template import is_template, render
from runrig.spec.workflow import read_workflow
from tests.exploring import tries

pytestmark = pytest.mark.explored

RESCHEDULE = ExitAction.RESCHEDULE


def read(task: OneTask) -> WorkflowSpec:
    """What a server reads in the file of *task*, which no template changes."""
    text = file_of(task)
    assert not is_template(text)
    assert render(text) == text
    return read_workflow(text)


def test_one_command_becomes_a_readable_file() -> None:
    assert file_of(OneTask(name="train", command=["python", "train.py", "--lr", "1e-4"])) == (
        "workflow:\n"
        "  name: train\n"
        "  resources:\n"
        "    default:\n"
        "      gpu: 1\n"
        "  tasks:\n"
        "  - name: main\n"
        "    image: none\n"
        '    command: [python, train.py, "--lr", "1e-4"]\n'
    )


def test_without_gpus_there_are_no_resources() -> None:
    assert "resources" not in file_of(OneTask(name="a", command=["a"], gpus=0))
    assert "gpu" not in file_of(OneTask(name="a", command=["a"], gpus=0, cpus=2))


def test_every_option_is_in_the_file() -> None:
    found = read(
        OneTask(
            name="train",
            command=["torchrun", "train.py"],
            image="registry.example/train:2",
            gpus=8,
            platform="h100",
            nodes=4,
            min_nodes=2,
            cpus=12,
            memory="64Gi",
            required=["rack"],
            preferred=["zone"],
            priority="LOW",
            time="4h",
            retry=parse_retry("3:75,137"),
            labels={"git.commit": "4c1f0e2"},
            environment={"SEED": "08", "WHO": "{{index}} of {{count}}"},
            credentials={"wandb": {"WANDB_API_KEY": "WANDB_API_KEY"}},
        )
    )
    (group,) = found.groups
    assert (found.name, found.priority, found.exec_timeout_s) == ("train", Priority.LOW, 14400.0)
    assert dict(found.labels) == {"git.commit": "4c1f0e2"}
    assert group.tasks == (
        TaskSpec(
            name="main",
            image="registry.example/train:2",
            command=("torchrun", "train.py"),
            environment={"SEED": "08", "WHO": "{{index}} of {{count}}"},
            requests=(("cpu", 12_000), ("gpu", 8), ("memory", 64 << 30)),
            platform="h100",
            count=4,
            min_count=2,
            exit_rules=(ExitRule(RESCHEDULE, 75, 75), ExitRule(RESCHEDULE, 137, 137)),
            retries=3,
            topology=(Requirement("rack", "default", True), Requirement("zone", "default", False)),
            credentials=(CredentialUse("wandb", "", {"WANDB_API_KEY": "WANDB_API_KEY"}),),
        ),
    )


def test_equal_minimum_and_count_are_written_as_a_count() -> None:
    (group,) = read(OneTask(name="a", command=["a"], nodes=2, min_nodes=2)).groups
    assert (group.tasks[0].count, group.tasks[0].min_count) == (2, None)


WORDS = [
    *("", " ", "-", "~", "null", "True", "no", "1", "0x1f", "1e5", "08", "1:30", "a: b", "a:", "#a", "a #b", "@a"),
    *("[a]", "{a: 1}", "a,b", "&a", "*a", "!a", "|", ">", "'", '"', "\\", "\\x7b", "a\nb\n", "\t", "\x85", "\u2028"),
    *("é", "😀", "{{index}}", "{{ x }}", "{{{index}}}", "{% raw %}", "{#", "{{{{", "{", "${A}", "$(b)", "=", "<<"),
]


@pytest.mark.parametrize("word", WORDS)
def test_argument_reaches_the_command_and_its_environment_as_typed(word: str) -> None:
    (group,) = read(OneTask(name="a", command=["a", word], environment={"A": word})).groups
    assert (group.tasks[0].command, dict(group.tasks[0].environment)) == (("a", word), {"A": word})


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1, max_size=4))
@settings(max_examples=tries(150), deadline=None)
def test_any_arguments_reach_the_command(words: list[str]) -> None:
    (group,) = read(OneTask(name="a", command=["a", *words])).groups
    assert group.tasks[0].command == ("a", *words)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py", "train"),
        ("torchrun --nproc-per-node 2 src/fine_tune.py --lr 1", "fine_tune"),
        ("python -m vision.train", "train"),
        ("python -m vision.train.__main__", "train"),
        ("python -m torch.distributed.run train.py", "train"),
        ("accelerate launch train", "train"),
        ("bash -c ./a.sh;b", "bash"),
        ("./2024-run.sh", "run"),
        ("nvidia-smi", "nvidia-smi"),
        ("/opt/a.b/c.d", "c-d"),
        ("12", "run"),
        (f"./{'x' * 90}.sh", "x" * 48),
        ("./é.py", "run"),
    ],
)
def test_default_name_is_that_of_the_script_or_program(command: str, name: str) -> None:
    words = command.split()
    assert name_of(words) == name
    assert read(OneTask(name=name_of(words), command=words)).name == name


@pytest.mark.parametrize(
    ("command", "once"),
    [
        ("python train.py", True),
        ("bash -c env", True),
        ("torchrun train.py", False),
        ("/usr/bin/mpirun a", False),
        ("python -m torch.distributed.run train.py", False),
        ("bash -c torchrun;train.py", False),
    ],
)
def test_launcher_is_recognised_by_its_name(command: str, once: bool) -> None:
    assert starts_once_per_node(command.split()) is once


def test_secret_variable_is_recognised_by_its_name() -> None:
    secret = ["WANDB_API_KEY", "HF_TOKEN", "TOKEN", "db_password", "AWS_SECRET", "S3_CREDENTIALS", "MYAPIKEY"]
    other = ["TOKENIZERS_PARALLELISM", "MONKEY", "KEYS", "SECRETARY", "SEED"]
    assert [name for name in secret + other if looks_secret(name)] == secret
