"""The form of one command: each problem at its field, the file that it becomes, and then the submission."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.errors import InvalidInput
from runrig.spec.one_task import file_of
from runrig.spec.workflow import read_workflow
from runrig.web.run_form import task_of
from tests.web.test_acts import SCRIPT
from tests.web.visitor import fields_of, site, words_of


def test_command_is_previewed_with_its_file_and_then_submitted_once(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        typed = {"command": "python train.py --note 'a b'", "gpus": "2", "pool": "pool1", "time": "4h"}
        shown = visitor.fill("/run", **typed, environment="SEED=1\nMODE=a=b\n", memory="1Gi")
        words = words_of(shown.text)
        assert "train would start now on n0." in words
        assert 'command: [python, train.py, "--note", "a b"]' in words
        form = fields_of(shown.text) | {"step": "send"}
        answers = [visitor.post("/run", form) for _ in range(2)]
        assert [(each.status_code, each.headers["location"]) for each in answers] == [(303, "/workflow/train-1")] * 2
        it.desk.service.settle()
        stored = it.desk.service.workflow_queries.spec("train-1").spec
        task = stored.groups[0].tasks[0]
        assert (task.command, dict(task.environment)) == (
            ("python", "train.py", "--note", "a b"),
            {"SEED": "1", "MODE": "a=b"},
        )


def test_a_command_is_run_once_for_each_index(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        shown = visitor.fill("/run", command="sleep {{array_index}}", pool="pool1", array="0-3%2", name="sweep")
        assert visitor.post("/run", fields_of(shown.text) | {"step": "send"}).headers["location"] == "/workflow/sweep-1"
        array = it.desk.service.workflow_queries.workflow("sweep-1").array
        assert array is not None
        assert (array.elements, array.most) == (4, 2)


def test_image_defaults_to_that_of_the_pool(tmp_path: Path) -> None:
    with site(tmp_path, cluster="pools: [{name: pool1, quota: 2, default_image: torch}]") as it:
        for typed, image in (({}, "torch"), ({"image": "mine"}, "mine")):
            shown = it.visitor().fill("/run", command="sleep 5", pool="pool1", **typed)
            assert f"image: {image} command" in words_of(shown.text)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("command", "", "enter a command."),
        ("command", "python 'train", "No closing quotation. Close the quote."),
        ("command", "python a.py | tee log", "| needs a shell. Write bash -c '...'"),
        ("command", "a && b", "&& needs a shell."),
        ("command", "python a.py\npython b.py", "several lines need a shell."),
        ("gpus", "many", "'many' is not a number of GPUs. Use N, or TYPE:N"),
        ("gpus", "-1", "is not a number of GPUs"),
        ("nodes", "0", "'0' is not a number from 1 to 10,000."),
        ("nodes", "²", "is not a number from 1 to 10,000."),
        ("cpus", "1.5", "is not a number from 1 to 1,000,000."),
        ("memory", "lots", "lots"),
        ("array", "9-0", "the range 9-0 is reversed. Use 0-9."),
        ("array", "0-9%x", "%x is not a number of elements"),
        ("time", "soon", "soon"),
        ("time", "0s", "must be more than 0."),
        ("environment", "SEED", "invalid line 'SEED'. Use one NAME=VALUE per line."),
        ("environment", "HF_TOKEN=x", "HF_TOKEN looks like a secret"),
        ("name", "9 lives", "9 lives"),
        ("image", "two words", "two words"),
        ("priority", "URGENT", "choose a priority from the list."),
        ("pool", "", "choose a pool."),
    ],
)
def test_problem_is_shown_at_its_field_and_no_input_is_lost(tmp_path: Path, field: str, value: str, said: str) -> None:
    with site(tmp_path) as it:
        good = {"command": "sleep 5", "pool": "pool1", "name": "kept", "environment": "A=1"}
        answer = it.visitor().fill("/run", **good | {field: value})
        assert (answer.status_code, said in words_of(answer.text)) == (422, True), words_of(answer.text)
        assert f'aria-describedby="wrong-{field}"' in answer.text
        kept = fields_of(answer.text)
        for name, typed in (good | {field: value}).items():
            if name not in ("pool", "priority"):
                assert kept[name] == typed


def test_all_problems_are_shown_together(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        answer = it.visitor().fill("/run", pool="pool1", gpus="x", nodes="y", time="z")
        assert [f'id="wrong-{name}"' in answer.text for name in ("command", "gpus", "nodes", "time")] == [True] * 4


def test_command_that_can_never_run_is_refused_with_the_rule(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        answer = it.visitor().fill("/run", command="sleep 5", gpus="64", pool="pool1")
        assert (answer.status_code, "sleep needs 64 GPUs" in words_of(answer.text)) == (400, True)


def test_users_without_permission_are_refused(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        shown = visitor.fill("/run", command=f"echo {SCRIPT[:8]!r}", pool="pool1")
        assert "&lt;script&gt;" in shown.text
        form = fields_of(shown.text) | {"step": "send"}
        eve = it.person("eve", "pool1-viewer")
        sent = form | {"csrf": fields_of(eve.page("/me"))["csrf"]}
        assert eve.post("/run", sent).status_code == 403
        assert "You cannot submit to any pool." in words_of(eve.page("/run"))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), min_size=1, max_size=4))
def test_any_arguments_arrive_as_typed(words: list[str]) -> None:
    import shlex

    try:
        task = task_of({"command": shlex.join(words), "name": "x"})
    except InvalidInput:  # surrounding white space is not part of the field
        raise AssertionError(words) from None
    assert list(task.command) == words
    assert list(read_workflow(file_of(task)).groups[0].tasks[0].command) == words
