"""Files of tasks: what is in which Secret, where it is mounted, and what cannot be."""

import base64
import hashlib
import re
from dataclasses import replace

import pytest

from runrig.backends.kubernetes.files import LARGEST_SECRET, WORK, GangFiles, Mount, files_of
from runrig.backends.kubernetes.objects import gang_objects
from runrig.domain.workflows import FileSpec, TaskSpec, task_uuid
from tests.backends.kubernetes.gangs import UUID, WORKFLOW_UUID, placed, pods, task

READ, RUN = 0o444, 0o555


def files(*tasks: TaskSpec) -> GangFiles:
    return files_of(tasks, lambda task, index: {"index": str(index), "output": "/runrig/output"})


def encoded(text: str) -> TaskSpec:
    return replace(task(), files=(FileSpec("/x", text, base64=True),))


def key(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def kept(found: GangFiles) -> list[list[bytes]]:
    """The contents of each Secret; their keys are checked."""
    opened = [{name: base64.b64decode(data) for name, data in secret.items()} for secret in found.secrets]
    assert all(name == key(data) for secret in opened for name, data in secret.items())
    return [list(secret.values()) for secret in opened]


def test_equal_contents_are_stored_once_and_tokens_are_expanded_per_pod() -> None:
    script = b"#!/bin/sh\nls /runrig/output"
    found = files(
        task("a", count=2, files={"/etc/a": "same", "/etc/rank": "{{index}}", "/run.sh": "#!/bin/sh\nls {{output}}"}),
        task("b", files={"/etc/b": "same"}),
        task("c"),
    )
    same, run = Mount("/etc/a", 0, key(b"same"), READ), Mount("/run.sh", 0, key(script), RUN)
    assert kept(found) == [[b"same", b"0", script, b"1"]]
    assert found.mounts == {
        "a-0": (same, Mount("/etc/rank", 0, key(b"0"), READ), run),
        "a-1": (same, Mount("/etc/rank", 0, key(b"1"), READ), run),
        "b": (Mount("/etc/b", 0, key(b"same"), READ),),
    }


@pytest.mark.parametrize(
    ("text", "data"), [("/3t7aW5kZXh9fQ==", b"\xff{{index}}"), ("IyF4\n IyF4", b"#!x#!x"), ("", b"")]
)
def test_base64_is_bytes_and_tokens_in_it_are_not_expanded(text: str, data: bytes) -> None:
    assert kept(files(encoded(text))) == [[data]]


def test_text_that_is_not_unicode_keeps_its_bytes() -> None:
    assert kept(files(task(files={"/x": "a\udcff"}))) == [[b"a\xff"]]


def test_paths_are_normalised_and_relative_ones_are_in_the_working_folder() -> None:
    found = files(task(files={"//a/./b//c": "1", "d/e": "2", "/runrig/output/seed": "3"}))
    assert [each.path for each in found.mounts["t"]] == ["/a/b/c", f"{WORK}/d/e", "/runrig/output/seed"]


# ---------------------------------------------------------------- how much


def test_files_that_do_not_fit_into_one_secret_are_distributed() -> None:
    third = LARGEST_SECRET // 3
    found = files(task(files={f"/{name}": name * third for name in "abc"} | {"/d": "d"}))
    assert [[len(data) for data in secret] for secret in kept(found)] == [[third, third], [third, 1]]
    assert [each.secret for each in found.mounts["t"]] == [0, 0, 1, 1]


def test_many_small_files_are_distributed_so_that_their_keys_fit_too() -> None:
    found = files(task(count=5000, files={"/rank": "{{index}}"}))
    assert [len(secret) for secret in found.secrets] == [4037, 963]
    assert [found.mounts[f"t-{index}"][0].secret for index in (0, 4036, 4037, 4999)] == [0, 0, 1, 1]


def test_largest_file_that_fits_into_a_secret_is_accepted_and_a_larger_one_is_not() -> None:
    found = files(task(files={"/a": "a", "/b": "b" * LARGEST_SECRET, "/c": "c"}))
    assert [[len(data) for data in secret] for secret in kept(found)] == [[1], [LARGEST_SECRET], [1]]
    with pytest.raises(ValueError, match="more than a Kubernetes Secret") as refused:
        files(task(files={"/b": "b" * (LARGEST_SECRET + 1)}))
    assert str(refused.value) == (
        "file '/b' has 1,048,577 bytes, more than a Kubernetes Secret can hold (1,048,576). "
        "Put it into the image, or let the task download it"
    )


def test_files_of_all_pods_have_a_common_limit_and_equal_ones_count_once() -> None:
    half = "x" * (LARGEST_SECRET // 2 - 512)
    assert len(files(task(count=10_000, files={"/same": half})).secrets) == 1
    own = [task(name, count=16, files={"/own": half + name + "{{index}}"}) for name in "ab"]
    assert len(files(*own).secrets) == 16
    with pytest.raises(ValueError, match="the files of the group") as refused:
        files(task(count=10_000, files={"/own": half + "{{index}}"}))
    assert str(refused.value) == (
        "the files of the group exceed 16,777,216 bytes, the limit for Kubernetes Secrets. A file whose content differs between "
        "pods, such as '/own', counts once per pod. Use the same file for all pods and pass the differences in environment or "
        "args, or let the task download it"
    )


# ---------------------------------------------------------------- refused files


@pytest.mark.parametrize("path", ["", "/", "//", ".", "..", "/a/../b", "a/..", "/a\0"])
def test_path_outside_every_folder_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"is outside the task's folder\. Use a path without '\.\.'$"):
        files(task(files={path: "x"}))


@pytest.mark.parametrize(
    "paths", [("/a", "//a"), ("/a", "/a/b"), ("/a/b/c", "/a"), ("/runrig/output",), ("/runrig",), ("x", f"{WORK}/x")]
)
def test_two_files_with_one_path_are_refused(paths: tuple[str, ...]) -> None:
    with pytest.raises(
        ValueError, match=r"^file '.*' cannot be created: another file of the task, or a folder, has the same"
    ):
        files(task(files=dict.fromkeys(paths, "x")))


def test_files_of_different_tasks_do_not_collide() -> None:
    assert len(files(task("a", files={"/a": "x"}), task("b", files={"/a/b": "y"})).mounts) == 2


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (task(files={"/a:b": "x"}), "file '/a:b' contains ':', which Kubernetes cannot mount. Use a path without it"),
        (task(files={"/" + "ä" * 128: "x"}), f"file '/{'ä' * 79}'… cannot be created: a name in its path is too long"),
        (encoded("a"), "file '/x' is not base64"),
    ],
)
def test_impossible_files_are_reported(broken: TaskSpec, words: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        files(task("good", files={"/a": "x"}), broken)


# ---------------------------------------------------------------- as objects


def test_pod_mounts_only_its_own_files_and_their_secrets() -> None:
    rest = "x" * (LARGEST_SECRET - 300)
    them = pods(task("a", files={"/run": "#!{{uuid}}", "/big": rest}), task("b", files={"/same": rest, "/twin": rest}))
    _, first, second, _ = gang_objects(them)
    assert [(each["metadata"]["name"], each["immutable"]) for each in (first, second)] == [
        (f"{UUID}-0", True),
        (f"{UUID}-1", True),
    ]
    big, script = (next(iter(each["data"])) for each in (first, second))  # what all pods share comes first
    assert base64.b64decode(second["data"][script]).decode() == f"#!{task_uuid(WORKFLOW_UUID, 'a')}"
    a, b = placed(them, "a")["spec"], placed(them, "b")["spec"]
    output = {"name": "output", "emptyDir": {}}
    its_big = {"secretName": f"{UUID}-0", "items": [{"key": big, "path": big, "mode": READ}]}
    its_script = {"secretName": f"{UUID}-1", "items": [{"key": script, "path": script, "mode": RUN}]}
    assert a["volumes"] == [output, {"name": "files-0", "secret": its_big}, {"name": "files-1", "secret": its_script}]
    assert b["volumes"] == [output, {"name": "files-0", "secret": its_big}]
    assert b["containers"][0]["volumeMounts"] == [
        {"name": "output", "mountPath": "/runrig/output"},
        {"name": "files-0", "mountPath": "/same", "subPath": big, "readOnly": True},
        {"name": "files-0", "mountPath": "/twin", "subPath": big, "readOnly": True},
    ]


def test_only_a_task_with_a_relative_path_gets_a_working_folder() -> None:
    them = pods(task("a", files={"x": "1"}), task("b", files={"/x": "1"}))
    assert [placed(them, name)["spec"]["containers"][0].get("workingDir") for name in "ab"] == ["/runrig/work", None]
