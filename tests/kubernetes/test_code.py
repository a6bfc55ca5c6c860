"""Code of a workflow on a real API server: a Secret and an init container, and what is too large for them."""

import base64
import io
import os
import subprocess
import tarfile
from pathlib import Path

import httpx2

from e2e.api import Object
from runrig.domain.code import sha256
from tests.kubernetes.rights import as_account
from tests.kubernetes.runrigs import Rig, key_of, lives, rig
from tests.kubernetes.world import World
from tests.patience import PATIENCE_S
from tests.worlds.code import manifest, packed

CLUSTER = "nodes: [{name: 'n{0..1}', resources: {gpu: 2, storage: 100Gi}}]\npools: [{name: pool, quota: 4}]\n"
WORKFLOW = """
workflow:
  name: train
  code: {id}
  tasks:
  - {{name: main, image: 'any:1', command: [sh, run.sh], count: 2}}
"""
FILES = {"run.sh": b"cat lib/words\n", "lib/words": b"hello\n"}


def test_pods_get_the_code_of_their_gang_and_too_much_is_refused_at_submission(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        code = manifest(FILES)
        noise = os.urandom(800_000)
        large = manifest({"noise": noise})
        assert here._http is not None
        for each, contents in ((code, [*FILES.values()]), (large, [noise])):
            answer = here._http.post("/api/v1/code", content=packed(each, contents))
            assert answer.json() == {"id": each.id, "missing": []}, answer.text
        (tmp_path / "large.yaml").write_text(WORKFLOW.format(id=large.id))
        refused = here.cli("submit", str(tmp_path / "large.yaml"), "--pool", "pool")
        assert refused.code == 2
        assert "which can pass at most 700 KiB of compressed code to a task" in refused.err
        (tmp_path / "small.yaml").write_text(WORKFLOW.format(id=code.id))
        id = here.submit(tmp_path / "small.yaml", "pool")
        here.runs(id)
        pods = here.pods(id)
        assert len(pods) == 2
        for pod in pods.values():
            (unpacks,) = pod["spec"]["initContainers"]
            assert (unpacks["name"], unpacks["image"]) == ("runrig-code", "any:1")
            assert pod["spec"]["containers"][0]["workingDir"] == "/runrig/code"
            (volume,) = (each["secret"] for each in pod["spec"]["volumes"] if each["name"] == "code-archive")
        metadata = {"name": volume["secretName"], "namespace": world.namespace}
        secret = world.api.read({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        assert secret is not None
        data = io.BytesIO(base64.b64decode(secret["data"]["code.tar.gz"]))
        with tarfile.open(fileobj=data, mode="r:gz") as tar:
            found = {each.name: sha256(file.read()) for each in tar if (file := tar.extractfile(each)) is not None}
        assert found == {file.path: file.sha256 for file in code.files}


def test_run_without_code_creates_a_pod_without_code_objects(world: World, tmp_path: Path) -> None:
    with rig(world, tmp_path, CLUSTER) as here:
        words = ("--code", "none", "--gpus", "2", "--pool", "pool", "--", "sh", "-c", "echo $HOME")
        refused = here.cli("run", "-d", *words)
        assert (refused.code, refused.out) == (2, ""), "an image is needed here"
        assert "--image" in refused.err
        id = here.say("run", "-d", "--image", "any:1", *words).strip()
        here.wait(id, "RUNNING")
        (pod,) = here.pods(id).values()
        spec, (container,) = pod["spec"], pod["spec"]["containers"]
        assert (container["image"], container["command"]) == ("any:1", ["sh", "-c", "echo $HOME"])
        assert container["resources"]["limits"] == {"nvidia.com/gpu": "2"}
        assert "initContainers" not in spec
        assert "workingDir" not in container
        assert [each["name"] for each in spec["volumes"]] == ["output", "launcher"]


URL = "http://runrig.test:8700"
CONTAINERS = "RUNRIG_E2E_CONTAINER"
"""A command that runs the rest of its line in a container with the network of this machine, such as `podman run --rm --network host
VOLUMES IMAGE`. Without it, the init container is a process of this machine."""


def test_pods_fetch_code_of_any_size_with_a_token_that_reads_only_their_code(world: World, tmp_path: Path) -> None:
    as_account(world, tmp_path)
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": world.namespace},
    }
    world.api.create(account)
    with rig(world, tmp_path, CLUSTER, of_backend={"code_url": URL}) as here:
        noise = os.urandom(3_000_000)
        codes = {"large": {**FILES, "noise": noise}, "other": {"run.sh": b"exit 0\n"}}
        pods: dict[str, Object] = {}
        assert here._http is not None
        for name, files in codes.items():
            code = manifest(files)
            answer = here._http.post("/api/v1/code", content=packed(code, [files[path] for path in sorted(files)]))
            assert answer.json() == {"id": code.id, "missing": []}, answer.text
            file = tmp_path / f"{name}.yaml"
            file.write_text(WORKFLOW.format(id=code.id).replace("count: 2", "count: 1"))
            id = here.submit(file, "pool")
            here.wait(id, "RUNNING")
            (pods[name],) = here.pods(id).values()
        assert world.api.listed("v1", "Secret", world.namespace) == []
        for name, files in codes.items():
            unpacked = _unpacked(here, pods[name], tmp_path / name)
            assert {path.name for path in unpacked.iterdir()} == {path.partition("/")[0] for path in files}
            assert {path: (unpacked / path).read_bytes() for path in files} == files
        wide = _token(here, pods["large"], audience="https://kubernetes.default.svc")
        mine = _token(here, pods["large"])
        assert [_status(here, each) for each in (mine, wide, here.token, mine[:-8], "x")] == [200, 401, 401, 401, 401]
        assert [_status(here, mine, path) for path in ("/api/v1/pools", "/api/v1/workflows")] == [401, 401]
        here.restart()
        assert _status(here, mine) == 200, "a server that takes over knows it too"
        key = next(
            key for key, pod in here.pods().items() if pod["metadata"]["uid"] == pods["large"]["metadata"]["uid"]
        )
        here.ends(key)
        here.until(lambda: not any(lives(pod) for pod in here.pods().values() if key_of(pod) == key), "the pod is gone")
        here.until(lambda: _status(here, mine) == 401, "its token ends with it")


def _token(here: Rig, pod: Object, audience: str = "runrig-code") -> str:
    """As a kubelet gets it for the pod."""
    account = f"/api/v1/namespaces/{here.world.namespace}/serviceaccounts/{pod['spec']['serviceAccountName']}/token"
    meta = pod["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    spec = {"audiences": [audience], "expirationSeconds": 600, "boundObjectRef": bound}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return str(here.world.api.call("POST", account, request)["status"]["token"])


def _status(here: Rig, token: str, path: str = "/api/v1/pod-code") -> int:
    assert here.server is not None
    bearer = {"Authorization": f"Bearer {token}"}
    return httpx2.get(f"{here.server.url}{path}", headers=bearer, timeout=PATIENCE_S).status_code


def _unpacked(here: Rig, pod: Object, folder: Path) -> Path:
    """Does what the init container would, in *folder* instead of /runrig."""
    assert here.server is not None
    for name in ("code", "code-archive", "code-token"):
        (folder / name).mkdir(parents=True)
    (folder / "code-token" / "token").write_text(_token(here, pod))
    (container,) = pod["spec"]["initContainers"]
    places = {each["mountPath"]: folder / Path(each["mountPath"]).name for each in container["volumeMounts"]}
    command = [word.replace(URL, here.server.url) for word in container["command"]]
    if runtime := os.environ.get(CONTAINERS):
        volumes = [f"--volume={place}:{path}" for path, place in places.items()]
        command = [part for word in runtime.split() for part in (volumes if word == "VOLUMES" else [word])] + command
    else:
        command = [word.replace("/runrig/", f"{folder}/") for word in command]
    subprocess.run(command, check=True, timeout=PATIENCE_S)
    return folder / "code"
