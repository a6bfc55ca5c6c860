"""The files of a scenario: JSON and YAML are equivalent, several files form one cluster, and errors have positions."""

# ruff: noqa: E501  a case and its messages are easier to compare in one line

import json
from typing import Any

import pytest
import yaml

from runrig.domain.errors import InvalidInput
from runrig.domain.kueue import Warned
from runrig.kueue.read import File, read_all, read_manifests
from tests.worlds.manifests import home, job, workload

ALL: list[dict[str, Any]] = [*home(), workload("w", {"priority": 7}), job("j", {"parallelism": 3})]
LIST = {"apiVersion": "v1", "kind": "List", "items": ALL, "metadata": {"resourceVersion": ""}}


def problems(text: str | bytes) -> list[str]:
    with pytest.raises(InvalidInput) as raised:
        read_manifests(text, "a.json")
    return [problem.located("a.json") for problem in raised.value.problems]


def test_json_is_read_like_yaml() -> None:
    listed = read_manifests(yaml.safe_dump(LIST), "a.yaml")
    assert len(listed.system.workloads) == 2
    for text in (
        json.dumps(LIST),
        json.dumps(LIST, indent=4),
        "\ufeff  " + json.dumps(LIST),
        json.dumps(LIST).encode(),
    ):
        assert read_manifests(text, "a.json") == listed


def test_consecutive_json_values_are_documents() -> None:
    together = "\n".join(json.dumps(each) for each in ALL)
    assert read_manifests(together, "a.json") == read_manifests(
        "\n---\n".join(json.dumps(each) for each in ALL), "a.yaml"
    )


def test_yaml_in_braces_is_still_yaml() -> None:
    assert read_manifests("{apiVersion: v1, kind: Namespace, metadata: {name: a}}", "a").system.namespaces.keys() == {
        "a"
    }


def test_errors_in_json_name_document_and_path() -> None:
    wrong = {**LIST, "items": [*ALL, workload("x", {"priority": "high"})]}
    assert problems(json.dumps(wrong)) == [
        "a.json: document 1, items[5].spec.priority: expected a whole number, got text 'high'"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"apiVersion": "v1", "kind": "List", "items": [}', "not valid YAML"),
        ('{"apiVersion": "v1", "apiVersion": "v1"}', "the key 'apiVersion' is defined twice"),
        ('{"kind": "a\\u0000b"}', "the text contains a NUL character"),
        ('{"kind": "a\\ud800b"}', "not valid YAML"),
        ('{"items": ' + "[" * 100 + "]" * 100 + "}", "nested more than 100 levels deep"),
        ('{"a": [' * 51 + "1" + "]}" * 51, "nested more than 100 levels deep"),
        ('{"a": ' * 101 + "1" + "}" * 101, "nested more than 100 levels deep"),
        ('{"a": ' * 100_000 + "1" + "}" * 100_000, "nested more than 100 levels deep"),
    ],
)
def test_invalid_json_is_rejected_with_its_position(text: str, message: str) -> None:
    (found,) = problems(text)
    assert message in found


def test_json_may_be_nested_a_hundred_levels_deep() -> None:
    made = workload("w")
    made["spec"]["unused"] = json.loads('{"a": ' * 98 + "1" + "}" * 98)
    assert len(read_manifests(json.dumps(made), "a.json").system.workloads) == 1


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ("[}", "1:1100017: the file a.json is not valid JSON: Expecting value"),
        ('{"b": 1, "b": 2}}', "the file a.json has the field 'b' twice. Keep one of them"),
        ('"a\\u0000"}', "the file a.json contains text that is not valid Unicode, or has a NUL character: 'a\\x00'"),
        ('"a\\ud800"}', "the file a.json contains text that is not valid Unicode, or has a NUL character: 'a\\ud800'"),
    ],
)
def test_long_json_is_not_parsed_as_yaml(tail: str, message: str) -> None:
    (found,) = problems('{"x": "' + "a" * 1_100_000 + '", "b": ' + tail)
    assert found == f"a.json:{message}" if message[0] == "1" else f"a.json: {message}"


def test_escaped_text_of_other_languages_is_text() -> None:
    made = workload("w", meta={"annotations": {"note": "größer 😀 \\u0000"}})
    assert len(read_manifests(json.dumps(made), "a.json").system.workloads) == 1


def test_several_files_form_one_cluster() -> None:
    files = [File(f"f{at}.yaml", yaml.safe_dump(each)) for at, each in enumerate(ALL)]
    together = read_all(files)
    assert together == read_manifests(json.dumps(LIST), "a.json")


def test_warnings_and_errors_of_several_files_name_the_file() -> None:
    odd = File("odd.yaml", yaml.safe_dump({**workload("x"), "sepc": 1}))
    found = read_all([File("home.json", json.dumps(LIST)), odd])
    assert found.warnings == (Warned(1, "sepc", "unknown field, ignored. Did you mean 'spec'?", "odd.yaml"),)
    twice = File("more.yaml", yaml.safe_dump(workload("w")))
    broken = File("broken.yaml", "a: [")
    for files, message in (
        ([File("home.json", json.dumps(LIST)), twice], "more.yaml, document 1: duplicate Workload default/w: first defined in document 1 of home.json"),
        ([twice, broken], "broken.yaml: document 1: not valid YAML: "),
    ):  # fmt: skip
        with pytest.raises(InvalidInput) as raised:
            read_all(files)
        assert raised.value.problems[0].message.startswith(message)


def test_repeated_warnings_at_one_field_are_merged_per_kind() -> None:
    documents = [workload(f"w{at}", {"preemptionGates": [{"name": "g"}]}) for at in range(1200)]
    listed = {**LIST, "items": [*home(), *documents, job("j", {})]}
    found = read_manifests(json.dumps(listed), "a.json").warnings
    message = "preemption gates are not supported: treated as open (and in 1,199 more places)"
    assert found == (Warned(1, "items[3].spec.preemptionGates", message),)


def test_bookkeeping_of_the_api_server_is_skipped() -> None:
    made = workload("w", meta={"managedFields": [{"manager": "kueue", "fieldsV1": {"f:spec": {}}}]})
    assert read_manifests(json.dumps(made), "a.json") == read_manifests(json.dumps(workload("w")), "a.json")
