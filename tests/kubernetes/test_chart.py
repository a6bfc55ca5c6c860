"""The Helm chart, with real helm: every object is one that the API server takes, and the server runs as exactly that account."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from e2e import programs
from e2e.api import Object
from runrig.spec.serve import read_serve
from runrig.spec.serve_settings import KubernetesSpec
from tests.backends.kubernetes.test_rights import Grant, granted, needed
from tests.kubernetes.comparing import agree
from tests.kubernetes.faults import gang, submit
from tests.kubernetes.rights import log_in
from tests.kubernetes.runrigs import rig
from tests.kubernetes.world import World

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "runrig"
EVERYTHING = {
    "database": {"secretName": "database"},
    "tls": {"secretName": "tls"},
    "serviceMonitor": {"enabled": True},
    "sessions": True,
    "codeUrl": "http://runrig.test:8700",
    "grafanaBoard.enabled": True,
    "service.port": 9000,
}
USUAL = ["ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment", "NetworkPolicy", "PersistentVolumeClaim"]
USUAL += ["Role", "RoleBinding", "Service", "ServiceAccount"]


def helm(*arguments: str | Path, fails: bool = False) -> str:
    with TemporaryDirectory() as home:  # It caches the cluster's API there.
        done = subprocess.run(
            [programs.need("helm"), *arguments], capture_output=True, text=True, check=False, env={"HOME": home}
        )
    assert bool(done.returncode) is fails, done.stdout + done.stderr
    return done.stderr if fails else done.stdout


def rendered(world: World, values: Mapping[str, object]) -> str:
    where = ("--namespace", world.namespace, "--kube-version", "1.35")
    return helm("template", world.namespace, CHART, *where, "--set-json", *sets(values))


def sets(values: Mapping[str, object]) -> list[str]:
    return [",".join(f"{name}={json.dumps(value)}" for name, value in values.items()) or 'admin="admin"']


@pytest.mark.parametrize(
    ("values", "kinds"),
    [({}, USUAL), (EVERYTHING, sorted([*USUAL, "ConfigMap", "PodDisruptionBudget", "ServiceMonitor"]))],
    ids=["usual", "everything"],
)
def test_api_server_accepts_every_object_of_the_chart(
    world: World, values: Mapping[str, object], kinds: list[str]
) -> None:
    helm("lint", "--strict", CHART)
    text = rendered(world, values)
    objects = [each for each in yaml.safe_load_all(text) if each]
    expected = [kind for kind in kinds if not (values and kind == "PersistentVolumeClaim")]
    assert sorted(each["kind"] for each in objects) == expected
    (config,) = (each["data"]["serve.yaml"] for each in objects if "serve.yaml" in each.get("data", {}))
    url = {"code_url": values["codeUrl"]} if values else {}
    written = yaml.safe_load(config)
    assert ("localhost:9000" in written["hosts"]) is bool(values), (
        "a name of the server includes the port of its Service"
    )
    assert written["backend"] == {"type": "kubernetes", "namespace": world.namespace, **url}
    boards = {
        name: text for each in objects if "-grafana" in each["metadata"]["name"] for name, text in each["data"].items()
    }
    assert boards == ({path.name: path.read_text() for path in (CHART / "boards").iterdir()} if values else {})
    for each in objects:
        if each["kind"] != "ServiceMonitor":  # of an operator that is not installed
            world.api.create(each, dry_run=True)
    sessions = needed(inside=True, sessions=True) if values else set[Grant]()
    assert granted(text) == {"ClusterRole": needed(inside=False), "Role": needed(inside=True) | sessions}


def test_wrong_values_are_refused_with_the_way_out() -> None:
    template = ("template", "runrig", CHART, "--kube-version", "1.35")
    assert "SQLite allows only one server" in helm(*template, "--set", "replicas=2", fails=True)
    assert "additional properties 'replica' not allowed" in helm(*template, "--set", "replica=2", fails=True)


def test_helm_installation_works_and_leaves_only_what_the_docs_say(world: World, tmp_path: Path) -> None:
    where = ("--kubeconfig", world.plane.kubeconfig, "--namespace", world.namespace)
    kubeconfig = world.plane.kubeconfig
    told = helm("install", world.namespace, CHART, *where)
    name = f"{world.namespace}-runrig"
    assert f"kubectl logs deployment/{name} --namespace {world.namespace} --container first-admin" in told
    config = world.api.read(at(world, "v1", "ConfigMap", name))
    assert config is not None
    written = read_serve(config["data"]["serve.yaml"], tmp_path, {})
    assert (written.kubernetes, written.cluster) == (KubernetesSpec(world.namespace), None)
    log_in(world, tmp_path, name)
    cluster = "nodes: [{name: n0, resources: {gpu: 4}}]\npools: [{name: team, quota: 4}]\n"
    with rig(world, tmp_path, cluster) as here:
        id = submit(here, gang("w", 2))
        here.runs(id)
        helm(
            "upgrade",
            world.namespace,
            CHART,
            "--kubeconfig",
            kubeconfig,
            "--namespace",
            world.namespace,
            "--set",
            "sessions=true",
        )
        other = submit(here, gang("other", 2))
        here.runs(other)
        agree(here)
        helm("uninstall", world.namespace, "--kubeconfig", kubeconfig, "--namespace", world.namespace)
        assert {key.partition("/")[0] for key in here.pods()} == {id, other}
    assert gone(world, "apps/v1", "Deployment", name)
    assert gone(world, "v1", "ConfigMap", name)
    assert not gone(world, "v1", "PersistentVolumeClaim", name)
    assert not gone(world, "v1", "ConfigMap", "runrig-claim")


def at(world: World, version: str, kind: str, name: str) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": world.namespace}}


def gone(world: World, version: str, kind: str, name: str) -> bool:
    return world.api.read(at(world, version, kind, name)) is None
