"""The code of a gang as objects of Kubernetes: a Secret, and an init container that unpacks it."""

import base64
import io
import tarfile
from dataclasses import replace
from typing import Any

import pytest

from runrig.backends.kubernetes.objects import before_the_group, gang_objects
from runrig.backends.kubernetes.pods import GangPods
from runrig.domain.code import sha256
from runrig.domain.errors import NotFound, Unavailable
from runrig.domain.workflows import TaskSpec
from runrig.ports.code import CodeOf, StoredCode
from tests.backends.kubernetes.gangs import UUID, gang, settings, task
from tests.worlds.code import manifest

FILES = {"run.sh": b"#!/bin/sh\n", "lib/a.py": b"pass\n"}
CODE = manifest(FILES, {"latest": "lib"}, scripts={"run.sh"})


def code_of(user: str, id: str) -> StoredCode:
    assert (user, id) == ("ada@example.com", CODE.id)
    return StoredCode(CODE, {sha256(data): data for data in FILES.values()}.__getitem__)


def gone(_user: str, id: str) -> StoredCode:
    raise NotFound(f"unknown code {id}")


def away(_user: str, _id: str) -> StoredCode:
    raise Unavailable("the database is away")


def made(*tasks: TaskSpec, source: CodeOf | None = code_of, begun: bool = False) -> GangPods:
    return GangPods(gang(*tasks, code=CODE.id), replace(settings(), code_of=source), begun=lambda: begun)


def secret(pods: GangPods) -> Any:
    (found,) = [each for each in gang_objects(pods) if each["kind"] == "Secret"]
    return found


def test_one_immutable_secret_has_the_code_of_all_pods() -> None:
    found = secret(made(task("a", count=3), task("b")))
    assert (found["metadata"]["name"], found["immutable"]) == (f"{UUID}-code", True)
    assert found == secret(made(task("a", count=3), task("b"))), "a later server writes the same"
    packed = base64.b64decode(found["data"]["code.tar.gz"])
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
        assert [(each.name, each.mode) for each in tar] == [("lib/a.py", 0o644), ("run.sh", 0o755), ("latest", 0o777)]


def test_an_init_container_with_the_image_of_the_task_unpacks_it_into_the_working_folder() -> None:
    (pod,) = made(task("t", files={"notes": "x", "/etc/conf": "y"}, requests=(("cpu", 2000), ("gpu", 4)))).unplaced()
    spec = pod["spec"]
    assert spec["initContainers"] == [
        {
            "name": "runrig-code",
            "image": "image:1",
            "command": ["tar", "-xzof", "/runrig/code-archive/code.tar.gz", "-C", "/runrig/code"],
            "volumeMounts": [
                {"name": "code", "mountPath": "/runrig/code"},
                {"name": "code-archive", "mountPath": "/runrig/code-archive", "readOnly": True},
            ],
            "resources": {"limits": {"cpu": 2}, "requests": {"cpu": 2}},
        }
    ]
    assert {"name": "code", "emptyDir": {}} in spec["volumes"]
    assert {"name": "code-archive", "secret": {"secretName": f"{UUID}-code", "defaultMode": 0o444}} in spec["volumes"]
    container = spec["containers"][0]
    assert container["workingDir"] == "/runrig/code"
    places = [each["mountPath"] for each in container["volumeMounts"]]
    assert places[0] == "/runrig/code"
    assert {"/runrig/code/notes", "/etc/conf"} <= set(places)


def test_a_gang_without_code_has_nothing_of_it() -> None:
    pods = GangPods(gang(task()), replace(settings(), code_of=gone))
    assert "code" not in repr([*gang_objects(pods), *pods.unplaced()])


def test_code_that_is_gone_refuses_a_gang_that_has_not_begun_and_an_absent_database_refuses_none() -> None:
    with pytest.raises(ValueError, match=f"unknown code {CODE.id}"):
        before_the_group(made(source=gone))
    assert before_the_group(made(source=gone, begun=True)) == ()
    with pytest.raises(Unavailable):
        before_the_group(made(source=away))


def test_render_shows_the_secret_without_its_contents() -> None:
    assert secret(made(source=None))["stringData"] == {"code.tar.gz": "(hidden)"}
