"""`runrig doctor` on a real API server: what is missing is named, with the command that mends it."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.api import Object, path_of
from runrig.backends.kubernetes.cluster import connect
from runrig.backends.kubernetes.doctor import _ready, missing_rights
from runrig.backends.kubernetes.rights import RIGHTS, Right
from tests.kubernetes.comparing import agree
from tests.kubernetes.faults import gang, submit
from tests.kubernetes.rights import SESSIONS, as_account, objects
from tests.kubernetes.runrigs import rig
from tests.kubernetes.test_claim import MERGE
from tests.kubernetes.world import World, bare_pod
from tests.worlds.command_line import runrig

NODES = """
nodes:
  - {name: n0, resources: {gpu: 8}, labels: {rack: a, kind: fast}}
  - {name: n1, resources: {gpu: 8}, labels: {kind: fast}}
  - {name: n2, resources: {cpu: 4}}
"""
USES = """
flavors: [{name: slow, node_labels: {kind: slow, age: old}}]
pools: [{name: team, quota: 8, topology_keys: [{key: zone, label: zone}, {key: rack, label: rack}, {key: kind, label: kind}]}]
"""
GOOD = (
    "--default-staleness-grace-period=-1s",
    "--update-pod-eviction-condition=true",
    "--scheduler-name=kai-scheduler",
)


@pytest.fixture
def account(world: World, tmp_path: Path) -> World:
    """A world whose kubeconfig is that of the account."""
    as_account(world, tmp_path, files=SESSIONS)
    return world


def examined(world: World, *options: str) -> tuple[int, list[Mapping[str, Any]]]:
    where = ("--kubeconfig", str(world.plane.kubeconfig), "--namespace", world.namespace)
    done = runrig("doctor", *where, *options, "-t", "json")
    assert done.err == "", done.err
    said = json.loads(done.out)
    assert said["ok"] is (done.code == 0)
    return done.code, said["checks"]


def kai(world: World, version: str, *args: str) -> None:
    """A pod as KAI's operator makes it, on node n0."""
    made = world.api.create(kai_pod(world, "kai", version, *args, node="n0"))
    world.plane.until(lambda: _ready(world.api.read(made) or {}), "KAI's pod is ready")


def kai_pod(world: World, name: str, version: str, *args: str, node: str = "") -> Object:
    pod = bare_pod(world.namespace, name, gpus=0, node=node)
    pod["spec"]["containers"] = [
        {"name": "scheduler", "image": f"ghcr.io/kai-scheduler/kai-scheduler/scheduler:{version}", "args": [*args]}
    ]
    return pod | {"spec": pod["spec"] | {"schedulerName": "nobody"}}


def test_complete_cluster_has_no_findings(account: World, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(NODES)
    account.nodes(file)
    kai(account, "v0.17.0", *GOOD)
    code, checks = examined(account)
    assert (code, {each["verdict"] for each in checks}) == (0, {"ok"}), checks
    assert [each["check"] for each in checks] == [
        *("api-server", "clock", "kinds", "rights", "kai"),
        *["kai-flags"] * 3,
        "gpus",
    ]
    assert f"system:serviceaccount:{account.namespace}:{account.namespace}" in checks[0]["message"]


def test_missing_parts_of_a_cluster_are_named_with_the_command_that_fixes_them(account: World, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    account.create([kai_pod(account, "other", "v0.17.0", "--scheduler-name=other", *GOOD[:2])])
    _, checks = examined(account)
    assert found(checks, "problem") == {"kai": ("helm upgrade",), "gpus": ("helm upgrade",)}
    file.write_text(NODES)
    account.nodes(file)
    account.create([kai_pod(account, "waits", "v0.17.0", *GOOD)])
    _, checks = examined(account)
    assert found(checks, "problem") == {"kai": ("kubectl describe",)}
    kai(account, "v0.12.9", "--full-hierarchy-fairness=false")
    file.write_text(USES)
    code, checks = examined(account, "--cluster", str(file))
    check_serve_says_the_same(account, tmp_path, checks)
    assert (code, found(checks, "problem"), found(checks, "optional")) == (
        1,
        {
            "kai": ("helm upgrade",),
            "kai-flags": ("kubectl patch", "kubectl patch"),
            "labels": ("kubectl label node n0 zone=VALUE", "kubectl label node NODE age=old kind=slow"),
        },
        {"kai-flags": ("kubectl patch",), "labels": ("kubectl label node n1 rack=VALUE",)},
    )


def check_serve_says_the_same(world: World, folder: Path, checks: list[Mapping[str, Any]]) -> None:
    backend = {"type": "kubernetes", "kubeconfig": str(world.plane.kubeconfig), "namespace": world.namespace}
    file = folder / "serve.yaml"
    file.write_text(json.dumps({"data": "data", "cluster": "cluster.yaml", "backend": backend}))
    done = runrig("serve", "--config", str(file), "--check")
    assert (done.code, done.out) == (1, f"{file} is valid\n")
    missing = [each for each in checks if each["verdict"] != "ok"]
    assert done.err.split() == " ".join(f"{m['verdict']} {m['message']} {m['command']}" for m in missing).split()


def found(checks: list[Mapping[str, Any]], verdict: str) -> dict[str, tuple[str, ...]]:
    """Check → commands of its findings with this verdict; of helm and patches only the beginning."""
    all_of_them: dict[str, tuple[str, ...]] = {}
    for each in checks:
        if each["verdict"] == verdict:
            command = each["command"]
            whole = command if command.startswith("kubectl label") else " ".join(command.split()[:2])
            all_of_them[each["check"]] = (*all_of_them.get(each["check"], ()), whole)
    return all_of_them


# ---------------------------------------------------------------- rights


def test_each_revoked_permission_is_reported_by_name_and_no_other(account: World, tmp_path: Path) -> None:
    """By doctor and by serve --check."""
    cluster = connect(account.plane.kubeconfig)
    roles = [each for each in objects(account.namespace, files=SESSIONS) if "rules" in each]
    (tmp_path / "cluster.yaml").write_text("pools: [{name: team, quota: 8}]\n")
    try:
        assert missing_rights(cluster, account.namespace) == {}
        for taken in rounds():
            for role in roles:
                rules = [*left(role["rules"], taken)]
                account.api.call("PATCH", path_of(role), {"rules": rules}, kind=MERGE)
            account.plane.until(
                lambda taken=taken: missing_rights(cluster, account.namespace) == taken,  # type: ignore[misc]
                f"exactly these are missing: {taken}",
            )
            _, checks = examined(account)
            assert named(checks) == {missing(account, right, verbs) for right, verbs in taken.items()}
            check_serve_says_the_same(account, tmp_path, checks)
    finally:
        cluster.close()


def rounds() -> Iterator[dict[Right, tuple[str, ...]]]:
    """Takes each verb of each right away once, many in a round, in the order of `RIGHTS`."""
    for number in range(max(len(right.verbs) for right in RIGHTS)):
        yield {right: (right.verbs[number],) for right in RIGHTS if number < len(right.verbs)}


def named(checks: list[Mapping[str, Any]]) -> set[str]:
    """Each finding about rights, without what it means."""
    return {each["message"].partition(":")[0] for each in checks if each["check"] == "rights"}


def missing(world: World, right: Right, verbs: tuple[str, ...]) -> str:
    where = f"in namespace {world.namespace}" if right.inside else "in the whole cluster"
    listed = re.sub(", ([a-z]+)$", r" or \1", ", ".join(verbs))
    return f"The account cannot {listed} {right.name} {where}"


def left(rules: Collection[Mapping[str, Any]], taken: Mapping[Right, tuple[str, ...]]) -> Iterator[Object]:
    gone = {(right.group, right.resource, verb) for right, verbs in taken.items() for verb in verbs}
    for rule in rules:
        ((group,), (resource,)) = rule["apiGroups"], rule["resources"]
        verbs = [verb for verb in rule["verbs"] if (group, resource, verb) not in gone]
        if verbs:
            yield {**rule, "verbs": verbs}


UNUSED_BY_PLAIN_WORK = {
    "namespaces": ("create",),
    "queues": ("get", "delete"),
    "topologies": ("get", "create", "patch", "delete"),
    "pods/log": ("get",),
    "events": ("list", "watch"),
    "tokenreviews": ("create",),
}
"""Rights without which a workflow of a pool without topology still starts, runs and ends."""


def test_everything_else_works_without_the_missing_permissions(world: World, tmp_path: Path) -> None:
    as_account(world, tmp_path)
    gone = {right: UNUSED_BY_PLAIN_WORK[right.resource] for right in RIGHTS if right.resource in UNUSED_BY_PLAIN_WORK}
    for role in objects(world.namespace):
        if "rules" in role:
            world.api.call("PATCH", path_of(role), {"rules": [*left(role["rules"], gone)]}, kind=MERGE)
    cluster = "nodes: [{name: n0, resources: {gpu: 4}}]\npools: [{name: team, quota: 4}]\n"
    with rig(world, tmp_path, cluster) as here:
        id = submit(here, gang("w", 2))
        here.runs(id)
        here.finish(id)
        here.until(lambda: not here.pods(), "its pods are gone")
        agree(here)
        _, checks = examined(world)
        sessions = {right: right.verbs for right in RIGHTS if right.sessions}
        assert named(checks) == {missing(world, right, verbs) for right, verbs in (gone | sessions).items()}
