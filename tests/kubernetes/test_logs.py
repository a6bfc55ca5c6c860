"""Kept output, the real way: API server, node port, and behind it KWOK, which reads one file for all containers."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import httpx2
import pytest

from e2e.objects import node_object
from e2e.processes import free_ports
from runrig.backends.kubernetes import logs
from runrig.backends.kubernetes.cluster import Cluster, connect
from runrig.backends.kubernetes.logs import KeptLogs
from runrig.backends.kubernetes.names import CONTAINER
from runrig.domain.nodes import Node
from runrig.domain.workflows import TaskKey
from tests.kubernetes.runrigs import one_task, rig
from tests.kubernetes.world import World, bare_pod
from tests.patience import PATIENCE_S
from tests.web.visitor import Visitor
from tests.worlds.service import KEYS

KEY = TaskKey("w-1", "p", 0)
ROOM = {"gpu": 1}


@pytest.fixture
def cluster(world: World) -> Iterator[Cluster]:
    found = connect(world.plane.kubeconfig)
    yield found
    found.close()


@pytest.fixture
def kept(world: World, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeptLogs]:
    for limit in ("CAUGHT_UP_S", "KEPT_S"):
        monkeypatch.setattr(logs, limit, PATIENCE_S)
    world.plane.pod_log.write_text("")  # which other tests have written to
    here = KeptLogs(tmp_path, lambda pod, follow: cluster.log(world.namespace, pod, CONTAINER, follow=follow))
    yield here
    here.close()


def runs(world: World) -> None:
    world.plane.add_nodes([Node("n1", ROOM)])
    world.create([bare_pod(world.namespace, "p", node="n1")])
    world.all_run()


def say(world: World, *lines: str) -> None:
    """As the container runtime writes it."""
    with world.plane.pod_log.open("a") as file:
        file.writelines(f"2026-01-01T00:00:00.000000000Z stdout F {line}\n" for line in lines)


def content(path: Path | None) -> str | None:
    return None if path is None else path.read_text()


def test_reader_gets_earlier_and_later_output(world: World, kept: KeptLogs) -> None:
    runs(world)
    say(world, "one", "two")
    path = kept.file(KEY, "p")
    assert content(path) == "one\ntwo\n"
    say(world, "three")
    world.plane.until(lambda: content(path) == "one\ntwo\nthree\n", "the file has grown")


def test_reader_loses_nothing_when_the_server_is_killed(world: World, kept: KeptLogs) -> None:
    runs(world)
    say(world, "one", "two")
    path = kept.file(KEY, "p")
    server = world.plane.processes["kube-apiserver"]
    server.kill()
    say(world, "while it was away")
    server.start()
    world.plane.until(world.plane.ready, "the API server is ready again", timeout_s=90)
    say(world, "and after")
    expected = "one\ntwo\nwhile it was away\nand after\n"
    world.plane.until(lambda: len(content(path) or "") >= len(expected), "the file has grown")
    assert content(path) == expected


def test_end_of_a_long_output_is_saved_in_whole_lines(world: World, kept: KeptLogs) -> None:
    runs(world)
    lines = [f"line {number:06d} of a long output that nobody reads" for number in range(60_000)]
    say(world, *lines)
    assert kept.keep(KEY, "p")
    text = content(kept.file(KEY, None))
    fitting = logs.MOST_KEPT // (len(lines[0]) + 1)
    assert text == "".join(f"{line}\n" for line in lines[-fitting:])


def test_reader_has_all_output_when_it_is_saved(world: World, kept: KeptLogs) -> None:
    runs(world)
    say(world, "one")
    kept.file(KEY, "p")
    say(world, "two")
    assert kept.keep(KEY, "p")
    assert content(kept.file(KEY, None)) == "one\ntwo\n"


def test_finished_pod_with_a_finalizer_still_has_its_output(world: World, kept: KeptLogs) -> None:
    world.plane.add_nodes([Node("n1", ROOM)])
    pod = bare_pod(world.namespace, "p", node="n1")
    (pod,) = world.create([pod | {"metadata": pod["metadata"] | {"finalizers": ["runrig/e2e"]}}])
    world.all_run()
    say(world, "last words")
    world.api.delete(pod)
    world.plane.until(lambda: (world.api.read(pod) or {})["status"]["phase"] == "Failed", "it was stopped")
    assert kept.keep(KEY, "p")
    assert content(kept.file(KEY, None)) == "last words\n"
    path = f"/api/v1/namespaces/{world.namespace}/pods/p"
    world.api.call("PATCH", path, {"metadata": {"finalizers": None}}, kind="application/merge-patch+json")


def test_pod_that_never_had_a_node_has_no_output(world: World, kept: KeptLogs) -> None:
    # More than any node has: a scheduler may still remember a node of the previous test.
    world.create([bare_pod(world.namespace, "p", gpus=10_000)])
    assert kept.keep(KEY, "p")
    assert content(kept.file(KEY, None)) == ""


def test_output_of_a_deleted_pod_is_not_requested_again_and_the_file_says_why(world: World, kept: KeptLogs) -> None:
    assert kept.keep(KEY, "p")
    assert content(kept.file(KEY, None)) == (
        '[runrig: output is not available: the API server refused the request (404 NotFound): pods "p" not found]\n'
    )


def test_unresponsive_node_does_not_hold_a_pod_forever(world: World, kept: KeptLogs) -> None:
    (nobody,) = free_ports(1)
    world.api.create(node_object(Node("n1", ROOM), nobody))
    world.create([bare_pod(world.namespace, "p", node="n1")])
    world.all_run()
    assert [kept.keep(KEY, "p") for _ in range(logs.TRIES)] == [False] * (logs.TRIES - 1) + [True]
    said = content(kept.file(KEY, None)) or ""
    assert said.startswith("[runrig: output is not available: the API server is temporarily unavailable (5")
    assert said.endswith("connect: connection refused]\n")


WROTE = [
    "step 0",
    "key s3cr3t-canary",
    "Traceback (most recent call last):",
    '  File "/train.py", line 7, in <module>',
    '    raise KeyError("state_dict")',
    "KeyError: 'state_dict'",
]
SHOWN = [line.replace("s3cr3t-canary", "***") for line in WROTE]


def test_the_traceback_of_a_pod_is_on_the_first_screen_of_logs_why_query_and_the_page(
    world: World, tmp_path: Path
) -> None:
    """A secret that it printed is in its output alone."""
    (tmp_path / "key").write_text(KEYS)
    (tmp_path / "key").chmod(0o600)
    cluster = "nodes: [{name: n0, resources: {gpu: 2}}]\npools: [{name: pool, quota: 2}]\n"
    world.plane.pod_log.write_text("")
    try:
        with rig(world, tmp_path, cluster, more=f"credential_key: {tmp_path / 'key'}\n") as here:
            here.say("credential", "set", "one", "key=-", stdin="s3cr3t-canary")
            id = here.submit(one_task("train", credentials={"one": {"KEY": "key"}}), "pool")
            here.runs(id)
            say(world, *WROTE)
            here.ends(f"{id}/main/0", 1)
            here.wait(id, "FAILED")
            here.until(lambda: not here.pods(), "its pod is gone")
            world.plane.pod_log.write_text("")
            logs = here.cli("workflow", "logs", id)
            why, query = here.say("workflow", "why", id), here.say("workflow", "query", id)
            assert here.server is not None
            with httpx2.Client(base_url=here.server.url, timeout=60) as http:
                visitor = Visitor(http)
                assert visitor.sign_in(here.token, Origin=here.server.url).status_code == 303
                card, output = visitor.page(f"/workflow/{id}").partition('id="output-title"')[::2]
    finally:
        world.plane.pod_log.write_text("")
    assert logs.out.splitlines() == WROTE
    assert logs.err == f"{id} FAILED: KeyError: 'state_dict' (main, exit code 1)\n"
    for told in (why, query):
        last = told.partition("main wrote last:\n")[2].splitlines()
        assert [line.removeprefix("  ") for line in last[: len(SHOWN)]] == SHOWN
        assert len(told.splitlines()) < 30
    assert f"{id} is FAILED. Task main failed: KeyError: 'state_dict' (exit code 1)" in " ".join(why.split())
    assert "Cause        KeyError: 'state_dict' (main)" in query.splitlines()
    assert """failed: <code class="said">KeyError: 'state_dict'</code></p>""" in unescape(card)
    assert "s3cr3t-canary" not in card
    shown = output.partition('id="output"')[2]
    assert "Traceback (most recent call last):" in shown.partition('id="error"')[2]
    assert [unescape(line) for line in re.findall(r"<p[^>]*><time>[^<]*</time> ([^<]*)</p>", shown)] == WROTE
