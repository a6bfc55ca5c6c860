"""Arrays in workflow files and options: what is read, and what is refused with one line."""

import pytest

from runrig.domain.errors import InvalidInput
from runrig.domain.tokens import array_environment, expand, name_in_array
from runrig.domain.workflows import Array, TaskSpec, WorkflowSpec
from runrig.spec.arrays import Given, combinations, parse_array, parse_indices, parse_sweep
from runrig.spec.overrides import with_retry
from runrig.spec.workflow import read_workflow, with_environment
from runrig.store.codec import decode, dumps, encode, loads
from tests.spec.files import problems


def file(array: str, *words: str, count: str = "", more: str = "") -> str:
    command = ", ".join(f'"{word}"' for word in ("run", *words))
    return (
        f"workflow:\n  name: sweep\n  groups:\n  - name: runs\n    array: {array}\n"
        f"    tasks: [{{name: main, image: i, command: [{command}]{count}}}]\n{more}"
    )


def array_of(spec: WorkflowSpec) -> Array:
    assert spec.array is not None
    return spec.array


@pytest.mark.parametrize(("text", "indices"), [
    ("0-3", (0, 1, 2, 3)), ("7", (7,)), ("9,1-3", (1, 2, 3, 9)), ("0-10:4", (0, 4, 8)), ("5 , 2", (2, 5)),
])  # fmt: skip
def test_indices_are_numbers_ranges_and_steps(text: str, indices: tuple[int, ...]) -> None:
    assert parse_indices(text) == indices
    assert array_of(read_workflow(file(f'{{indices: "{text}"}}'))).indices == indices


def test_each_element_is_a_group_named_by_its_index() -> None:
    spec = read_workflow(file('{indices: "3,7", most: 1, failFast: true}', "{{array_index}}", count=", count: 2"))
    assert [(group.name, [task.name for task in group.tasks]) for group in spec.groups] == [
        ("3", ["main-3"]),
        ("7", ["main-7"]),
    ]
    assert [group.name for group in spec.written] == ["runs"]
    assert spec.group("7").tasks[0].array == {"array_index": "7", "array_count": "2"}
    assert (array_of(spec).most, array_of(spec).fail_fast) == (1, True)


def test_values_are_texts_as_written_and_variables_of_the_element() -> None:
    spec = read_workflow(file("{values: [{lr: 0.10, opt: adam}, {lr: 1e-3, opt: sgd}]}", "{{array:lr}}"))
    values = spec.group("0").tasks[0].array
    assert values == {"array_index": "0", "array_count": "2", "array:lr": "0.10", "array:opt": "adam"}
    assert array_environment(values) == {
        "RUNRIG_ARRAY_INDEX": "0",
        "RUNRIG_ARRAY_COUNT": "2",
        "lr": "0.10",
        "opt": "adam",
    }
    assert expand("{{array:lr}} of {{array_count}}", values) == "0.10 of 2"


def test_a_value_that_looks_like_a_token_is_not_expanded_again() -> None:
    spec = read_workflow(file('{values: [{a: "{{output}}"}]}', "{{array:a}}"))
    assert expand("{{array:a}}", {**spec.groups[0].tasks[0].array, "output": "/secret"}) == "{{output}}"


@pytest.mark.parametrize(("pod", "written"), [("main-7", "main"), ("main-7-0", "main-0"), ("a-7-7", "a-7")])
def test_the_file_names_pods_without_the_index(pod: str, written: str) -> None:
    assert name_in_array(pod, {"array_index": "7"}) == written
    assert name_in_array(pod, {}) == pod


def test_an_array_is_stored_once() -> None:
    spec = read_workflow(file("{indices: 0-999}", "x" * 1000))
    stored = dumps(encode(WorkflowSpec, spec))
    assert len(stored) < 7_000
    assert decode(WorkflowSpec, loads(stored)) == spec
    assert len(spec.groups) == 1000


def test_options_of_a_submission_apply_to_every_element() -> None:
    spec = with_retry(with_environment(read_workflow(file("{indices: 0-1}")), {"A": "1"}), "2:75")
    tasks = [group.tasks[0] for group in spec.groups]
    assert [(task.name, task.environment, task.retries) for task in tasks] == [
        ("main-0", {"A": "1"}, 2),
        ("main-1", {"A": "1"}, 2),
    ]
    assert spec == decode(WorkflowSpec, encode(WorkflowSpec, spec))


OTHER = "  - name: other\n    tasks: [{name: b, image: i, command: [c]}]\n"


@pytest.mark.parametrize(("array", "message"), [
    ('{indices: "0-"}', "indices: '0-' is not a list of indices. Use for example 0-9, 1,3,5-7 or 0-15:4."),
    ("{indices: 5-3}", "indices: the range 5-3 is reversed. Use 3-5"),
    ("{indices: 0-1000}", "indices: too many elements (1,001, maximum 1,000)"),
    ("{indices: 0-999999999}", "indices: index 999999999 is too large (maximum 999999)"),
    ('{indices: "1,0-2"}', "indices: index 1 occurs twice. Omit one."),
    ('{indices: "0-8:0"}', "indices: the range 0-8:0 has a step of 0. Use at least 1."),
    ("{indices: 0-3, most: 0}", "most: 0 is too small. Use at least 1"),
    ("{}", 'array: has either indices, such as indices: "0-9", or values, such as values: [{lr: 0.1}, {lr: 0.01}].'),
    ("{values: []}", "values: is empty. An array needs at least one element."),
    ("{values: [{a: 1}, {a: 1}]}", "values[1]: has the same values as element 0. Omit one."),
    ("{values: [{a: 1}, {b: 1}]}", "values[1]: sets b, but the first element sets a. Set the same names in all."),
    ("{values: [{array_index: 1}]}", "array_index: 'array_index' is reserved. Choose another name."),
    ("{values: [{runrig_task: 1}]}", "runrig_task: 'runrig_task' is reserved. Choose another name."),
    ("{values: [{a-b: 1}]}", "a-b: 'a-b' is not a name for values. Use letters, digits and '_', and do not start with a digit."),
    ("{values: [{a: [1]}]}", "a: expected text or a number, got a list"),
])  # fmt: skip
def test_an_impossible_array_is_one_problem(array: str, message: str) -> None:
    assert [each[2] for each in problems(read_workflow, file(array))] == [message]


@pytest.mark.parametrize(("text", "message"), [
    (
        file("{indices: 0-3}", more=OTHER),
        "array: an array must be the only group of its workflow. Put the other groups into a workflow of their own, "
        "and use after: to run one after the other.",
    ),
    (file("{indices: 0-999}", count=", count: 11"), "array: too many pods in all elements (11,000, maximum 10,000)"),
    (file("{indices: 0-3}", "{{array:lr}}"), "tasks[0]: {{array:lr}} is not a value of the array: it has indices, but no values"),
    (
        file("{values: [{a: 1}]}", "{{array:lr}}"),
        "tasks[0]: {{array:lr}} is not a value of the array: its values are a",
    ),
    (
        file("{indices: 0-3}", "{{array_index}}").replace("    array: {indices: 0-3}\n", ""),
        "tasks[0]: {{array_index}} has no value, because group 'runs' has no array",
    ),
    (
        file("{indices: 0-999999:999999}").replace("name: main", f"name: {'m' * 60}"),
        f"array: the name of the pod '{'m' * 60}-999999' would be too long (67 characters, maximum 64)",
    ),
    (
        "workflow:\n  name: s\n  groups:\n  - name: g\n    array: {indices: 0-2}\n    tasks:\n"
        "    - {name: a, image: i, command: [c], lead: true, count: 1}\n    - {name: a_1, image: i, command: [c]}\n",
        "array: pods of different tasks and elements would have the same name. Rename a task.",
    ),
])  # fmt: skip
def test_an_array_that_does_not_fit_its_workflow_is_one_problem(text: str, message: str) -> None:
    assert [each[2] for each in problems(read_workflow, text)] == [message]


def test_array_options_of_run_are_read() -> None:
    assert parse_array("0-9%3") == ("0-9", 3)
    assert parse_array("0-9") == ("0-9", None)
    assert parse_sweep("lr=0.1,0.01") == ("lr", ("0.1", "0.01"))
    assert list(combinations([("lr", ("1", "2")), ("b", ("x", "y"))])) == [
        {"lr": "1", "b": "x"},
        {"lr": "1", "b": "y"},
        {"lr": "2", "b": "x"},
        {"lr": "2", "b": "y"},
    ]


@pytest.mark.parametrize(
    "text", ["", "0-", "5-3", "0-9%", "0-9%0", "0-9%1001", "0-9%x", "%3", "0-1000", "-1", "1.5", "٣"]
)
def test_an_invalid_array_option_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Use|maximum"):
        parse_array(text)


@pytest.mark.parametrize("text", ["", "lr", "lr=", "lr=1,", "=1", "1a=2", "lr=1,1", "RUNRIG_X=1", "a b=1"])
def test_an_invalid_sweep_option_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Use|Choose|Omit"):
        parse_sweep(text)


def test_too_many_combinations_are_refused_before_they_are_built() -> None:
    digits = tuple(map(str, range(10)))
    with pytest.raises(ValueError, match="too many combinations"):
        combinations([(name, digits) for name in "abcdefghijklmnop"])
    with pytest.raises(ValueError, match="lr is given twice"):
        combinations([("lr", ("1",)), ("lr", ("2",))])


ALONE = "workflow: {name: w, tasks: [{name: main, image: i, command: [run, '{{array_index}}']}]}"


def test_options_of_a_submission_make_the_only_group_an_array() -> None:
    one = array_of(read_workflow(ALONE, Given("1,4-6:2%2")))
    assert (one.indices, one.count, one.most, one.values) == ((1, 4, 6), 3, 2, ())
    swept = array_of(read_workflow(ALONE, Given(sweep=("lr=1,2", "bs=8"), most=1)))
    assert (swept.indices, swept.most, swept.values[1]) == ((0, 1), 1, {"lr": "2", "bs": "8"})
    assert read_workflow(ALONE, Given("0-3", most=2)) == read_workflow(ALONE, Given("0-3%2"))


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        (ALONE, Given("0-1", ("lr=1",)), "--array and --sweep exclude each other. Use one of them."),
        (ALONE, Given("0-1%2", most=2), "--array 0-1%2 and --most 2 both set a limit. Use one of them."),
        (ALONE, Given(most=2), "--most requires --array or --sweep"),
        (ALONE, Given("-1"), "'-1' is not a list of indices. Use for example 0-9, 1,3,5-7 or 0-15:4."),
        (ALONE, Given("\u0663"), "'\u0663' is not a list of indices. Use for example 0-9, 1,3,5-7 or 0-15:4."),
        (ALONE, Given(sweep=("lr",)), "'lr' is not NAME=VALUE,VALUE. Use for example lr=0.1,0.01."),
        (
            file("{indices: 0-1}"),
            Given("0-1"),
            "is already in the file. Submit it without --array, --sweep and --most.",
        ),
        (ALONE.replace("}]", "}, {name: b, image: i, command: [x]}]"), Given("0"), "an array must be the only group"),
    ],
)
def test_options_that_make_no_array_are_refused(text: str, given: Given, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_workflow(text, given)
    assert message in refused.value.message


def test_elements_share_the_settings_of_the_file() -> None:
    first, second = (group.tasks[0] for group in read_workflow(file("{indices: 0-1}", "x")).groups)
    shared = [name for name in TaskSpec.__slots__ if getattr(first, name) is getattr(second, name)]
    assert {*TaskSpec.__slots__} - {*shared} == {"name", "array"}
