"""A cache that is the truth again after whatever cut it off: lost connections, a server that restarts, versions that are gone."""

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.api import Object
from e2e.harness import ControlPlane
from runrig.backends.kubernetes import kinds, watching
from runrig.backends.kubernetes.answers import ApiRefusal
from runrig.backends.kubernetes.cluster import Cluster, Timeouts, connect
from runrig.backends.kubernetes.watching import Watch
from tests.kubernetes.wire import Cable, cable, doorkeeper, kubeconfig
from tests.kubernetes.world import World
from tests.patience import PATIENCE_S, crowding

LABELS = {"app.kubernetes.io/managed-by": "runrig"}


class Watched:
    """A watch of the secrets of a namespace, and what a test asks of it."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self.world, self.cluster = world, cluster
        self.rung = threading.Event()
        self.watch = Watch(cluster, kinds.SECRET, namespace=world.namespace, labels=LABELS, changed=self.rung.set)

    def write(self, name: str, value: str = "") -> Object:
        """Writes as somebody else would, past the connection of the watch."""
        return self.world.api.apply(self.secret(name, value))

    def remove(self, name: str) -> None:
        self.world.api.delete(self.secret(name))

    def secret(self, name: str, value: str = "") -> Object:
        metadata = {"name": name, "namespace": self.world.namespace, "labels": LABELS, "annotations": {"value": value}}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}

    def values(self) -> dict[str, str]:
        found = self.watch.objects()
        assert all(namespace == self.world.namespace for namespace, _ in found)
        return {name: each["metadata"]["annotations"]["value"] for (_, name), each in found.items()}

    def sees(self, values: Mapping[str, str], *, timeout_s: float = 30) -> None:
        self.world.plane.until(lambda: self.values() == values, f"{values} is seen", timeout_s=timeout_s)


@contextmanager
def watched(world: World, place: Path, **seconds: float) -> Iterator[Watched]:
    cluster = connect(place, timeouts=Timeouts(**seconds))
    made = Watched(world, cluster)
    made.watch.start()
    try:
        yield made
    finally:
        began = time.monotonic()
        made.watch.stop()
        took = time.monotonic() - began
        cluster.close()
        assert took < 1 or took < crowding(), f"it stopped only after {took:.1f} s"


@pytest.fixture
def direct(world: World) -> Iterator[Watched]:
    with watched(world, world.plane.kubeconfig) as made:
        assert made.watch.wait_synced(PATIENCE_S)
        yield made


@pytest.fixture
def line(plane: ControlPlane) -> Iterator[Cable]:
    with cable(plane) as made:
        yield made


@contextmanager
def over(line: Cable, world: World, tmp_path: Path, **seconds: float) -> Iterator[Watched]:
    place = kubeconfig(world.plane, tmp_path / "kubeconfig", url=f"https://127.0.0.1:{line.port}")
    with watched(world, place, **seconds) as made:
        assert made.watch.wait_synced(PATIENCE_S)
        yield made


# ---------------------------------------------------------------- normal operation


def test_view_follows_creations_changes_and_deletions(direct: Watched) -> None:
    direct.write("a", "1")
    direct.sees({"a": "1"})
    direct.write("b", "1")
    direct.write("a", "2")
    direct.sees({"a": "2", "b": "1"})
    direct.remove("a")
    direct.sees({"b": "1"})
    assert direct.watch.trouble is None


def test_existing_objects_are_visible_immediately(world: World, direct: Watched) -> None:
    direct.write("a", "1")
    with watched(world, world.plane.kubeconfig) as later:
        assert later.watch.wait_synced(PATIENCE_S)
        assert later.values() == {"a": "1"}


def test_object_that_loses_its_labels_disappears(direct: Watched) -> None:
    direct.write("a", "1")
    direct.sees({"a": "1"})
    direct.world.api.apply(direct.secret("a", "2") | {"metadata": direct.secret("a", "2")["metadata"] | {"labels": {}}})
    direct.sees({})


def test_snapshot_is_immutable_and_reused_until_something_changes(direct: Watched) -> None:
    direct.write("a", "1")
    direct.sees({"a": "1"})
    before, generation = direct.watch.objects(), direct.watch.generation
    assert direct.watch.objects() is before
    direct.write("a", "2")
    direct.sees({"a": "2"})
    assert direct.watch.generation > generation
    assert [each["metadata"]["annotations"]["value"] for each in before.values()] == ["1"]


def test_each_change_notifies(direct: Watched) -> None:
    for turn in range(3):
        direct.rung.clear()
        direct.write("a", str(turn))
        assert direct.rung.wait(PATIENCE_S)
        direct.sees({"a": str(turn)})


def test_after_many_changes_the_view_equals_the_server(direct: Watched) -> None:
    for turn in range(120):
        direct.write(f"s{turn % 7}", str(turn))
        if turn % 5 == 0:
            direct.remove(f"s{turn % 7}")
    there = direct.world.api.listed("v1", "Secret", direct.world.namespace)
    direct.sees({each["metadata"]["name"]: each["metadata"]["annotations"]["value"] for each in there})


# ---------------------------------------------------------------- injected data


def test_inserted_object_is_visible_immediately_and_its_arrival_is_not_a_change(direct: Watched) -> None:
    generation = direct.watch.generation
    direct.watch.put(direct.cluster.apply(direct.secret("a", "1")))
    assert direct.values() == {"a": "1"}
    direct.write("b", "1")
    direct.sees({"a": "1", "b": "1"})
    assert direct.watch.generation == generation + 2


def test_late_insert_restores_neither_deleted_nor_older_objects(direct: Watched) -> None:
    old = direct.write("a", "1")
    newer = direct.write("a", "2")
    direct.sees({"a": "2"})
    direct.watch.put(old)
    assert direct.values() == {"a": "2"}
    direct.remove("a")
    direct.sees({})
    direct.watch.put(newer)
    assert direct.values() == {}


def test_earlier_events_do_not_undo_an_insert(line: Cable, world: World, tmp_path: Path) -> None:
    with over(line, world, tmp_path) as far:
        far.write("a", "1")
        far.sees({"a": "1"})
        line.freeze()
        far.remove("a")
        far.watch.put(far.write("a", "2"))
        assert far.values() == {"a": "2"}
        seen: list[dict[str, str]] = []
        far.watch._changed = lambda: seen.append(far.values())
        line.thaw()
        far.write("b", "1")
        far.sees({"a": "2", "b": "1"})
        assert {} not in seen


# ---------------------------------------------------------------- lost connections


def test_broken_connection_is_reported_once_and_missed_changes_are_seen(
    line: Cable, world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "runrig")
    with over(line, world, tmp_path) as far:
        far.write("gone", "1")
        far.sees({"gone": "1"})
        line.cut()
        far.write("new", "1")
        far.remove("gone")
        world.plane.until(lambda: far.watch.trouble and far.watch._tries > 3, "it tried again")
        assert far.values() == {"gone": "1"}
        line.mend()
        far.sees({"new": "1"})
        world.plane.until(lambda: far.watch.trouble is None, "it is well again")
    said = [record.getMessage().split(" error=")[0] for record in caplog.records if "watch" in record.getMessage()]
    assert said == ["event=watch_lost kind=secrets", "event=watch_resumed kind=secrets"]


def test_expired_versions_are_listed_again(
    line: Cable, world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that restarts remembers nothing of before, so it cannot say what was missed."""
    caplog.set_level(logging.INFO, "runrig")
    with over(line, world, tmp_path) as far:
        far.write("gone", "1")
        since = far.write("changed", "1")["metadata"]["resourceVersion"]
        far.sees({"gone": "1", "changed": "1"})
        line.cut()
        far.remove("gone")
        far.write("changed", "2")
        far.write("new", "1")
        restart(world.plane)
        line.mend()
        far.sees({"changed": "2", "new": "1"})
        with pytest.raises(ApiRefusal) as refused, far.cluster.watch(kinds.SECRET, resource_version=since) as stream:
            next(stream)
        assert refused.value.status == 410
        far.remove("new")
        far.sees({"changed": "2"})
    assert any("event=watch_restarted kind=secrets" in record.getMessage() for record in caplog.records)


def test_view_survives_a_server_restart_and_two_watches_agree(world: World, direct: Watched) -> None:
    with watched(world, world.plane.kubeconfig) as other:
        assert other.watch.wait_synced(PATIENCE_S)
        direct.write("a", "1")
        for each in (direct, other):
            each.sees({"a": "1"})
        restart(world.plane)
        direct.write("b", "1")
        direct.remove("a")
        for each in (direct, other):
            each.sees({"b": "1"})


def test_hanging_server_is_noticed_although_its_connections_are_open(world: World) -> None:
    with watched(world, world.plane.kubeconfig, silence=1, read=1, connect=1) as seen:
        assert seen.watch.wait_synced(PATIENCE_S)
        server = world.plane.processes["kube-apiserver"]
        os.kill(server.pid, signal.SIGSTOP)
        try:
            world.plane.until(lambda: "timed out" in (seen.watch.trouble or ""), "it is noticed")
        finally:
            os.kill(server.pid, signal.SIGCONT)
        seen.write("a", "1")
        seen.sees({"a": "1"})


def test_watch_ended_by_its_server_continues_without_trouble(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "runrig")
    with watched(world, world.plane.kubeconfig, watch=1) as short:
        assert short.watch.wait_synced(PATIENCE_S)
        first = short.watch._stream
        world.plane.until(lambda: short.watch._stream is not first, "another watch runs")
        short.write("a", "1")
        short.sees({"a": "1"})
    assert [record.getMessage() for record in caplog.records if "watch" in record.getMessage()] == []


def test_kind_without_changes_is_no_trouble(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server's watch of events sends events only, not even a bookmark once a minute."""
    caplog.set_level(logging.INFO, "runrig")
    monkeypatch.setattr(watching, "_LONGEST_S", 0.5)
    cluster = connect(world.plane.kubeconfig, timeouts=Timeouts(watch=1, silence=4))
    quiet = Watch(cluster, kinds.EVENT, namespace=world.namespace, changed=lambda: None)
    quiet.start()
    try:
        streams: set[object] = set()

        def watched_longer() -> bool:
            """Five watches, together longer than the silence."""
            streams.add(quiet._stream)
            return len(streams) > 5

        world.plane.until(watched_longer, "it was watched five times")
        assert quiet._tries <= 1, "it waits longer and longer between two watches"
    finally:
        quiet.stop()
        cluster.close()
    assert [record.getMessage() for record in caplog.records if "watch" in record.getMessage()] == []
    assert Timeouts().watch < Timeouts().silence


def test_busy_server_is_not_asked_again_for_as_long_as_it_requests(world: World, tmp_path: Path) -> None:
    with doorkeeper(429, {"Retry-After": "60"}, b"") as url:
        place = kubeconfig(world.plane, tmp_path / "k", url=url)
        with watched(world, place) as busy:
            world.plane.until(lambda: busy.watch.trouble, "it is refused", timeout_s=PATIENCE_S)
            assert busy.watch.trouble == "the API server is temporarily unavailable (429): no reason given"
            assert not busy.watch.wait_synced(0.7)
            assert busy.watch._tries == 1


def test_missing_permission_is_reported_and_retried(world: World, tmp_path: Path) -> None:
    with watched(world, kubeconfig(world.plane, tmp_path / "k", token=token_of(world, "reader"))) as reader:
        world.plane.until(lambda: "secrets is forbidden" in (reader.watch.trouble or ""), "it is refused")
        allow(world, "reader", "secrets")
        assert reader.watch.wait_synced(PATIENCE_S)
        reader.write("a", "1")
        reader.sees({"a": "1"})
        assert reader.watch.trouble is None


def test_changed_cause_is_reported_too(
    line: Cable, world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"https://127.0.0.1:{line.port}"
    line.cut()
    with watched(world, kubeconfig(world.plane, tmp_path / "k", url=url, token=token_of(world, "reader"))) as reader:
        world.plane.until(lambda: reader.watch._tries > 2, "it tried again")
        line.mend()
        world.plane.until(lambda: "secrets is forbidden" in (reader.watch.trouble or ""), "it is refused")
        tries = reader.watch._tries
        world.plane.until(lambda: reader.watch._tries > tries, "it tried again")
    said = [record.getMessage() for record in caplog.records if "event=watch_lost" in record.getMessage()]
    assert ["does not respond" in each for each in said] == [True, False]
    assert "secrets is forbidden" in said[1]


def test_watch_stops_immediately_in_every_state(world: World, line: Cable, tmp_path: Path) -> None:
    """Each of these checks the time that `stop` takes."""
    cluster = connect(world.plane.kubeconfig)
    Watch(cluster, kinds.NODE, changed=lambda: None).stop()
    cluster.close()
    with over(line, world, tmp_path):
        pass
    with over(line, world, tmp_path) as cut:
        line.cut()
        world.plane.until(lambda: cut.watch._tries > 4, "it waits between two tries")
    line.mend()
    with over(line, world, tmp_path) as frozen:
        line.freeze()
        assert frozen.watch.trouble is None


def restart(plane: ControlPlane) -> None:
    server = plane.processes["kube-apiserver"]
    server.kill()
    server.start()
    plane.until(plane.ready, "the API server is ready again", timeout_s=90)


def token_of(world: World, name: str) -> str:
    """Returns the token of an account that is made for it, without any right."""
    metadata = {"name": name, "namespace": world.namespace}
    world.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    where = f"/api/v1/namespaces/{world.namespace}/serviceaccounts/{name}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(world.api.call("POST", where, asked)["status"]["token"])


def allow(world: World, account: str, resource: str) -> None:
    """*account* of the world's namespace may read *resource* there."""
    metadata = {"name": account, "namespace": world.namespace}
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": [resource], "verbs": ["list", "watch"]}]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": world.namespace}
    for kind, more in (
        ("Role", {"rules": rules}),
        ("RoleBinding", {"roleRef": {"apiGroup": group, "kind": "Role", "name": account}, "subjects": [subject]}),
    ):
        world.api.create({"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, **more})
