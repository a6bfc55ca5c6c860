"""An account with the rights of the files in `deploy/kubernetes`, in a namespace of the tests."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from e2e.api import Object
from tests.kubernetes.world import World

_FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
USUAL = (_FOLDER / "rbac.yaml",)
SESSIONS = (*USUAL, _FOLDER / "rbac-sessions.yaml")
"""Also those to enter tasks."""


def objects(namespace: str, without: Collection[str] = (), *, files: Sequence[Path] = USUAL) -> Iterator[Object]:
    """Yields the objects of *files*, for *namespace*.  *without*: resources to which there is no right."""
    text = "\n---\n".join(file.read_text() for file in files)
    for each in yaml.safe_load_all(re.sub(r"\b(name|namespace): runrig\b", rf"\1: {namespace}", text)):
        if "rules" in each:
            each["rules"] = [rule for rule in each["rules"] if not {*rule["resources"]} & {*without}]
        yield each


def as_account(world: World, folder: Path, without: Collection[str] = (), *, files: Sequence[Path] = USUAL) -> None:
    """From now on who starts in *world* logs in as it."""
    for each in objects(world.namespace, without, files=files):
        if each["kind"] != "Namespace":  # which exists
            world.api.create(each)
    log_in(world, folder, world.namespace)


def log_in(world: World, folder: Path, account: str) -> None:
    """From now on who starts in *world* logs in as this service account."""
    place = folder / "kubeconfig"
    kubeconfig_of(world, account, place)
    world.plane = replace(world.plane, kubeconfig=place)


def kubeconfig_of(world: World, account: str, place: Path) -> None:
    """Writes one to *place* that logs in as this service account."""
    where = f"/api/v1/namespaces/{world.namespace}/serviceaccounts/{account}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = str(world.api.call("POST", where, request)["status"]["token"])
    kubeconfig = yaml.safe_load(world.plane.kubeconfig.read_text())
    kubeconfig["users"][0]["user"] = {"token": token}
    place.write_text(yaml.safe_dump(kubeconfig))
