"""The API server behind few verbs: what they do, and what is said when it says no, not now, or nothing."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from e2e.api import Object, until
from e2e.harness import ControlPlane
from runrig.backends.kubernetes import cluster as kubernetes
from runrig.backends.kubernetes import kinds
from runrig.backends.kubernetes.answers import ApiRefusal
from runrig.backends.kubernetes.cluster import Cluster, Timeouts, connect
from runrig.domain.errors import InvalidInput, ServerFault, Unavailable
from tests.kubernetes.wire import doorkeeper, kubeconfig
from tests.kubernetes.world import EXAMPLES, World, bare_pod
from tests.patience import PATIENCE_S

LABELS = {"app.kubernetes.io/managed-by": "runrig"}


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[Cluster]:
    with connected(plane.kubeconfig) as made:
        yield made


@contextmanager
def connected(place: Path, **seconds: float) -> Iterator[Cluster]:
    made = connect(place, timeouts=Timeouts(**seconds))
    try:
        yield made
    finally:
        made.close()


def secret(world: World, name: str, **data: str) -> Object:
    metadata = {"name": name, "namespace": world.namespace, "labels": LABELS}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


# ---------------------------------------------------------------- verbs


def test_cluster_reports_its_version_and_no_missing_kinds(cluster: Cluster, plane: ControlPlane) -> None:
    assert cluster.version() == plane.api.call("GET", "/version")["gitVersion"]
    assert cluster.kinds_missing() == ()


def test_kinds_that_are_not_served_are_named(plane: ControlPlane, tmp_path: Path) -> None:
    with (
        doorkeeper(404, {}, b"404 page not found") as url,
        connected(kubeconfig(plane, tmp_path / "k", url=url)) as bare,
    ):
        assert bare.kinds_missing() == (
            "Queue scheduling.run.ai/v2",
            "PodGroup scheduling.run.ai/v2alpha2",
            "Topology kai.scheduler/v1alpha1",
        )


def test_apply_creates_and_changes_and_is_idempotent(cluster: Cluster, world: World) -> None:
    made = cluster.apply(secret(world, "s", a="MQ=="))
    again = cluster.apply(secret(world, "s", a="MQ=="))
    other = cluster.apply(secret(world, "s", b="Mg=="))
    assert (made["data"], other["data"]) == ({"a": "MQ=="}, {"b": "Mg=="})
    assert made["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]
    assert cluster.get(secret(world, "s")) == other
    assert "managedFields" not in other["metadata"]


def test_apply_takes_a_field_from_another_writer(cluster: Cluster, world: World) -> None:
    cluster.apply(secret(world, "s", a="MQ=="))
    world.api.apply(secret(world, "s", a="MQ==", b="Mg=="))
    cluster.patch(secret(world, "s"), {"data": {"a": "Mw=="}})
    assert cluster.apply(secret(world, "s", a="MQ=="))["data"] == {"a": "MQ==", "b": "Mg=="}


def test_unknown_field_is_refused(cluster: Cluster, world: World) -> None:
    with pytest.raises(ApiRefusal, match=r"datum") as refused:
        cluster.apply(secret(world, "s") | {"datum": {}})
    assert refused.value.status == 400


def test_many_writers_of_one_object_all_succeed(cluster: Cluster, world: World) -> None:
    cluster.apply(secret(world, "s"))
    failed: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for turn in range(10):
                cluster.patch(secret(world, "s"), {"metadata": {"annotations": {f"w{number}": str(turn)}}})
        except Exception as error:  # noqa: BLE001  told by the test
            failed.append(error)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert [str(each) for each in failed] == []
    found = cluster.get(secret(world, "s"))
    assert found is not None
    assert found["metadata"]["annotations"] == {f"w{number}": "9" for number in range(6)}


def test_write_based_on_an_older_state_is_a_conflict(cluster: Cluster, world: World) -> None:
    old = cluster.apply(secret(world, "s"))
    cluster.patch(old, {"data": {"a": "MQ=="}})
    with pytest.raises(ApiRefusal) as refused:
        cluster.patch(old, {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"a": None}})
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")


def test_create_is_idempotent(cluster: Cluster, world: World) -> None:
    made = cluster.create(secret(world, "s", a="MQ=="))
    assert made is not None
    assert cluster.create(secret(world, "s", b="Mg==")) is None
    assert cluster.get(made) == made


def test_list_is_complete_across_pages_and_contains_whole_objects(
    cluster: Cluster, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes, "_PAGE", 3)
    made = [cluster.apply(secret(world, f"s{number}")) for number in range(8)]
    world.api.create(secret(world, "theirs") | {"metadata": {"name": "theirs", "namespace": world.namespace}})
    found = cluster.list(kinds.SECRET, namespace=world.namespace, labels=LABELS)
    assert list(found.objects) == made
    named = cluster.list(kinds.SECRET, namespace=world.namespace, fields={"metadata.name": "s4"})
    assert named.objects == (made[4],)
    assert int(found.resource_version) >= int(made[-1]["metadata"]["resourceVersion"])


def test_list_without_a_namespace_covers_all_namespaces(cluster: Cluster, world: World) -> None:
    cluster.apply(secret(world, "everywhere"))
    found = cluster.list(kinds.SECRET, fields={"metadata.name": "everywhere"})
    assert [each["metadata"]["namespace"] for each in found.objects] == [world.namespace]


def test_delete_is_idempotent_and_spares_a_new_object_of_that_name(cluster: Cluster, world: World) -> None:
    first = cluster.apply(secret(world, "s"))
    cluster.delete(first, uid=first["metadata"]["uid"])
    assert cluster.get(first) is None
    cluster.delete(first)
    second = cluster.apply(secret(world, "s"))
    cluster.delete(second, uid=first["metadata"]["uid"])
    assert cluster.get(second) == second


def test_pod_with_a_finalizer_stays_until_it_is_released_even_by_a_stale_reader(cluster: Cluster, world: World) -> None:
    pod = bare_pod(world.namespace, "p")
    pod["metadata"]["finalizers"] = ["runrig/kept"]
    made = cluster.apply(pod)
    cluster.patch(made, {"metadata": {"finalizers": ["e2e.runrig/first", "runrig/kept"]}})
    cluster.delete(made, grace_s=0)
    cluster.release(made, "runrig/kept")
    left = cluster.get(made)
    assert left is not None
    assert left["metadata"]["finalizers"] == ["e2e.runrig/first"]
    cluster.release(left, "e2e.runrig/first")
    assert cluster.get(made) is None
    cluster.release(made, "runrig/kept")
    again = cluster.apply(pod)
    cluster.release(made, "runrig/kept")
    left = cluster.get(again)
    assert left is not None
    assert (left["metadata"]["uid"], left["metadata"]["finalizers"]) == (again["metadata"]["uid"], ["runrig/kept"])
    cluster.release(again, "runrig/kept")


def test_name_cannot_be_a_path(cluster: Cluster, world: World) -> None:
    cluster.apply(secret(world, "s"))
    assert cluster.get(secret(world, "../secrets/s")) is None
    assert cluster.get(secret(world, "s?x=")) is None


# ---------------------------------------------------------------- streams


def test_watch_reports_changes_and_signs_of_life(cluster: Cluster, world: World) -> None:
    since = cluster.list(kinds.SECRET, namespace=world.namespace).resource_version
    signs = "\x85\u2028\u2029\x1c 'ä'"
    made = cluster.apply(
        secret(world, "s") | {"metadata": secret(world, "s")["metadata"] | {"annotations": {"a": signs}}}
    )
    cluster.delete(made)
    with cluster.watch(kinds.SECRET, namespace=world.namespace, labels=LABELS, resource_version=since) as stream:
        events = (event for batch in stream for event in batch)
        seen = [next(events), next(events)]
    assert [kind for kind, _ in seen] == ["ADDED", "DELETED"]
    assert seen[0][1] == made


def test_silent_watch_ends_when_another_thread_closes_it(cluster: Cluster, world: World) -> None:
    since = cluster.list(kinds.SECRET, namespace=world.namespace).resource_version
    stream = cluster.watch(kinds.SECRET, namespace=world.namespace, resource_version=since)
    reader = threading.Thread(target=lambda: list(stream))
    reader.start()
    stream.close()
    reader.join(PATIENCE_S)
    assert not reader.is_alive()
    assert list(stream) == []


def test_watch_ends_by_itself(plane: ControlPlane, world: World) -> None:
    with connected(plane.kubeconfig, watch=1) as cluster:
        since = cluster.list(kinds.SECRET, namespace=world.namespace).resource_version
        with cluster.watch(kinds.SECRET, namespace=world.namespace, resource_version=since) as stream:
            assert [event for batch in stream for event in batch if event[0] != "BOOKMARK"] == []


def test_log_of_a_container_is_returned_unchanged(cluster: Cluster, world: World) -> None:
    world.nodes(EXAMPLES / "01-cluster.yaml")
    world.create([bare_pod(world.namespace, "p", node="node1")])
    world.all_run()
    world.plane.pod_log.write_text("".join(f"2026-01-01T00:00:0{n}.000000000Z stdout F line {n}\n" for n in range(4)))
    with cluster.log(world.namespace, "p", "main") as whole:
        assert b"".join(whole) == b"line 0\nline 1\nline 2\nline 3\n"
    with pytest.raises(ApiRefusal) as refused:
        cluster.log(world.namespace, "p", "other")
    assert refused.value.status == 400
    with pytest.raises(ApiRefusal) as refused:
        cluster.log(world.namespace, "q", "main")
    assert refused.value.status == 404


# ---------------------------------------------------------------- refusals, failures and silence


def test_wrong_token_is_reported_and_not_shown(plane: ControlPlane, tmp_path: Path) -> None:
    with (
        connected(kubeconfig(plane, tmp_path / "k", token="stolen")) as stranger,
        pytest.raises(
            Unavailable, match=r"^the API server rejected the login \(Unauthorized\): .* Log in .*again$"
        ) as told,
    ):
        stranger.version()
    assert "stolen" not in told.value.message


def test_token_that_is_not_a_valid_header_is_reported_and_not_shown(plane: ControlPlane, tmp_path: Path) -> None:
    with connected(kubeconfig(plane, tmp_path / "k", token="stol\nen")) as broken, pytest.raises(ServerFault) as told:
        broken.version()
    assert told.value.message == f"the login for {plane.url} contains characters that are not allowed in a header"


def test_user_without_permission_is_refused_with_the_servers_message(
    plane: ControlPlane, world: World, tmp_path: Path
) -> None:
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "nobody", "namespace": world.namespace},
    }
    world.api.create(account)
    where = f"/api/v1/namespaces/{world.namespace}/serviceaccounts/nobody/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = world.api.call("POST", where, asked)["status"]["token"]
    with connected(kubeconfig(plane, tmp_path / "k", token=token)) as nobody:
        assert nobody.version().startswith("v1.")
        with pytest.raises(ApiRefusal) as refused:
            nobody.list(kinds.NODE)
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
    assert refused.value.message.startswith(
        f'nodes is forbidden: User "system:serviceaccount:{world.namespace}:nobody" cannot list resource "nodes"'
    )


@pytest.mark.parametrize(
    ("status", "headers", "body", "message", "details"),
    [
        pytest.param(429, {"Retry-After": "7"}, b"Too many requests, please try again later.\n",
            "the API server is temporarily unavailable (429): Too many requests, please try again later.",
            {"retry_after_s": 7.0}, id="429"),
        pytest.param(503, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, b"<html>\n<b>no</b>",
            "the API server is temporarily unavailable (503): <html> <b>no</b>", {}, id="a date"),
        pytest.param(500, {}, b'{"kind": "Status", "reason": "InternalError", "message": "no leader"}',
            "the API server is temporarily unavailable (500): no leader", {}, id="500"),
        pytest.param(502, {}, b"", "the API server is temporarily unavailable (502): no reason given", {}, id="nothing"),
        pytest.param(200, {}, b"<html>hello</html>",
            "the API server returned invalid JSON: b'<html>hello</html>'", {}, id="not JSON"),
    ],
)  # fmt: skip
def test_transient_errors_are_unavailable(
    plane: ControlPlane,
    tmp_path: Path,
    status: int,
    headers: dict[str, str],
    body: bytes,
    message: str,
    details: object,
) -> None:
    with (
        doorkeeper(status, headers, body) as url,
        connected(kubeconfig(plane, tmp_path / "k", url=url)) as cluster,
        pytest.raises(Unavailable) as told,
    ):
        cluster.version()
    assert (told.value.message, told.value.details) == (message, details)


def test_hanging_or_missing_server_is_unavailable(plane: ControlPlane, world: World) -> None:
    server = plane.processes["kube-apiserver"]
    with connected(plane.kubeconfig, connect=1, read=0.5) as cluster:
        os.kill(server.pid, signal.SIGSTOP)
        try:
            with pytest.raises(
                Unavailable, match=r"^the API server https://127\.0\.0\.1:\d+ does not respond: \w+ timed out$"
            ):
                cluster.list(kinds.POD)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        until(lambda: cluster.version(), "it goes on")
        server.kill()
        with pytest.raises(Unavailable, match=r"does not respond: .*Connection refused"):
            cluster.version()
        server.start()
        plane.until(plane.ready, "the API server is ready again", timeout_s=90)
        assert cluster.version()


# ---------------------------------------------------------------- connections


def test_usual_kubeconfig_places_are_searched(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(
        InvalidInput,
        match=r"^no kubeconfig at ~/\.kube/config\. Set backend\.kubeconfig or KUBECONFIG, or run in a pod with",
    ):
        connect()
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
    named = connect()
    assert (named.url, named.version()[:3]) == (plane.url, "v1.")
    named.close()


@pytest.mark.parametrize(
    ("change", "context", "message"),
    [
        ({}, "mars", "unknown context 'mars' (contexts: e2e). Correct backend.context"),
        ({"contexts": [], "current-context": None}, None, "No current context set and no default provided"),
        ({"current-context": "mars"}, None, "Context 'mars' not found"),
        ({"clusters": []}, None, "'e2e' is missing"),
        ({"users": None}, None, "TypeError: 'NoneType' object is not iterable"),
        ({"contexts": [{"name": "e2e", "context": {"cluster": "e2e"}}]}, None, "context 'e2e' has no user"),
        ({"clusters": [{"name": "e2e", "cluster": {"server": "10.0.0.1:6443"}}]}, None,
            "the server of cluster 'e2e' is not a URL with https://"),
        ({"clusters": [{"name": "e2e", "cluster": {"server": "https://h", "certificate-authority": "/no/ca"}}]}, None,
            "No such file or directory /no/ca"),
    ],
)  # fmt: skip
def test_invalid_kubeconfig_is_reported(
    plane: ControlPlane, tmp_path: Path, change: dict[str, object], context: str | None, message: str
) -> None:
    place = tmp_path / "k"
    place.write_text(yaml.safe_dump(yaml.safe_load(plane.kubeconfig.read_text()) | change))
    with pytest.raises(InvalidInput) as told:
        connect(place, context)
    assert told.value.message == f"kubeconfig {place} cannot be used: {message}"


def test_no_line_of_a_damaged_file_is_shown(tmp_path: Path) -> None:
    place = tmp_path / "k"
    place.write_text("users:\n- name: me\n  token: stolen: here\n")
    with pytest.raises(InvalidInput) as told:
        connect(place)
    assert told.value.message == f"kubeconfig {place} cannot be used: not valid YAML (line 3)"
    with pytest.raises(InvalidInput, match=rf"^no kubeconfig at {tmp_path}/none\. "):
        connect(tmp_path / "none")


def test_failing_login_program_is_reported(plane: ControlPlane, tmp_path: Path) -> None:
    place = kubeconfig(plane, tmp_path / "k")
    program = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "/no/login"}
    place.write_text(
        yaml.safe_dump(yaml.safe_load(place.read_text()) | {"users": [{"name": "admin", "user": {"exec": program}}]})
    )
    with connected(place) as cluster, pytest.raises(ServerFault) as told:
        cluster.version()
    assert told.value.message == (
        f"no login for {plane.url}: No such file or directory /no/login. Try kubectl with the same kubeconfig"
    )


def test_untrusted_server_is_not_reported_as_silent(plane: ControlPlane, tmp_path: Path) -> None:
    place = kubeconfig(plane, tmp_path / "k")
    said = yaml.safe_load(place.read_text())
    said["clusters"] = [{"name": "e2e", "cluster": {"server": plane.url}}]
    place.write_text(yaml.safe_dump(said))
    with connected(place) as cluster, pytest.raises(Unavailable) as told:
        cluster.version()
    assert told.value.message.startswith(
        f"the API server {plane.url} is not trusted: its certificate is not from the certificate authority in the kubeconfig, or is"
    )
