"""No object may have a field twice: readers would disagree about which of the two counts."""

import json

import pytest

from runrig.spec.strict_json import Fields, FieldTwice, read


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"a": 1, "a": 1}', "a"),
        ('{"a": null, "b": 2, "a": null}', "a"),
        ('{"tasks": [{}, {"spec": {"name": "x", "\\u006eame": "y"}}]}', "tasks[1].spec.name"),
        ('[{"": 1, "": 2}]', "[0]."),
        ('{"a": {"b": 1, "b": 2}, "a": 3}', "a"),
        ('{"a": [{"b": 1, "b": 2}], "c": 3}', "a[0].b"),
    ],
)
def test_a_field_that_is_there_twice_is_named_with_its_path(text: str, path: str) -> None:
    with pytest.raises(FieldTwice) as refused:
        read(text)
    assert refused.value.problem.message == f"the body has the field {path!r} twice. Keep one of them"
    assert refused.value.problem.path == path


@pytest.mark.parametrize("value", [{"a": {"a": [{"a": 1}, {"a": 2}]}}, {"é": 1, "e\u0301": 2, "A": 1, "a": 2}, [], 1.5])
def test_other_json_is_read_as_python_reads_it(value: object) -> None:
    assert read(json.dumps(value)) == value


def test_many_fields_and_deep_objects_cost_no_more_than_reading_them() -> None:
    many = ",".join(f'"{number}": 1' for number in range(50_000))
    with pytest.raises(FieldTwice, match="the field '49999' twice"):
        read(f'{{{many}, "49999": 1}}')
    deep = '{"a": ' * 400
    with pytest.raises(FieldTwice) as refused:
        read(deep + '{"b": 1, "b": 2}' + "}" * 400, "manifest")
    assert (len(refused.value.problem.path), refused.value.problem.message[-28:]) == (
        120,
        "...' twice. Keep one of them",
    )


def test_objects_that_the_caller_left_out_are_not_judged() -> None:
    fields = Fields()
    value = json.loads('{"kept": 1, "dropped": {"a": 1, "a": 2}}', object_pairs_hook=fields)
    value.pop("dropped")
    fields.check(value, "file")
