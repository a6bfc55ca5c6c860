"""Values of credentials: in no log, no answer, no file of the data folder and no table in the clear, whatever is sent."""

import http.client
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from runrig.domain.credentials import written_keys
from tests.attack.target import CANARY, Target, refused, serve
from tests.patience import until
from tests.worlds.command_line import up as real

KEY = bytes(range(32))
OURS, THEIRS = "/api/v1/credentials", "/api/credentials"
SPILLS: tuple[tuple[str, str, object], ...] = (
    ("PUT", f"{OURS}/a", {"values": {"k": CANARY}}),
    ("PUT", f"{OURS}/a", {"values": {"k": [CANARY]}}),
    ("PUT", f"{OURS}/a", {"values": {"k": CANARY, "empty": ""}}),
    ("PUT", f"{OURS}/a", {"values": CANARY}),
    ("PUT", f"{OURS}/a", {"type": CANARY, "values": {"k": CANARY}}),
    ("PUT", f"{OURS}/-", {"values": {"k": CANARY}}),
    ("PUT", f"{OURS}/a", f'{{"values": {{"k": "{CANARY}"'.encode()),
    ("PUT", f"{OURS}/a", f'{{"values": {{"k": "{CANARY}\udcff"}}}}'.encode("utf-8", "surrogatepass")),
    ("PUT", f"{OURS}/a?value={CANARY}", {"values": {"k": CANARY}}),
    ("POST", f"{OURS}/a", {"values": {"k": CANARY}}),
    ("POST", f"{THEIRS}/a", {"generic_credential": {"credential": {"k": CANARY}}}),
    ("POST", f"{THEIRS}/a", {"registry_credential": {"auth": CANARY, "registry": f"me:{CANARY}@host"}}),
    ("POST", f"{THEIRS}/a", {"data_credential": {"access_key": CANARY}}),
    ("POST", f"/{THEIRS}/a", {"generic_credential": {"credential": CANARY}}),
    ("DELETE", f"{OURS}/a?value={CANARY}", None),
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("credentials")
    (folder / "key").write_text(written_keys((KEY,)))
    (folder / "key").chmod(0o600)
    with serve(folder, credential_key=str(folder / "key")) as target:
        yield target


def rests(target: Target) -> dict[str, bytes]:
    """All files that the server has written, but those in which specifications lie: there the canary stands by right."""
    with sqlite3.connect(target.data / "runrig.db") as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    files = [*target.data.rglob("*"), target.log, target.log.parent / "stderr"]
    return {str(file): file.read_bytes() for file in files if file.is_file() and file.name != "runrig.db"}


def test_no_value_is_shown_logged_or_stored_unencrypted(shared: Target) -> None:
    for method, path, body in SPILLS:
        answer = shared.ask(method, path, body=body, user="ann")
        assert answer.status < 500, answer
        assert CANARY.encode() not in answer.body, answer
    for path in (OURS, f"{OURS}/a", THEIRS):
        assert CANARY.encode() not in shared.ask("GET", path, user="ann").body
    assert [name for name, content in rests(shared).items() if CANARY.encode() in content] == []
    stored = shared.portrait(volatile=True)
    assert {name for name, rows in stored.items() if CANARY in repr(rows)} <= {"specifications"}
    assert [row[:2] for row in stored["credentials"]] == [("ann", "a")]


def test_credentials_of_other_users_cannot_be_accessed(shared: Target) -> None:
    assert shared.ask("PUT", f"{OURS}/mine", body={"values": {"k": "v"}}, user="ann").status == 201
    for user in ("admin", "tim", "eve", "nobody", "vera"):
        assert shared.ask("GET", OURS, user=user).json["items"] == []
        for method in ("GET", "DELETE"):
            refused(shared, shared.ask(method, f"{OURS}/mine", user=user), 404)
        for name in ("x-osmo-user", "x-forwarded-user"):
            headers = [*shared.headers(user), (name, "ann")]
            assert shared.ask("GET", OURS, headers=headers).json["items"] == []
    for user in ("ann", "tim", "vera", "nobody"):
        refused(shared, shared.ask("POST", f"{OURS}:reseal", user=user), 403)
    assert [each["name"] for each in shared.ask("GET", OURS, user="ann").json["items"]] == ["a", "mine"]


def test_stolen_database_reveals_no_value(shared: Target, tmp_path: Path) -> None:
    shared.ask("PUT", f"{OURS}/b", body={"values": {"k": CANARY}}, user="ann")
    dump = "\n".join(sqlite3.connect(shared.data / "runrig.db").iterdump())
    for secret in (KEY, KEY.hex().encode(), written_keys((KEY,)).strip().encode()):
        assert secret not in dump.encode()
    assert not list(shared.data.rglob("*.key"))


def test_variables_in_a_query_appear_in_no_log_or_trail(shared: Target) -> None:
    """As the reference client sends `workflow submit --set-env`."""
    body = json.dumps({"file": "workflow: {name: q, tasks: [{name: m, image: i, command: [c], duration: 1}]}\n"})
    for user, path in (("ann", "team"), ("eve", "team"), ("ann", "nowhere")):
        connection = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=60)
        headers = {
            "Authorization": f"Bearer {shared.tokens[user]}",
            "Content-Type": "application/json",
            "User-Agent": "osmo-cli/6.4.0",
        }
        for query in (f"env_vars=KEY%3D{CANARY}q", f"env_vars={CANARY}q", f"env_vars=KEY={CANARY}q&wrong=1"):
            connection.request("POST", f"/api/pool/{path}/workflow?{query}", body, headers)
            answer = connection.getresponse()
            assert answer.status < 500
            answer.read()
        connection.close()
    assert [name for name, content in rests(shared).items() if f"{CANARY}q".encode() in content] == []
    stored = shared.portrait(volatile=True)
    assert {name for name, rows in stored.items() if f"{CANARY}q" in repr(rows)} <= {"specifications"}
    trail = shared.ask("GET", "/api/v1/access-events?limit=1000").body
    assert CANARY.encode() not in trail


USES = """
workflow:
  name: uses
  tasks:
  - name: main
    image: any
    command: [sh, -c, "test $K = $(cat /keys/k) && echo equal; echo /keys/k; sleep 1"]
    credentials: {one: {K: k}, two: /keys}
    resource: none
  resources:
    none: {}
"""


def test_tasks_get_values_and_the_data_folder_keeps_none(tmp_path: Path) -> None:
    """With `up` and real processes; afterwards nothing is left, in files, logs, tables and answers."""
    (tmp_path / "uses.yaml").write_text(USES)
    with real(tmp_path / "data", "--gpus", "0") as it:
        for name in ("one", "two"):
            it.runrig("credential", "set", name, "k=-", stdin=CANARY)
        done = it.runrig("workflow", "submit", str(tmp_path / "uses.yaml"))
        assert done.code == 0, done
        assert it.runrig("workflow", "wait", "uses-1", "--timeout", "60").code == 0
        first, second = it.runrig("workflow", "logs", "uses-1", "--task", "main").out.splitlines()
        assert (first, second.endswith("/credentials/two/k")) == ("equal", True)
        told = [it.runrig("workflow", each, "uses-1").out for each in ("query", "events", "spec")]
        told += [it.runrig("user", "history").out, it.runrig("credential", "list", "-t", "json").out]
        assert [text for text in told if CANARY in text] == []
        it.runrig("credential", "delete", "two", "--yes")
        refused_ = it.runrig("workflow", "submit", str(tmp_path / "uses.yaml"))
        assert (refused_.code, "unknown credential 'two' of " in refused_.err) == (1, True)
        until(lambda: not (it.data / "tasks/uses-1/main/0/credentials/two").exists())
        with sqlite3.connect(it.data / "runrig.db") as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    holding = [str(file) for file in it.data.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()]
    assert holding == []
