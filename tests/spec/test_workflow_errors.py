"""What a bad workflow file is told: each problem with its place, all of them at once."""

# ruff: noqa: E501  a case and its messages are easier to compare in one line

from typing import Any

import pytest

from runrig.spec.workflow import read_workflow
from tests.spec.files import groups, problems, task

HEAD = "workflow:\n  name: w\n"
TAIL = "  tasks: [{name: a, image: i, command: [run]}]\n"

OF_THE_FILE = [
    ("nothing", "", (None, None, "the workflow file is empty")),
    ("a word", "hm", (1, 1, "the file: expected a mapping with the fields of a workflow file, got text 'hm'")),
    ("a list", "[]", (1, 1, "the file: expected a mapping with the fields of a workflow file, got a list")),
    ("no workflow", "version: 2", (1, 1, "a workflow file needs workflow. Add workflow: {name: NAME, tasks: [...]}")),
    ("version", f"version: 3\n{HEAD}{TAIL}", (1, 10, "version: 3 is not supported. Use version: 2, or omit it.")),
    ("no tasks", HEAD, (2, 3, "a workflow needs tasks. Add tasks: [{name: NAME, image: IMAGE, command: [...]}], or groups")),
    ("empty tasks", HEAD + "  tasks: []", (3, 10, "tasks: is empty. A workflow needs at least one task.")),
    ("tasks of text", HEAD + "  tasks: x", (3, 10, "tasks: expected a list with '- ' before each item, got text 'x'")),
    ("no name", f"workflow:\n{TAIL}", (2, 3, "a workflow needs name. Add name: my-workflow")),
    (
        "both",
        HEAD + "  groups: [{name: g, tasks: [{name: b, image: i, command: [x]}]}]\n" + TAIL,
        (3, 11, "groups: a workflow has tasks or groups, not both. Move the tasks into groups."),
    ),
    ("a typo", f"{HEAD}  prioritty: LOW\n{TAIL}", (3, 3, "a workflow has no field 'prioritty'. Did you mean 'priority'?")),
    ("priority", f"{HEAD}  priority: 5\n{TAIL}", (3, 13, "priority: expected one of HIGH, NORMAL, LOW, got 5")),
    (
        "a name",
        f"workflow:\n  name: a b\n{TAIL}",
        (2, 9, "name: 'a b' must be letters, digits, '-' and '_', start with a letter, and end with a letter or digit"),
    ),
    (
        "a number as name",
        f"workflow:\n  name: 123\n{TAIL}",
        (2, 9, "name: '123' must be letters, digits, '-' and '_', start with a letter, and end with a letter or digit"),
    ),
    ("a word for true as name", f"workflow:\n  name: true\n{TAIL}", (2, 9, "name: expected text, got true. Put it in quotes.")),
    ("a long name", f"workflow:\n  name: {'a' * 65}\n{TAIL}", (2, 9, f"name: '{'a' * 20}'... is too long (65 characters, maximum 64)")),
    ("a label", f"{HEAD}  labels: {{a: 1}}\n{TAIL}", (3, 15, "a: expected text, got 1. Put it in quotes.")),
    (
        "labels",
        f"{HEAD}  labels: {{{', '.join(f'k{i}: v' for i in range(17))}}}\n{TAIL}",
        (3, 11, "labels: too many labels (17, maximum 16)"),
    ),
    ("a time of 0", f"{HEAD}  timeout: {{exec_timeout: 0s}}\n{TAIL}", (3, 27, "exec_timeout: a limit of 0 would stop everything immediately. Omit it for the default.")),
    (
        "resources twice",
        f"resources: {{default: {{}}}}\n{HEAD}  resources: {{default: {{}}}}\n{TAIL}",
        (1, 12, "resources: is defined here and under workflow. Keep one of them."),
    ),
    ("too many pods", HEAD + "  tasks: [{name: a, image: i, command: [x], count: 9999}, {name: b, image: i, command: [x], count: 2}]", (2, 3, "workflow: too many pods (10,001, maximum 10,000)")),
    ("pods of one task", task("count: 10001"), (4, 12, "count: 10001 is too large (maximum 10000)")),
]  # fmt: skip

OF_RESOURCES = [
    ("cpu: 0.5", (4, 20, "cpu: expected a whole number, got 0.5")),
    ("gpu: -1", (4, 20, "gpu: -1 is negative. Use at least 0")),
    ("gpu: two", (4, 20, "gpu: expected a whole number, got text 'two'")),
    ("gpu: true", (4, 20, "gpu: expected a whole number, got true")),
    ("memory: 4Q", (4, 23, "memory: '4Q' is not a size. Use a number and a unit, such as 512Mi, 64Gi or 1.5Ti.")),
    ("gpus: 1", (4, 15, "a resource has no field 'gpus'. Did you mean 'gpu'?")),
    ("xyz: 1", (4, 15, "a resource has no field 'xyz'. Use one of cpu, gpu, memory, storage, platform, nodesExcluded, topology")),
    ("nodesExcluded: [n1]", (4, 15, "nodesExcluded: excluding nodes is not supported yet. Use a platform instead.")),
    ("topology: [{group: g}]", (4, 26, "a topology requirement needs key. Add key: rack")),
    ("topology: [{key: rack, kind: hard}]", (4, 38, "a topology requirement has no field 'kind'. Use one of key, group, requirementType, sliceSize")),
    ("topology: [{key: rack, requirementType: hard}]", (4, 55, "requirementType: expected one of required, preferred, got text 'hard'")),
    ("topology: [{key: rack, group: a b}]", (4, 45, "group: 'a b' must be letters, digits, '-' and '_', and start and end with a letter or digit")),
    ("topology: [{key: rack, group: x}, {key: rack, group: y}]", (4, 55, "key: the topology key 'rack' is defined twice; first on line 4")),
    ("topology: [{key: rack, sliceSize: 0}]", (4, 49, "sliceSize: 0 is too small. Use at least 1")),
    ("topology: [{key: rack, sliceSize: 10001}]", (4, 49, "sliceSize: 10001 is too large (maximum 10000)")),
    ("topology: [{key: rack, sliceSize: 2.5}]", (4, 49, "sliceSize: expected a whole number, got 2.5")),
    ("topology: rack", (4, 25, "topology: expected a list with '- ' before each item, got text 'rack'")),
]  # fmt: skip

OF_A_TASK = [
    ("comand: x", (4, 5, "a task has no field 'comand'. Did you mean 'command'?")),
    ("image: j", (4, 5, "the key 'image' is defined twice; first on line 3")),
    ("resources: big", (4, 5, "a task has no field 'resources': it belongs under workflow. Use resource: NAME here.")),
    ("resource: big", (4, 15, "resource: 'big' is not in resources. Use default")),
    ("args: [true]", (4, 12, "args[0]: expected text, got true. Put it in quotes.")),
    ("args: [[a]]", (4, 12, "args[0]: expected text, got a list")),
    ("environment: {'': x}", (4, 23, "'': '' is not a variable name. Use letters, digits and '_', and do not start with a digit.")),
    ("args: run", (4, 11, "args: expected a list with '- ' before each item, got text 'run'")),
    ("environment: {A: null}", (4, 22, 'A: expected text, got nothing. Use "" for an empty value.')),
    ("environment: {A: [1]}", (4, 22, "A: expected text, got a list")),
    ("environment: {1A: x}", (4, 23, "1A: '1A' is not a variable name. Use letters, digits and '_', and do not start with a digit.")),
    ("count: 0", (4, 12, "count: 0 is too small. Use at least 1")),
    ("count: -2", (4, 12, "count: -2 is negative. Use at least 1")),
    ("minCount: 2", (4, 15, "minCount: requires count: count is the number of pods, minCount the minimum to start with")),
    ("count: 2, minCount: 3", (4, 25, "minCount: 3 is more than count (2)")),
    ("duration: 1h5m", (4, 15, "duration: '1h5m' is not a duration. Use one number with a unit of d, h, m, s, ms, us (90m, not 1h30m), or PT1H30M.")),
    ("exitActions: {STOP: 1}", (4, 25, "STOP: unknown exit action 'STOP'. Use one of COMPLETE, FAIL, RESCHEDULE")),
    ("exitActions: {FAIL: x}", (4, 25, "FAIL: 'x' is not a list of exit codes. Use for example 1,3-5,137.")),
    ("retries: -1", (4, 14, "retries: -1 is negative. Use at least 0")),
    ("retries: 101", (4, 14, "retries: 101 is too large (maximum 100)")),
    ("lead: maybe", (4, 11, "lead: expected true or false, got text 'maybe'")),
    ("credentials: {a: b}", (4, 22, "a: 'b' is not a folder for a credential. Use an absolute path without '..' and ':', such as /etc/keys.")),
    ("credentials: {a: /}", (4, 22, "a: '/' is not a folder for a credential. Use an absolute path without '..' and ':', such as /etc/keys.")),
    ("credentials: {a: /x/../y}", (4, 22, "a: '/x/../y' is not a folder for a credential. Use an absolute path without '..' and ':', such as /etc/keys.")),
    ("credentials: {a: 1}", (4, 22, "a: expected a folder or a map, got 1: use a folder, such as /etc/keys, or VARIABLE: key")),
    ("credentials: {a: {}}", (4, 22, "a: is empty: use a folder, such as /etc/keys, or VARIABLE: key")),
    ("credentials: {a: {1A: k}}", (4, 27, "1A: '1A' is not a variable name. Use letters, digits and '_', and do not start with a digit.")),
    ("credentials: {1a: /x}", (4, 23, "1a: credential '1a' must be letters, digits, '-' and '_', start with a letter, and end with a letter or digit")),
    ("credentials: {a: /x, b: /x/y}", (4, 18, "credentials: '/x/y' is inside '/x', the folder of another credential")),
    ("credentials: {a: {K: a}, b: {K: b}}", (4, 18, "credentials: the variable 'K' has a value already")),
    ("environment: {K: a}, credentials: {b: {K: b}}", (4, 39, "credentials: the variable 'K' has a value already")),
    ("checkpoint: [{path: x}]", (4, 5, "checkpoint: checkpoints are not supported yet. Omit it.")),
    ("cacheSize: 1Gi", (4, 5, "cacheSize: is not supported yet. Omit it.")),
    ("downloadType: download", (4, 5, "downloadType: is not supported yet. Omit it.")),
    ("kpis: [{index: 1}]", (4, 5, "kpis: are not supported yet. Omit them.")),
    ("outputs: [{url: x}]", (4, 5, "outputs: outputs to a URL are not supported yet. Write to {{output}}, and read it in another task with inputs.")),
    ("inputs: [{url: x}]", (4, 15, "url: inputs from a URL are not supported yet. Name a task of this workflow.")),
    ("inputs: [{task: old-1:b}]", (4, 21, "task: text 'old-1:b': inputs from another workflow are not supported yet")),
    ("inputs: [{task: b}]", (4, 21, "task: unknown task 'b'. Use a")),
    ("inputs: [{task: a}]", (4, 21, "task: 'a' reads its own output. Omit it.")),
    ("inputs: [{}]", (4, 14, "an input needs task. Add task: NAME")),
    ("args: ['{{input:0}}']", (3, 11, "tasks[0]: {{input:0}} is not an input of task 'a': it has no inputs")),
    ("args: ['{{host:b}}']", (3, 11, "tasks[0]: {{host:b}} is not a pod that task 'a' can reach: its group has a")),
    ("count: 3, minCount: 2, args: ['{{host:a-2}}']", (3, 11, "tasks[0]: {{host:a-2}} is not a pod that task 'a' can reach: only pods 0 to 1 of task 'a' always run")),
]  # fmt: skip

OF_A_FILE = [
    ("path: run.sh, contents: x", (4, 20, "path: 'run.sh' is relative. Use an absolute path, such as /tmp/run.sh")),
    ("path: /a/../../b, contents: x", (4, 20, "path: '/a/../../b' contains '..', but files must stay in their task's folder. Use a path without it.")),
    ('path: "", contents: x', (4, 20, "path: is empty. Use an absolute path, such as /tmp/run.sh.")),
    ("path: /, contents: x", (4, 20, "path: '/' is a folder. Use the path of a file in it.")),
    ("contents: x", (4, 13, "a file needs path. Add path: /tmp/run.sh")),
    ("path: /a", (4, 13, "a file needs contents. Add contents: |")),
    ("path: /a, contents: 5", (4, 34, "contents: expected text, got 5. Put it in quotes.")),
    ("path: /a, localpath: b", (4, 24, "a file has no field 'localpath': the server cannot read files of your machine. Use contents.")),
    ("path: /a, contents: '?', base64: true", (4, 34, "contents: is not base64: only base64 data is allowed. Omit base64 if it is plain text.")),
    ("path: /a, contents: x}, {path: //a, contents: y", (4, 45, "path: the file '/a' is defined twice; first on line 4")),
    ("path: /a, contents: x}, {path: /a/b/c, contents: y", (4, 45, "path: '/a/b/c' is inside '/a', which is a file")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wrong"), [case[1:] for case in OF_THE_FILE], ids=[case[0] for case in OF_THE_FILE])
def test_problems_of_the_file_are_reported_with_the_rule(text: str, wrong: tuple[Any, ...]) -> None:
    assert wrong in problems(read_workflow, text)


@pytest.mark.parametrize(("resource", "wrong"), OF_RESOURCES)
def test_problems_of_a_resource_are_reported_with_the_rule(resource: str, wrong: tuple[Any, ...]) -> None:
    text = f"{HEAD}  resources:\n    default: {{{resource}}}\n{TAIL}"
    assert problems(read_workflow, text) == [wrong]


@pytest.mark.parametrize(("extra", "wrong"), OF_A_TASK)
def test_problems_of_a_task_are_reported_with_the_rule(extra: str, wrong: tuple[Any, ...]) -> None:
    assert problems(read_workflow, task(extra)) == [wrong]


@pytest.mark.parametrize(("file", "wrong"), OF_A_FILE)
def test_problems_of_a_file_for_a_task_are_reported_with_the_rule(file: str, wrong: tuple[Any, ...]) -> None:
    assert problems(read_workflow, task(f"files: [{{{file}}}]")) == [wrong]


def test_a_command_is_a_list_with_a_program() -> None:
    text = (
        HEAD + "  tasks: [{name: a, image: i, command: run it}, {name: b, image: i, command: []}, {name: c, image: i}]"
    )
    assert problems(read_workflow, text) == [
        (3, 40, "command: expected a list, got text 'run it'. Write one word per item, such as [sh, -c]."),
        (3, 78, "command: is empty. Name the program to run."),
        (3, 83, 'a task needs command. Add command: ["sh", "-c"]'),
    ]


def test_without_a_default_each_task_names_its_resource() -> None:
    text = f"{HEAD}  resources: {{big: {{gpu: 8}}}}\n{TAIL}"
    assert problems(read_workflow, text) == [
        (4, 11, "tasks[0]: sets no resource, and resources has no 'default'. Use big")
    ]


def test_one_task_of_a_group_leads() -> None:
    text = groups(
        "- {name: g, tasks: [{name: a, image: i, command: [x]}, {name: b, image: i, command: [x]}]}",
        "- name: h",
        "  tasks:",
        "  - {name: c, image: i, command: [x], lead: true}",
        "  - {name: d, image: i, command: [x], lead: true}",
        "- {name: i, tasks: []}",
    )
    assert problems(read_workflow, text) == [
        (4, 5, "groups[0]: it has no lead task. Set lead: true in the task whose end ends the group."),
        (8, 7, "tasks[1]: 'd' and 'c' are both leads. Keep lead: true in one of them."),
        (9, 22, "tasks: is empty. A group needs at least one task."),
    ]


def test_name_collisions_follow_kubernetes_rules() -> None:
    text = groups(
        "- name: Train_it",
        "  tasks:",
        "  - {name: train-it, image: i, command: [x], lead: true}",
        "  - {name: w, image: i, command: [x], count: 3}",
        "  - {name: W-1, image: i, command: [x]}",
    )
    advice = "as Kubernetes sees it. Choose another name."
    assert problems(read_workflow, text) == [
        (6, 7, f"tasks[0]: task 'train-it' has the same name as group 'Train_it', {advice}"),
        (7, 7, f"tasks[1]: 'w-1', a pod of task 'w', has the same name as task 'W-1', {advice}"),
    ]
    lone = HEAD + "  tasks:\n  - {name: a, image: i, command: [x]}\n  - {name: a-group, image: i, command: [x]}\n"
    assert problems(read_workflow, lone) == [
        (4, 5, "tasks[0]: 'a-group', the group of task 'a', has the same name as task 'a-group'. Choose another name.")
    ]
    twice = (
        HEAD
        + "  tasks:\n  - {name: a, image: i, command: [x], count: 2}\n  - {name: a, image: i, command: [x], count: 2}\n"
    )
    assert problems(read_workflow, twice) == [
        (5, 5, "tasks[1]: task 'a' is defined twice; first on line 4. Choose another name.")
    ]
    assert problems(read_workflow, lone.replace("a-group", "osmo_ctrl")) == [
        (5, 12, "name: 'osmo_ctrl' is reserved. Choose another name.")
    ]


def test_pod_names_of_a_long_task_name_have_a_valid_length() -> None:
    text = f"{HEAD}  tasks: [{{name: {'a' * 62}, image: i, command: [x], count: 101}}]"
    last = "a" * 62 + "-100"
    assert problems(read_workflow, text) == [
        (3, 11, f"tasks[0]: the name of its last pod, {last!r}, would be too long (66 characters, maximum 64)")
    ]


def test_each_cycle_of_groups_is_reported_once() -> None:
    text = groups(
        "- {name: a, tasks: [{name: at, image: i, command: [x], inputs: [{task: bt}]}]}",
        "- {name: b, tasks: [{name: bt, image: i, command: [x], inputs: [{task: ct}]}]}",
        "- {name: c, tasks: [{name: ct, image: i, command: [x], inputs: [{task: at}]}]}",
        "- {name: d, tasks: [{name: dt, image: i, command: [x], inputs: [{task: at}]}]}",
        "- {name: e, tasks: [{name: et, image: i, command: [x], inputs: [{task: ft}]}]}",
        "- {name: f, tasks: [{name: ft, image: i, command: [x], inputs: [{task: et}]}]}",
    )
    assert problems(read_workflow, text) == [
        (4, 74, "task: groups depend on each other in a cycle: a → b → c → a"),
        (8, 74, "task: groups depend on each other in a cycle: e → f → e"),
    ]


def test_tasks_of_one_group_cannot_depend_on_each_other() -> None:
    text = groups(
        "- name: g",
        "  tasks:",
        "  - {name: a, image: i, command: [x], lead: true}",
        "  - {name: b, image: i, command: [x], inputs: [{task: a}, {task: a}]}",
    )
    wrong = "task: 'a' is in the same group, whose tasks start together. Move it to an earlier group."
    assert problems(read_workflow, text) == [
        (7, 57, wrong),
        (7, 68, "task: the input 'a' is defined twice; first on line 7"),
        (7, 68, wrong),
    ]


def test_slices_need_a_task_with_a_count_in_a_group_of_its_own() -> None:
    text = groups(
        "- name: g",
        "  tasks:",
        "  - {name: a, image: i, command: [x], lead: true}",
        "  - {name: b, image: i, command: [x], resource: default}",
        "  - {name: c, image: i, command: [x], count: 8, resource: whole}",
        "  - {name: d, image: i, command: [x], count: 8, resource: other}",
        "resources:",
        "  default: {topology: [{key: rack, sliceSize: 4}]}",
        "  whole: {topology: [{key: rack}]}",
        "  other: {topology: [{key: rack}, {key: host}]}",
    )
    single = (
        "has slices of 4 pods for topology key 'rack', but a task without count is a single pod. Set count, "
        "or name a resource without sliceSize"
    )
    shared = "share group 'default' of topology key 'rack', and a group with slices has one task: name a resource with another group"
    assert problems(read_workflow, text) == [
        (6, 7, f"tasks[0]: {single}"),
        (7, 7, f"tasks[1]: 'b' and 'a' {shared}"),
        (7, 51, f"resource: {single}"),
        (8, 7, f"tasks[2]: 'c' and 'a' {shared}"),
    ]


def test_slices_of_two_levels_are_nested_in_either_order() -> None:
    text = f"{HEAD}  resources:\n    default: {{topology: [{{key: a, sliceSize: 6}}, {{key: b}}, {{key: c, sliceSize: 4}}, {{key: d, sliceSize: 2}}]}}\n{TAIL}"
    assert problems(read_workflow, text.replace("command: [run]", "command: [run], count: 12")) == [
        (4, 46, "sliceSize: slices of 6 pods cannot be cut into those of 4 that 'c' has: 4 must divide it")
    ]


def test_of_very_many_problems_only_the_first_are_shown() -> None:
    found = problems(read_workflow, HEAD + "".join(f"  x{i}: 1\n" for i in range(150)))
    assert len(found) == 101
    assert found[-1] == (None, None, "and 51 more problems")
