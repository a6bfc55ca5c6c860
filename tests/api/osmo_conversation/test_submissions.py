"""`workflow submit` and `validate` of templates, which the client sends twice: to be rendered, then as rendered; and `workflow query`."""

from typing import Any

import pytest
import yaml

from tests.api.permissions.two_teams import TwoTeams

from .client import refused, said, send

TEMPLATE = """\
# {{ comments are no template }}
workflow:
  name: sized
  resources: {default: {gpu: {{ gpus }}}}
  tasks:
  - name: main
    image: any
    command: [sh, -c, "echo {{ word }} > {{output}}/w"]
    files:
    - {path: /count.sh, contents: "{% raw %}echo ${#list[@]} {{ left }}{% endraw %}"}
default-values:
  gpus: 1
  word: hello
"""


def body(text: str, settings: list[str], strings: list[str], template: str | None = None) -> dict[str, Any]:
    return {
        "file": text,
        "set_variables": settings,
        "set_string_variables": strings,
        "uploaded_templated_spec": template,
    }


def rendered(world: TwoTeams, template: str, settings: list[str], strings: list[str]) -> str:
    """The file as the client writes it anew after its first request."""
    sent = body(template, settings, strings)
    return yaml.dump(yaml.safe_load(said(world, "tom", "POST", "api/pool/team/workflow", sent, dry_run=True)["spec"]))


def submit(
    world: TwoTeams, settings: list[str], strings: list[str], *, template: str = TEMPLATE, **params: Any
) -> dict[str, Any]:
    """The answer to the second request."""
    file = rendered(world, template, settings, strings)
    sent = body(file, settings, strings, template)
    answer: dict[str, Any] = said(world, "tom", "POST", "api/pool/team/workflow", sent, dry_run=False, **params)
    return answer


def spec(world: TwoTeams, id: str) -> Any:
    return yaml.safe_load(send(world, "tom", "GET", f"api/workflow/{id}/spec").text)["workflow"]


@pytest.mark.parametrize(
    ("settings", "strings", "gpus", "word"),
    [
        ([], [], 1, "hello"),
        (["gpus=2"], [], 2, "hello"),
        ([], ["word=3"], 1, "3"),
        (["gpus=2", "word=bye"], [], 2, "bye"),
        (["gpus=2"], ["word=bye"], 2, "bye"),
    ],
)
def test_a_template_is_submitted_with_its_settings(
    world: TwoTeams, settings: list[str], strings: list[str], gpus: int, word: str
) -> None:
    id = submit(world, settings, strings)["name"]
    stored = spec(world, id)
    assert stored["resources"] == {"default": {"gpu": gpus}}
    assert stored["tasks"][0]["command"] == ["sh", "-c", f"echo {word} > {{{{output}}}}/w"]
    assert stored["tasks"][0]["files"][0]["contents"] == "echo ${#list[@]} {{ left }}"
    template = send(world, "tom", "GET", f"api/workflow/{id}/spec", params={"use_template": True}).text
    assert template == TEMPLATE


def test_a_template_is_validated_with_its_settings(world: TwoTeams) -> None:
    """The client leaves the template out of its second request."""
    template = TEMPLATE.replace("{% raw %}echo ${#list[@]} {{ left }}{% endraw %}", "echo")
    first = body(template, ["gpus=2"], ["word=3"])
    answer = said(world, "tom", "POST", "api/pool/team/workflow", first, validation_only=True, dry_run=True)
    second = first | {"file": yaml.dump(yaml.safe_load(answer["spec"]))}
    answer = said(world, "tom", "POST", "api/pool/team/workflow", second, validation_only=True, dry_run=False)
    assert answer["logs"] == "sized would be accepted"
    wrong = body(TEMPLATE, ["gpsu=2"], [])
    asked = {"validation_only": True, "dry_run": True}
    assert refused(world, "tom", "POST", "api/pool/team/workflow", wrong, **asked)[0] == 422


def test_unknown_template_setting_is_refused_each_time(world: TwoTeams) -> None:
    words = "this file has no variable 'gpsu'. Did you mean 'gpus'?"
    sent = body(TEMPLATE, ["gpsu=2"], [])
    assert refused(world, "tom", "POST", "api/pool/team/workflow", sent, dry_run=True) == (422, words)
    sent = body(rendered(world, TEMPLATE, [], []), [], ["gpsu=2"], TEMPLATE)
    assert refused(world, "tom", "POST", "api/pool/team/workflow", sent, dry_run=False) == (422, words)


def test_unrendered_template_is_rendered_with_its_settings(world: TwoTeams) -> None:
    sent = body(TEMPLATE, ["gpus=2"], [], TEMPLATE)
    id = said(world, "tom", "POST", "api/pool/team/workflow", sent)["name"]
    assert spec(world, id)["resources"] == {"default": {"gpu": 2}}


def test_runrig_api_accepts_settings_with_a_rendered_file(world: TwoTeams) -> None:
    file = rendered(world, TEMPLATE, ["gpus=2"], [])
    sent = {"pool": "team", "file": file, "template": TEMPLATE, "variables": ["gpus=2"]}
    answer = world.send("tom", "POST", "/api/v1/workflows", sent)
    assert answer.status_code == 201, answer.text
    wrong = world.send("tom", "POST", "/api/v1/workflows", sent | {"variables": ["gpsu=2"]})
    assert (wrong.status_code, "Did you mean 'gpus'?" in wrong.text) == (422, True)


# ---------------------------------------------------------------- workflow query


def tasks(world: TwoTeams, id: str, **params: Any) -> list[list[tuple[str, int]]]:
    """Names and attempts of the tasks, by group."""
    groups = said(world, "tom", "GET", f"api/workflow/{id}", **params)["groups"]
    return [[(task["name"], task["retry_id"]) for task in group["tasks"]] for group in groups]


RETRIED = """\
workflow:
  name: twice
  groups:
  - name: pair
    tasks:
    - {name: one, lead: true, image: any, command: [x], resource: one, duration: 500s}
    - {name: two, image: any, command: [x], resource: one, duration: 500s}
  resources: {one: {gpu: 3}}
"""


def test_query_has_the_latest_attempt_of_each_task_unless_all_are_requested(world: TwoTeams) -> None:
    low = said(world, "tom", "POST", "api/pool/team/workflow", body(RETRIED, [], []), priority="LOW")["name"]
    world.api.desk.later(1)
    world.submit("tom", "urgent", "team", gpus=2)
    world.api.desk.later(2000)
    latest = tasks(world, low)
    (numbers,) = [[number for _, number in group] for group in latest]
    assert [[name for name, _ in group] for group in latest] == [["one", "two"]]
    assert min(numbers) > 0, "it was preempted"
    assert tasks(world, low, verbose=False) == latest
    everything = [[(name, each) for name in ("one", "two") for each in range(numbers[0] + 1)]]
    assert tasks(world, low, verbose=True) == everything
    assert tasks(world, low, skip_groups=True) == []
    assert tasks(world, low, skip_groups=True, verbose=True) == []


# ---------------------------------------------------------------- unsupported features


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("exec/task/main", {"entry_command": "sh"}),
        ("exec/group/main-group", {"entry_command": "sh"}),
        ("portforward/main", {"task_ports": [80], "use_udp": False}),
        ("rsync/task/main", {}),
    ],
)
def test_session_in_a_waiting_task_is_refused_with_a_message(
    world: TwoTeams, path: str, params: dict[str, Any]
) -> None:
    world.work_waits(held=False)
    id, name = world.work["team"], path.rpartition("/")[2]
    assert refused(world, "tom", "POST", f"api/workflow/{id}/{path}", **params) == (
        409,
        f"{id}/{name} is not running yet. To wait for it: `runrig workflow wait {id} --for RUNNING`",
    )
