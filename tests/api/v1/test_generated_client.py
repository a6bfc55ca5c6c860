"""A client that a generator of the ecosystem makes from our document works against a real server."""

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.api.document import document
from tests.worlds.command_line import up

pytestmark = pytest.mark.slow

CLUSTER = """
backend: {type: simulated}
nodes:
- {name: "n{0..1}", resources: {gpu: 8}}
pools:
- {name: team, quota: 8}
"""
FILE = """
workflow:
  name: train
  tasks:
  - {name: main, image: any, command: [train], duration: 600, resource: one}
  resources:
    one: {gpu: 8}
"""
Generated = Callable[[str], ModuleType]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generated]:
    """Imports a module of the package that is made of our half of the document."""
    folder = tmp_path_factory.mktemp("generated")
    ours = {path: each for path, each in document()["paths"].items() if path.startswith("/api/v1/")}
    (folder / "openapi.json").write_text(json.dumps({**document(), "paths": ours}))
    (folder / "config.yaml").write_text(
        "post_hooks: []\ncontent_type_overrides: {application/gzip: application/octet-stream}\n"
    )
    command = "generate --path openapi.json --output-path ours --meta none --config config.yaml --fail-on-warning"
    said = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", *command.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout + said.stderr
    sys.path.insert(0, str(folder))
    try:
        yield lambda name: importlib.import_module(f"ours.{name}")
    finally:
        sys.path.remove(str(folder))
        for name in [each for each in sys.modules if each.partition(".")[0] == "ours"]:
            del sys.modules[name]


def test_client_submits_lists_and_cancels(generated: Generated, tmp_path: Path) -> None:
    models = generated("models")

    def call(group: str, name: str, **arguments: Any) -> Any:
        answer = generated(f"api.{group}.{name}").sync(client=client, **arguments)
        assert type(answer).__name__ != "ProblemDetails", answer
        return answer

    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(CLUSTER)
    with up(tmp_path / "data", "--cluster", str(cluster), "--backend", "simulated") as server:
        address = server.said.split(" is up at ")[1].split(" ")[0]
        token = (tmp_path / "data" / "token").read_text().strip()
        with generated("client").AuthenticatedClient(base_url=address, token=token) as client:
            made = [
                call("workflows", "submit_workflow", body=models.WorkflowSubmit(file=FILE, pool="team"))
                for _ in range(2)
            ]
            assert [each.id for each in made] == ["train-1", "train-2"]
            page = call("workflows", "list_workflows", pool=["team"])
            assert [(each.id, each.pool) for each in page.items] == [("train-2", "team"), ("train-1", "team")]
            call("workflows", "cancel_workflow", id="train-2", body=models.WorkflowCancel())
            call("workflows", "wait_for_workflow", id="train-2", timeout=30)
            assert call("workflows", "get_workflow", id="train-2").status == "FAILED_CANCELED"
            pools = call("pools", "list_pools")
            assert [each.name for each in pools.items] == ["team"]
            unknown = generated("api.workflows.get_workflow").sync(client=client, id="train-9")
            assert (type(unknown).__name__, unknown.status) == ("ProblemDetails", 404)
