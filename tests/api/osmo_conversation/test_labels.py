"""`workflow submit --label`, `workflow list` with every filter, and `workflow tag`."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.permissions.two_teams import TwoTeams, two_teams
from tests.worlds.service import one_task

from .client import NUMBER, fits, refused, said

ENTRY = {
    "user": str,
    "name": str,
    "submit_time": str,
    "status": str,
    "priority": str,
    "labels": {str: str},
    "overview": str,
    "queued_time": NUMBER,
}
SUBMIT: dict[str, Any] = {"set_variables": [], "set_string_variables": [], "uploaded_templated_spec": None}


def submitted(world: TwoTeams, name: str, *labels: str, actor: str = "tom", pool: str = "team") -> str:
    body = {"file": one_task(name), **SUBMIT}
    answer = said(world, actor, "POST", f"api/pool/{pool}/workflow", body, priority="LOW", label=list(labels))
    fits(answer, {"name": str, "overview": str, "warnings": [str]})
    return str(answer["name"])


def listed(world: TwoTeams, actor: str = "tom", **filters: Any) -> list[str]:
    """As `workflow list` asks."""
    answer = said(world, actor, "GET", "api/workflow", order="DESC", all_pools=True, limit=20, offset=0, **filters)
    fits(answer, {"workflows": [ENTRY], "more_entries": bool})
    return [each["name"] for each in answer["workflows"]]


def test_label_is_stored_and_shown(world: TwoTeams) -> None:
    id = submitted(world, "x", "team=vision", "example.com/run=2.a")
    answer = said(world, "tom", "GET", f"api/workflow/{id}", verbose=False)
    assert answer["labels"] == {"team": "vision", "example.com/run": "2.a"}
    again = said(world, "tom", "POST", "api/pool/team/workflow", None, priority="LOW", workflow_id=id)["name"]
    assert said(world, "tom", "GET", f"api/workflow/{again}")["labels"] == answer["labels"]


def test_label_overrides_the_one_in_the_file(world: TwoTeams) -> None:
    text = "workflow:\n  name: x\n  labels: {team: a, run: one}\n  tasks:\n  - {name: m, image: i, command: [c]}\n"
    answer = said(world, "tom", "POST", "api/pool/team/workflow", {"file": text, **SUBMIT}, label=["team=b", "more=c"])
    labels = said(world, "tom", "GET", f"api/workflow/{answer['name']}")["labels"]
    assert labels == {"team": "b", "run": "one", "more": "c"}


@pytest.mark.parametrize("label", ["team", "=a", "team=", "team=a b", "team=-a", "-=a", "team=" + "a" * 64])
def test_invalid_label_is_refused_with_its_value(still: TwoTeams, label: str) -> None:
    body = {"file": one_task("x"), **SUBMIT}
    for params in ({}, {"validation_only": True, "dry_run": False}):
        status, message = refused(still, "tom", "POST", "api/pool/team/workflow", body, label=[label], **params)
        assert status == 422
        assert "label" in message
    many = [f"key{number}=a" for number in range(17)]
    status, message = refused(still, "tom", "POST", "api/pool/team/workflow", body, label=many)
    assert (status, message) == (422, "too many labels (17, maximum 16)")


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoTeams]:
    with two_teams(tmp_path_factory.mktemp("labelled")) as there:
        submitted(there, "one", "team=a", "example.com/run=2")
        submitted(there, "two", "team=A")
        submitted(there, "three", "team=b.1")
        said(there, "tom", "POST", "api/workflow/one-1/tag", None, add=["paper", "best"], remove=None)
        said(there, "tom", "POST", "api/workflow/two-1/tag", None, add=["best"])
        yield there


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"label": ["team=a"]}, ["one-1"]),
        ({"label": ["team=A"]}, ["two-1"]),
        ({"label": ["team=*"]}, ["three-1", "two-1", "one-1"]),
        ({"label": ["team=(a|b.*)"]}, ["three-1", "one-1"]),
        ({"label": ["team=b*"]}, ["three-1"]),
        ({"label": ["team=bx1"]}, []),
        ({"label": ["team=*b"]}, []),
        ({"label": ["team=a", "run=x"]}, []),
        ({"label": ["team=a", "example.com/run=2"]}, ["one-1"]),
        ({"label": ["run.x=a"]}, []),
        ({"no_label": ["team"]}, ["tomjob-1", "tomold-1"]),
        ({"no_label": ["example.com/run"]}, ["three-1", "two-1", "tomjob-1", "tomold-1"]),
        ({"tags": ["paper"]}, ["one-1"]),
        ({"tags": ["paper", "best"]}, ["two-1", "one-1"]),
        ({"tags": ["none"]}, []),
        ({"app": "trainer"}, []),
        ({"statuses": ["WAITING"]}, []),
        ({"statuses": ["FAILED_SUBMISSION", "FAILED_CANCELED"]}, ["tomold-1"]),
    ],
)
def test_every_filter_of_the_list_works(labelled: TwoTeams, filters: dict[str, Any], names: list[str]) -> None:
    assert sorted(listed(labelled, **filters)) == sorted(names)
    assert sorted(listed(labelled, "ada", all_users=True, **filters, pools=["team"])) == sorted(names)
    assert listed(labelled, "nina", all_users=True, **filters) == []


@pytest.mark.parametrize(
    "selector",
    ["team", "team=", "=a", "team=(a|", "team=(a)", "team=(a|)", "team=a|b", "team=((a|b)|c)", "team=a b", "t="],
)
def test_invalid_selector_is_refused_and_lists_nothing(still: TwoTeams, selector: str) -> None:
    status, message = refused(still, "tom", "GET", "api/workflow", label=[selector], all_users=True)
    assert status == 422
    assert "label" in message or "selector" in message
    many = "".join(["(a|b)"] * 7)
    assert refused(still, "tom", "GET", "api/workflow", label=[f"team={many}"])[0] == 422


def test_tags_are_added_and_removed_even_after_the_end(world: TwoTeams) -> None:
    old = world.old["team"]
    assert said(world, "tom", "POST", f"api/workflow/{old}/tag", None, add=["b", "a"], remove=None) == {
        "tags": ["a", "b"]
    }
    assert said(world, "tom", "POST", f"api/workflow/{old}/tag", None, add=["c"], remove=["a"]) == {"tags": ["b", "c"]}
    assert said(world, "tess", "GET", f"api/workflow/{old}")["tags"] == ["b", "c"]
    assert said(world, "tom", "GET", "api/tag") == {"tags": ["b", "c"]}
    assert said(world, "ada", "GET", "api/tag") == {"tags": ["b", "c"]}
    assert said(world, "uwe", "GET", "api/tag") == {"tags": []}
    assert said(world, "nina", "GET", "api/tag") == {"tags": []}
    assert refused(world, "tess", "POST", f"api/workflow/{old}/tag", None, add=["x"])[0] == 403
    assert refused(world, "uwe", "POST", f"api/workflow/{old}/tag", None, add=["x"])[0] == 404
    assert refused(world, "nina", "POST", f"api/workflow/{old}/tag", None, add=["x"])[0] == 404
    assert refused(world, "tom", "POST", "api/workflow/nothing-1/tag", None, add=["x"])[0] == 404
    assert refused(world, "tom", "POST", f"api/workflow/{old}/tag", None, add=["a b"])[0] == 422
    assert refused(world, "tom", "POST", f"api/workflow/{old}/tag", None, add=None)[0] == 422
    many = [f"t{number}" for number in range(15)]
    status, message = refused(world, "tom", "POST", f"api/workflow/{old}/tag", None, add=many)
    assert (status, message) == (409, f"too many tags for {old} (17, maximum 16). Remove some first")
    assert said(world, "tom", "GET", f"api/workflow/{old}")["tags"] == ["b", "c"]


def test_tags_are_deleted_with_their_workflow(world: TwoTeams) -> None:
    old, store = world.old["team"], world.api.desk.store
    said(world, "tom", "POST", f"api/workflow/{old}/tag", None, add=["a"])
    assert store.retention.prune([old], 100).workflows == 1
    assert said(world, "ada", "GET", "api/tag") == {"tags": []}
