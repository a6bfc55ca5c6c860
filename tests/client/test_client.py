"""The library: the same calls for those who wait and those who await, typed answers and errors, on real connections."""

import asyncio
import gc
import json
import socket
import ssl
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psutil
import pytest

from runrig.client import (
    AsyncClient,
    Changed,
    Client,
    Conflict,
    InvalidInput,
    NoAnswer,
    NotFound,
    NotLoggedIn,
    Refused,
    RunrigError,
    ServerFault,
    TooMany,
    Unavailable,
    models,
)
from runrig.client.caller import MOST_IDLE
from runrig.client.server_address import ServerAddress
from runrig.wire.base import example_of
from tests.client.scripted import HANG_UP, answer, scripted
from tests.patience import PATIENCE_S
from tests.worlds.command_line import Up, up, written

CLUSTER = """\
backend: {name: lab, type: simulated}
nodes: [{name: "n{0..1}", resources: {gpu: 4, cpu: 8, memory: 8Gi}}]
cohorts: [{name: org}]
pools: [{name: vision, quota: 4, cohort: org}, {name: speech, quota: 4, cohort: org}]
"""
TRAIN = """\
workflow:
  name: {{ name }}
  tasks: [{name: main, image: ubuntu, command: [sleep], duration: 3600}]
  resources: {default: {gpu: {{ gpus }}}}
default-values: {name: train, gpus: 1}
"""
VERSION = answer('{"version": "9.9"}')
BUSY = answer('{"detail": "starting", "code": "UNAVAILABLE"}', "503 Service Unavailable")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("server")
    with up(folder / "data", "--cluster", written(folder, CLUSTER, "cluster.yaml")) as running:
        yield running


@pytest.fixture
def client(server: Up) -> Iterator[Client]:
    with Client(data=str(server.data)) as made:
        yield made


# ---------------------------------------------------------------- with a real server


@pytest.mark.slow
def test_a_workflow_is_submitted_followed_and_cancelled(client: Client, tmp_path: Path) -> None:
    (tmp_path / "wf.yaml").write_text(TRAIN)
    assert client.workflows.check(tmp_path / "wf.yaml", pool="vision").file.startswith("workflow:")
    assert "Pod" in [each["kind"] for each in client.workflows.render(tmp_path / "wf.yaml", pool="vision")]
    made = client.workflows.submit(
        tmp_path / "wf.yaml", pool="vision", priority="LOW", variables={"name": "low", "gpus": 2}, labels={"run": "1"}
    )
    running = client.workflows.wait(made.id, status="RUNNING")
    assert (running.id, running.status, running.pool, running.priority) == (made.id, "RUNNING", "vision", "LOW")
    assert [task.gpus for task in running.groups[0].tasks] == [(0, 1)]
    assert [each.id for each in client.workflows.list(label=["run=1"])] == [made.id]
    with pytest.raises(TimeoutError, match=f"{made.id} is RUNNING after 0.1 s"):
        client.workflows.wait(made.id, timeout_s=0.1)
    assert client.workflows.tag(made.id, add=["paper"]).tags == ("paper",)
    assert list(client.workflows.tags()) == ["paper"]
    assert "gpu: 2" in client.workflows.spec(made.id)
    client.workflows.cancel(made.id, "enough")
    assert client.workflows.wait(made.id).status == "FAILED_CANCELED"
    kinds = [event.kind for event in client.workflows.events(made.id)]
    assert (kinds[0], kinds[-1]) == ("Submit", "MoveWorkflow")


@pytest.mark.slow
def test_reason_for_waiting_is_explained(client: Client) -> None:
    held = client.workflows.submit(TRAIN, pool="speech", variables={"gpus": 4})
    waits = client.workflows.submit(TRAIN, pool="speech", variables={"gpus": 4})
    client.workflows.wait(held.id, status="RUNNING")
    why = client.workflows.why(waits.id)
    assert (why.status, [reason.code for reason in why.groups[0].reasons]) == ("PENDING", ["QuotaFull"])
    verdict = client.workflows.reassign(waits.id, pool="vision", dry_run=True).verdict
    assert verdict is not None
    assert verdict.verdict in ("STARTS", "WAITS")
    assert client.workflows.changes(waits.id, by="all").would_start
    assert client.workflows.gpu_use(held.id).unknown
    assert client.workflows.gpu_history(held.id).tasks == ()
    client.workflows.reassign(waits.id, priority="HIGH")
    assert client.workflows.get(waits.id).priority == "HIGH"
    client.workflows.hold(waits.id)
    found = client.workflows.get(waits.id)
    assert (found.status, found.held_by is None, found.held_since is None) == ("PENDING", False, False)
    client.workflows.release(waits.id)
    assert client.workflows.get(waits.id).held_by is None
    with pytest.raises(Conflict, match="is not on hold"):
        client.workflows.release(waits.id)
    for id in (held.id, waits.id):
        client.workflows.cancel(id)


@pytest.mark.slow
def test_same_key_submits_once(client: Client) -> None:
    key = str(uuid4())
    first = client.workflows.submit(TRAIN, pool="vision", key=key)
    assert client.workflows.submit(TRAIN, pool="vision", key=key).id == first.id
    assert client.workflows.submit(TRAIN, pool="vision").id != first.id


@pytest.mark.slow
def test_many_workflows_are_submitted_together_with_a_result_each(client: Client) -> None:
    found = client.workflows.submit_many([TRAIN, "workflow: {}"], pool="vision")
    assert found.submitted == 1
    assert [each.problem is None for each in found.outcomes] == [True, False]


@pytest.mark.slow
def test_an_array_is_planned_submitted_and_widened(client: Client) -> None:
    plan = client.plan(models.PlanRequest(submission=models.WorkflowSubmit(file=TRAIN, pool="vision", array="0-2%1")))
    assert (len(plan.starts), plan.verdict is None) == (1, False)
    assert client.plan(models.PlanRequest(pool="vision", quota=0)).pools[0].pool == "vision"
    made = client.workflows.submit(TRAIN, pool="vision", array="0-2%1")
    assert client.workflows.set_most(made.id, 2, dry_run=True).queued == 1
    assert client.workflows.set_most(made.id, 2).most == 2
    swept = client.workflows.submit(TRAIN, pool="vision", sweep=["lr=0.1,0.01"], most=1)
    array = client.workflows.get(swept.id).array
    assert array is not None
    assert (array.most, array.elements) == (1, 2)
    for id in (made.id, swept.id):
        client.workflows.cancel(id)


@pytest.mark.slow
def test_lists_cover_all_pages(server: Up) -> None:
    with Client(data=str(server.data), page=2) as client:
        made = [client.workflows.submit(TRAIN, pool="vision", variables={"name": "page"}).id for _ in range(5)]
        assert [each.id for each in client.workflows.list(name="page-")] == made[::-1]


@pytest.mark.slow
def test_edits_are_refused_if_the_object_has_changed(client: Client) -> None:
    pool = client.pools.get("vision")
    wider = client.pools.update("vision", models.PoolEdit(description="eyes"), if_match=pool.etag)
    assert (wider.description, wider.gpus.quota) == ("eyes", 4)
    with pytest.raises(Changed):
        client.pools.update("vision", models.PoolEdit(description="ears"), if_match=pool.etag)
    assert client.pools.update("vision", models.PoolEdit(description=""), if_match=wider.etag).etag == pool.etag
    paused = client.pools.pause("vision", reason="it moves", until="2h")
    assert (paused.pool.paused_reason, paused.pool.paused_until is None) == ("it moves", False)
    assert client.pools.resume("vision").etag == pool.etag
    shut = client.pools.close("vision", reason="it moves", if_match=pool.etag)
    assert (shut.closed_by is None, shut.closed_since is None, shut.closed_reason) == (False, False, "it moves")
    with pytest.raises(Changed):
        client.pools.open("vision", if_match=pool.etag)
    assert client.pools.open("vision", if_match=shut.etag).etag == pool.etag
    workflow = client.workflows.get(client.workflows.submit(TRAIN, pool="vision").id)
    tags = client.workflows.tag(workflow.id, add=["best"], if_match=workflow.etag)
    with pytest.raises(Changed):
        client.workflows.tag(workflow.id, remove=["best"], if_match=workflow.etag)
    assert client.workflows.tag(workflow.id, remove=["best"], if_match=tags.etag).tags == ()


@pytest.mark.slow
def test_roles_and_tokens_are_edited_as_they_were_read(client: Client) -> None:
    client.users.create("ida", ["vision-user", "speech-viewer"])
    made = client.tokens.create("ci", user="ida", description="at night", roles=["speech-viewer"])
    assert (made.description, made.roles) == ("at night", ("speech-viewer",))
    assert client.tokens.get("ci", user="ida").etag == made.etag
    wider = client.tokens.update("ci", models.TokenEdit(roles=None), user="ida", if_match=made.etag)
    assert (wider.roles, wider.description) == (None, "at night")
    role = client.roles.get("ida", "vision-user")
    for edit in (
        lambda: client.tokens.update("ci", models.TokenEdit(description=""), user="ida", if_match=made.etag),
        lambda: client.tokens.revoke("ci", user="ida", if_match=made.etag),
        lambda: client.roles.revoke("ida", "vision-user", if_match=wider.etag),
    ):
        with pytest.raises(Changed):
            edit()
    client.tokens.revoke("ci", user="ida", if_match=wider.etag)
    client.roles.revoke("ida", "vision-user", if_match=role.etag)


@pytest.mark.slow
def test_subpools_and_cohorts_are_created_and_deleted(client: Client) -> None:
    made = client.pools.create(models.PoolCreate(name="a", parent="speech", quota=1))
    assert (made.name, made.parent, [each.name for each in client.pools.list(name=["speech"])]) == (
        "speech--a",
        "speech",
        ["speech", "speech--a"],
    )
    assert client.pools.delete("speech--a").pool.state == "ARCHIVED"
    assert [what for each in client.pools.history("speech", pool="a") for what in each.what] == [
        "deleted",
        "archived",
        "created",
    ]
    assert client.pools.past("speech", datetime.now(UTC)).subpools == ()
    client.cohorts.create(models.CohortCreate(name="lab", parent="org"))
    assert [each.name for each in client.cohorts.list()] == ["lab", "org"]
    client.cohorts.delete("lab")
    assert {each.name for each in client.cohorts.tree().nodes} >= {"org", "vision", "speech"}


@pytest.mark.slow
def test_nodes_and_cluster_file_are_read_and_changed(client: Client, tmp_path: Path) -> None:
    assert [(node.name, node.resources["gpu"]) for node in client.nodes.list()] == [("n0", 4), ("n1", 4)]
    assert client.nodes.get("n1").ready
    assert client.nodes.cordon(["n1"]).changed == ("n1",)
    assert client.nodes.get("n1").cordoned
    assert client.nodes.drain(["n1"]).changed == ()
    assert client.nodes.uncordon(["n1"]).changed == ("n1",)
    assert [flavor.name for flavor in client.nodes.flavors()] == ["default"]
    size = client.nodes.topology(pool="vision", size=4).size
    assert size is not None
    assert (size.pods, size.gpus) == (4, 1)
    assert client.apply(Path(written(tmp_path, CLUSTER)), dry_run=True).applied is False
    assert client.apply(client.export(), dry_run=True).changes[0].action == "unchanged"


@pytest.mark.slow
def test_users_roles_and_tokens_are_managed(client: Client) -> None:
    assert client.users.create("ann", ["vision-user"]).roles == ("vision-user",)
    token = client.tokens.create("laptop", user="ann")
    with Client(client._caller.address.url, token=token.token) as ann:
        assert (ann.me().user, ann.me().pools) == ("ann", ("vision",))
        assert ann.me().default_pool == "vision"
        assert ann.set_default_pool(None).default_pool == "vision"
        assert ann.notices().to is None
        assert ann.set_notices("https://8.8.8.8/hook", when=["fail"]).when == ("fail",)
        assert ann.set_notices(None).to is None
        assert ann.test_notices().startswith("notices are off")
        assert client.limits.set_for_user("ann", models.LimitsEdit(gpus=4)).after.gpus == 4
        assert client.limits.set_for_pool("vision", models.LimitsEdit(gpus=3), dry_run=True).after.gpus == 3
        assert ann.workflows.submit(TRAIN).id.startswith("train-")
        client.roles.grant("ann", "speech-user")
        with pytest.raises(InvalidInput, match=r"2 pools \(speech, vision\)\. Choose one with pool="):
            ann.workflows.submit(TRAIN)
        client.roles.revoke("ann", "speech-user")
        client.users.disable("ann")
        with pytest.raises(NotLoggedIn, match="invalid token"):
            ann.me()
    assert client.users.enable("ann").disabled is False
    client.tokens.revoke("laptop", user="ann")
    assert [each.state for each in client.tokens.list(user="ann", ended=True)] == ["revoked"]
    assert [each.what for each in client.users.changes(user="ann")][:2] == ["token revoked", "user enabled"]


@pytest.mark.slow
def test_credentials_are_listed_without_values(client: Client) -> None:
    made = client.credentials.set("wandb", {"api_key": "secret"})
    assert (made.name, made.type.value, made.keys) == ("wandb", "GENERIC", ("api_key",))
    assert "secret" not in repr([*client.credentials.list(), client.credentials.get("wandb")])
    with pytest.raises(Changed):
        client.credentials.set("wandb", {"api_key": "other"}, if_match='"x"')
    assert client.credentials.set("wandb", {"token": "other"}, if_match=made.etag).keys == ("token",)
    with pytest.raises(Changed):
        client.credentials.delete("wandb", if_match=made.etag)
    client.credentials.delete("wandb")
    assert list(client.credentials.list()) == []


@pytest.mark.slow
def test_async_client_has_the_same_calls(server: Up) -> None:
    async def three() -> tuple[list[str], list[str]]:
        async with AsyncClient(data=str(server.data)) as client:
            made = await asyncio.gather(
                *(client.workflows.submit(TRAIN, pool="vision", variables={"name": "await"}) for _ in range(3))
            )
            for each in made:
                await client.workflows.cancel(each.id)
            ended = await asyncio.gather(*(client.workflows.wait(each.id) for each in made))
            return [each.status for each in ended], [each.id async for each in client.workflows.list(name="await-")]

    statuses, ids = asyncio.run(three())
    assert statuses == ["FAILED_CANCELED"] * 3
    assert sorted(ids) == ["await-1", "await-2", "await-3"]


@pytest.mark.slow
def test_async_call_can_be_cancelled(server: Up, client: Client) -> None:
    id = client.workflows.submit(TRAIN, pool="vision").id

    async def impatient() -> None:
        async with AsyncClient(data=str(server.data)) as waiting, asyncio.timeout(0.2):
            await waiting.workflows.wait(id)

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())


@pytest.mark.slow
def test_stopped_stream_leaves_no_connection(server: Up) -> None:
    async def listened() -> int:
        async with AsyncClient(data=str(server.data)) as client:
            port = urlsplit(client._caller.address.url).port
            kept = [client.events.stream(after=0)]
            await anext(kept[0])
            open_now = connections_to(port)
            await client.close()  # with the stream as it was
            async with asyncio.timeout(PATIENCE_S):
                while connections_to(port):
                    await asyncio.sleep(0.01)
            return open_now

    assert asyncio.run(listened()) == 1


def connections_to(port: int | None) -> int:
    found = psutil.Process().net_connections()
    return sum(
        each.status == psutil.CONN_ESTABLISHED and bool(each.raddr) and each.raddr.port == port for each in found
    )


@pytest.mark.slow
def test_stream_has_every_event_once_and_in_order(client: Client) -> None:
    before = [(each.revision, each.seq) for each in client.events.list()]
    id = client.workflows.submit(TRAIN, pool="vision").id
    seen: list[tuple[int, int]] = []
    for commit in client.events.stream(after=0):
        seen += [(each.revision, each.seq) for each in commit.events]
        if any(each.kind == "Submit" and each.workflow == id for each in commit.events):
            break
    assert seen[: len(before)] == before
    assert seen == sorted(set(seen))


# ---------------------------------------------------------------- with a scripted server


def client_of(url: str, patience_s: float = 0.0) -> Client:
    return Client(url, token="t", patience_s=patience_s)


def test_connection_is_reused_and_a_dead_one_is_replaced() -> None:
    with scripted(VERSION, VERSION, HANG_UP, VERSION) as server, client_of(server.url) as client:
        assert [client.version() for _ in range(3)] == ["9.9"] * 3
        assert [number for number, *_ in server.asked] == [0, 0, 0, 1]


def test_unrepeatable_call_does_not_use_a_connection_that_may_be_dead() -> None:
    cancelled = answer('{"id": "w"}')
    with scripted(VERSION, cancelled) as server, client_of(server.url) as client:
        client.version()
        client._caller._idle[0].close()  # as a stopping server does
        client.workflows.cancel("w")
        assert [number for number, *_ in server.asked] == [0, 1]


def test_submission_is_repeated_with_its_key_until_a_server_answers() -> None:
    created = answer('{"id": "w-1", "warnings": []}', "201 Created")
    with scripted(HANG_UP, BUSY, created) as server, client_of(server.url, patience_s=5) as client:
        assert client.workflows.submit("file", pool="p").id == "w-1"
        keys = [headers["idempotency-key"] for _, _, headers in server.asked]
        assert len(keys) == 3
        assert len(set(keys)) == 1


def test_cancel_that_may_have_arrived_is_not_repeated() -> None:
    with scripted(HANG_UP) as server, client_of(server.url, patience_s=5) as client:
        with pytest.raises(NoAnswer, match="it closed the connection"):
            client.workflows.cancel("w")
        assert len(server.asked) == 1


def sse(*messages: tuple[str, int, Any]) -> bytes:
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: welcome\n\n"
    told = (f"id: {id}\nevent: {kind}\ndata: {json.dumps(data)}\n\n" for kind, id, data in messages)
    return (head + "".join(told)).encode()


def test_stream_resumes_where_it_broke() -> None:
    event = example_of(models.ClusterEvent)
    page = answer(json.dumps({"items": [], "next_cursor": None, "revision": 4, "head": None}))
    turns = (page, sse(("commit", 6, [event])), sse(("reset", 2, {"revision": 2}), ("commit", 3, [event])))
    with scripted(*turns) as server, client_of(server.url) as client:
        stream = client.events.stream()
        told = [next(stream) for _ in range(3)]
        assert [(each.revision, len(each.events), each.reset) for each in told] == [
            (6, 1, False),
            (2, 0, True),
            (3, 1, False),
        ]
        assert [headers.get("last-event-id") for *_, headers in server.asked] == [None, "4", "6"]


KINDS = [
    (400, "RESOURCE", Refused, 1),
    (404, "NOTFOUND", NotFound, 2),
    (409, "CONFLICT", Conflict, 1),
    (412, "CONFLICT", Changed, 1),
    (422, "USAGE", InvalidInput, 2),
    (429, "UNAVAILABLE", TooMany, 75),
    (503, "UNAVAILABLE", Unavailable, 75),
    (500, "SERVER", ServerFault, 10),
    (401, "FORBIDDEN", NotLoggedIn, 4),
]


@pytest.mark.parametrize(("status", "code", "kind", "exit_code"), KINDS)
def test_each_error_has_its_class(status: int, code: str, kind: type[RunrigError], exit_code: int) -> None:
    details = {"law": "P3", "retry_after_s": 7}
    problems = [{"message": "no name", "path": "workflow", "line": 1, "column": 2}]
    body = json.dumps({"detail": "no: 9 of 8", "code": code, "details": details, "problems": problems})
    with scripted(answer(body, f"{status} X")) as server, client_of(server.url) as client:
        with pytest.raises(RunrigError, match="no: 9 of 8") as raised:
            client.version()
        error = raised.value
        assert (type(error), error.code, error.exit_code, error.details["law"]) == (kind, code, exit_code, "P3")
        assert getattr(error, "law", "P3") == "P3"
        assert getattr(error, "retry_after_s", 7) == 7
        assert [each.line for each in getattr(error, "problems", ())] == ([1] if kind is InvalidInput else [])


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        (answer('{"versio": 1}'), "not a Version: version Field required"),
        (answer("[]"), "is not a runrig server"),
        (answer("<html>"), "is not a runrig server \\('<html>'\\)"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "it closed the connection"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{", "it closed the connection"),
    ],
)
def test_unexpected_response_is_reported_in_words(turn: bytes, message: str) -> None:
    with scripted(turn) as server, client_of(server.url) as client, pytest.raises(ServerFault, match=message):
        client.version()


def test_a_list_of_another_program_is_not_empty() -> None:
    said = pytest.raises(ServerFault, match=r"unexpected response from .* \(no 'items'\)")
    with scripted(answer("{}")) as server, client_of(server.url) as client, said:
        list(client.pools.list())


def test_additional_fields_of_a_later_server_are_ignored() -> None:
    with scripted(answer('{"version": "9.9", "built": "today"}')) as server, client_of(server.url) as client:
        assert client.version() == "9.9"


@pytest.mark.slow
def test_threads_share_a_client(server: Up, client: Client) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: client.workflows.submit(TRAIN, pool="vision").id, range(16)))
        assert [each.id for each in threads.map(client.workflows.get, made)] == made
    assert len(client._caller._idle) <= MOST_IDLE


# ---------------------------------------------------------------- finding a server, and trusting it


def certified(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's certificate for 127.0.0.1, and who trusts it."""
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=here"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        ["openssl", "req", "-x509", *curve, *names, "-out", cert, "-keyout", key], check=True, capture_output=True
    )
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(cert, key)
    return ours, ssl.create_default_context(cafile=cert)


UNTRUSTED = r"the certificate of https://\S+ \(from .*\) is not trusted \(self-signed certificate\)"


def test_both_clients_check_the_certificate(tmp_path: Path) -> None:
    ours, trusting = certified(tmp_path)

    async def awaited(url: str) -> str:
        async with AsyncClient(url, token="t", tls=trusting) as client:
            return await client.version()

    async def refused(url: str) -> str:
        async with AsyncClient(url, token="t", patience_s=0) as client:
            return await client.version()

    with scripted(VERSION, VERSION, tls=ours) as server:
        with Client(server.url, token="t", tls=trusting) as client:
            assert client.version() == "9.9"
        server.listens.clear()  # nor does it close properly
        assert asyncio.run(awaited(server.url)) == "9.9"
        server.listens.set()
        gc.collect()  # reports connections that were not closed
        with client_of(server.url) as client, pytest.raises(NoAnswer, match=UNTRUSTED):
            client.version()
        with pytest.raises(NoAnswer, match=UNTRUSTED):
            asyncio.run(refused(server.url))
        with client_of(server.url.replace("https", "http")) as client, pytest.raises(NoAnswer, match="Use https://"):
            client.version()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (answer("no", "400 Bad Request"), r"does not use TLS\. Use http://, or set --server"),
        (b"", "it closed the connection"),
    ],
)
def test_server_without_tls_is_named_as_such(said: bytes, told: str) -> None:
    def answers(listener: socket.socket) -> None:
        with listener.accept()[0] as connection:
            connection.recv(65536)
            connection.sendall(said)

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        threads.submit(answers, listener)
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with client_of(url) as client, pytest.raises(NoAnswer, match=told):
            client.version()


def test_token_that_is_not_a_valid_header_is_refused_and_not_shown() -> None:
    with pytest.raises(InvalidInput, match=r"^the token in token= contains invalid characters. Copy it again$"):
        Client("http://127.0.0.1:1", token="se\ncret")


def test_environment_selects_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(VERSION) as server:
        monkeypatch.setenv("RUNRIG_SERVER", server.url)
        monkeypatch.setenv("RUNRIG_TOKEN", "from-the-environment")
        with Client() as client:
            client.version()
        assert server.asked[0][2]["authorization"] == "Bearer from-the-environment"
    with pytest.raises(InvalidInput, match="is not a server address"):
        Client("ftp://x")
    assert ServerAddress().address().source == "RUNRIG_SERVER"
