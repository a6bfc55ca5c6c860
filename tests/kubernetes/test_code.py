"""Code of a workflow on a real API server: a Secret and an init container, and what is too large for them."""

import base64
import io
import os
import tarfile
from pathlib import Path

from runrig.domain.code import sha256
from tests.kubernetes.runrigs import rig
from tests.kubernetes.world import World
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
        here.wait(id, "RUNNING")
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
