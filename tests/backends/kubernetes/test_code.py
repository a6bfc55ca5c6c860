"""The code of a gang as objects of Kubernetes: a Secret, and an init container that unpacks it."""

import base64
import http.server
import io
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runrig.backends.kubernetes.objects import before_the_group, gang_objects
from runrig.backends.kubernetes.pods import GangPods
from runrig.domain.code import sha256
from runrig.domain.code_archive import archive
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
            "terminationMessagePolicy": "FallbackToLogsOnError",
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


def test_gang_without_code_has_no_code_objects() -> None:
    pods = GangPods(gang(task()), replace(settings(), code_of=gone))
    assert "code" not in repr([*gang_objects(pods), *pods.unplaced()])


def test_missing_code_refuses_gangs_that_have_not_begun_but_a_missing_database_refuses_none() -> None:
    with pytest.raises(ValueError, match=f"unknown code {CODE.id}"):
        before_the_group(made(source=gone))
    assert before_the_group(made(source=gone, begun=True)) == ()
    with pytest.raises(Unavailable):
        before_the_group(made(source=away))


def test_render_shows_the_secret_without_its_contents() -> None:
    assert secret(made(source=None))["stringData"] == {"code.tar.gz": "(hidden)"}


URL = "http://runrig:8700"
PROGRAMS = {"python3": os.path.realpath(sys.executable)}


def fetching(*tasks: TaskSpec) -> GangPods:
    return GangPods(gang(*tasks, code=CODE.id), replace(settings(), code_of=gone, code_url=URL))


def test_with_a_server_url_pods_fetch_code_with_a_token_of_the_init_container() -> None:
    pods = fetching(task("t"))
    assert [each["kind"] for each in gang_objects(pods)] == ["PodGroup"], "no Secret has it"
    (pod,) = pods.unplaced()
    spec = pod["spec"]
    (fetches,) = spec["initContainers"]
    assert (fetches["command"][:2], fetches["command"][3:]) == (["sh", "-c"], ["runrig-code", f"{URL}/api/v1/pod-code"])
    token = {"serviceAccountToken": {"path": "token", "audience": "runrig-code", "expirationSeconds": 600}}
    assert {"name": "code-token", "projected": {"defaultMode": 0o444, "sources": [token]}} in spec["volumes"]
    assert "code-token" in {each["name"] for each in fetches["volumeMounts"]}
    assert "code-token" not in {each["name"] for each in spec["containers"][0]["volumeMounts"]}
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("default", False)


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["curl", "wget", "python3"])
def test_init_container_fetches_with_the_programs_of_its_image(tool: str, tmp_path: Path) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not here")
    archived = b"".join(archive(CODE, {sha256(data): data for data in FILES.values()}.__getitem__))
    asked: list[str | None] = []

    class Serves(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["authorization"])
            if len(asked) == 1:  # The server restarts.
                self.send_error(503)
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(archived)

    programs = tmp_path / "bin"
    programs.mkdir()
    scripts = {
        name: f'exec {PROGRAMS.get(name) or shutil.which(name)} "$@"'
        for name in ("sh", "tar", "gzip", "cat", "rm", tool)
    }
    for name, script in (scripts | {"sleep": ""}).items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    with http.server.HTTPServer(("127.0.0.1", 0), Serves) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = unpack(fetching(task("t")), tmp_path, f"http://127.0.0.1:{server.server_port}", "t0ken", programs)
        server.shutdown()
    assert (done.returncode, asked) == (0, ["Bearer t0ken"] * 2), done.stderr
    assert {path: (tmp_path / "code" / path).read_bytes() for path in FILES} == FILES
    assert os.readlink(tmp_path / "code" / "latest") == "lib"
    assert list((tmp_path / "code-archive").iterdir()) == []


@pytest.mark.slow
def test_image_that_cannot_fetch_reports_what_it_lacks(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sh").symlink_to(str(shutil.which("sh")))
    done = unpack(fetching(task("t")), tmp_path, "http://127.0.0.1:1", "t0ken", programs)
    words = "the image has no curl, wget or python3, and needs one of them to fetch the code\n"
    assert (done.returncode, done.stderr) == (1, words)


def unpack(pods: GangPods, folder: Path, url: str, token: str, programs: Path) -> "subprocess.CompletedProcess[str]":
    """Runs the init container in *folder* instead of /runrig."""
    (pod,) = pods.unplaced()
    for name in ("code", "code-archive", "code-token"):
        (folder / name).mkdir()
    (folder / "code-token" / "token").write_text(token)
    command = [
        word.replace("/runrig/", f"{folder}/").replace(URL, url) for word in pod["spec"]["initContainers"][0]["command"]
    ]
    return subprocess.run(
        [str(programs / command[0]), *command[1:]],
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        timeout=60,
    )
