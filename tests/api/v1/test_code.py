"""Code at our own door: sent once per user, used by their workflows, and read by those who see these."""

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runrig.domain.code import Manifest, sha256
from runrig.http.body_limits import LARGEST_CODE
from runrig.store import code as stored
from tests.api.client import Api, api
from tests.api.v1.ours import problem
from tests.worlds.code import manifest, packed
from tests.worlds.service import one_task

PATH = "/api/v1/code"
TRAIN, DATA = b"print('train')\n", b"x" * 3_000_000
CODE = manifest(
    {"train.py": TRAIN, "run.sh": b"#!/bin/sh\n", "lib/data": DATA}, {"lib/latest": "data"}, scripts={"run.sh"}
)
BOTH = {"bob": "pool1-user", "cleo": "pool1-user"}


def _post(it: Api, body: bytes, user: str | None = None) -> Any:
    return it.http.post(PATH, content=body, headers=_as(it, user) | {"content-type": "application/gzip"})


def _as(it: Api, user: str | None) -> dict[str, str]:
    """The headers of a token of *user*; of the owner of the server without one."""
    if user is None:
        return {}
    access = it.desk.service.access
    if all(user != each.name for each in access.users.all()):
        it.named(user, BOTH[user])
    return {"Authorization": f"Bearer {access.tokens.create(user, f't{it.desk.time[0]}', actor=user).text}"} | _tick(it)


def _tick(it: Api) -> dict[str, str]:
    it.desk.time[0] += 1
    return {}


def _send(it: Api, code: Manifest, contents: list[bytes], user: str | None = None) -> None:
    answer = _post(it, packed(code, contents), user)
    assert (answer.status_code, answer.json()) == (200, {"id": code.id, "missing": []})


def _known(it: Api, code: Manifest, user: str | None = None) -> int:
    return int(it.http.head(f"{PATH}/{code.id}", headers=_as(it, user)).status_code)


def _submit(it: Api, code: str, user: str | None = None) -> Any:
    text = one_task("w") + f"  code: {code}\n"
    return it.http.post("/api/v1/workflows", json={"pool": "pool1", "file": text}, headers=_as(it, user))


def _rows(it: Api) -> int:
    with it.desk.store.transactions.reading() as connection:
        return int(connection.exec_driver_sql("SELECT count(*) FROM code_pieces").scalar_one())


def test_code_is_sent_once_and_later_only_changes(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        assert _known(it, CODE) == 404
        missing = _post(it, packed(CODE)).json()["missing"]
        assert missing == list(CODE.contents)
        assert _rows(it) == 0, "a manifest alone stores nothing"
        _send(it, CODE, [DATA, b"#!/bin/sh\n", TRAIN])
        assert _known(it, CODE) == 204
        changed = manifest({"train.py": b"pass\n", "run.sh": b"#!/bin/sh\n", "lib/data": DATA})
        assert _post(it, packed(changed)).json() == {"id": changed.id, "missing": [sha256(b"pass\n")]}
        _send(it, changed, [b"pass\n"])
        renamed = manifest({"main.py": TRAIN})
        assert _post(it, packed(renamed)).json() == {"id": renamed.id, "missing": []}
        assert _known(it, renamed) == 204, "nothing was missing, so it is stored"


def test_hash_gives_no_access_to_a_file_of_another_user(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        _send(it, CODE, [DATA, b"#!/bin/sh\n", TRAIN], "bob")
        assert _known(it, CODE, "bob") == 204
        assert _known(it, CODE, "cleo") == 404
        assert _post(it, packed(CODE), "cleo").json()["missing"] == list(CODE.contents)
        refused = problem(_submit(it, CODE.id, "cleo"), 422, "USAGE")
        unknown = problem(_submit(it, "0" * 64, "cleo"), 422, "USAGE")
        assert refused["detail"] == unknown["detail"].replace("0" * 64, CODE.id)
        assert refused["detail"] == (
            f"unknown code {CODE.id}: you have not sent it, or it has expired. Send it again with `runrig run`"
        )
        half = packed(CODE, [TRAIN])
        assert _post(it, half, "cleo").json()["missing"] == [sha256(DATA), sha256(b"#!/bin/sh\n")]
        assert _known(it, CODE, "cleo") == 404, "the contents of another user fill no gap"
        _send(it, CODE, [DATA, b"#!/bin/sh\n", TRAIN], "cleo")
        assert _submit(it, CODE.id, "cleo").status_code == 201


def test_owner_and_administrator_can_read_the_code_that_ran(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        _send(it, CODE, [DATA, b"#!/bin/sh\n", TRAIN], "bob")
        made = _submit(it, CODE.id, "bob")
        assert (made.status_code, made.json()["id"]) == (201, "w-1")
        assert it.get("/api/v1/workflows/w-1")["code"] == CODE.id
        assert f"code: {CODE.id}" in it.get("/api/v1/workflows/w-1/spec")
        answer = it.http.get("/api/v1/workflows/w-1/code", headers=_as(it, "bob"))
        assert answer.headers["content-type"] == "application/gzip"
        assert answer.content == it.http.get("/api/v1/workflows/w-1/code").content, "equal code has equal bytes"
        with tarfile.open(fileobj=io.BytesIO(answer.content), mode="r:gz") as tar:
            found = {each.name: (each.mode, each.linkname or tar.extractfile(each).read()) for each in tar}  # type: ignore[union-attr]
        assert found == {
            "lib/data": (0o644, DATA),
            "lib/latest": (0o777, "data"),
            "run.sh": (0o755, b"#!/bin/sh\n"),
            "train.py": (0o644, TRAIN),
        }
        it.submit(one_task("bare"))
        problem(it.http.get("/api/v1/workflows/bare-1/code"), 404, "NOTFOUND")


def test_user_who_can_only_see_a_workflow_can_read_neither_its_values_nor_its_code(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        _send(it, CODE, [DATA, b"#!/bin/sh\n", TRAIN], "bob")
        _submit(it, CODE.id, "bob")
        cleo = _as(it, "cleo")
        assert it.http.get("/api/v1/workflows/w-1", headers=cleo).status_code == 200
        assert it.http.get("/api/v1/workflows/w-1/spec", headers=cleo).status_code == 200
        assert it.http.get("/api/v1/workflows/w-1/spec", headers=cleo, params={"template": True}).status_code == 403
        said = problem(it.http.get("/api/v1/workflows/w-1/code", headers=cleo), 403, "FORBIDDEN")["detail"]
        assert said.startswith(
            "cleo cannot cancel, hold or restart workflow w-1 of bob, or read its code. Required role: "
        )


def test_administrator_who_repeats_a_workflow_gets_its_code(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        _send(it, CODE, [DATA, b"#!/bin/sh\n", TRAIN], "bob")
        _submit(it, CODE.id, "bob")
        again = it.call("POST", "/api/v1/workflows/w-1/repeat", {"pool": "pool1"})
        assert it.get(f"/api/v1/workflows/{again['id']}")["code"] == CODE.id
        assert _known(it, CODE) == 204
        assert it.http.get(f"/api/v1/workflows/{again['id']}/code").status_code == 200


@pytest.mark.parametrize(
    ("body", "said"),  # two bodies take a second, which each process of a run would need only to collect the test
    [
        (lambda: b"\x1f\x8b broken", "the sent code is damaged ("),
        (lambda: packed(CODE, [DATA])[:-9], "the sent code is damaged ("),
        (lambda: packed(CODE, [TRAIN], hashes=[sha256(DATA)]), "the sent code is damaged (its end is missing)"),
        (
            lambda: packed(CODE, [b"print('trick')\n"], hashes=[sha256(TRAIN)]),
            "the sent contents do not have the SHA-256 ",
        ),
        (
            lambda: packed(CODE, [TRAIN, b"more"], hashes=[sha256(TRAIN)]),
            "the sent code has more contents than it lists",
        ),
        (lambda: packed(CODE, [b"other"]), "invalid list of contents: must be"),
        (lambda: packed(CODE, [TRAIN, TRAIN]), "invalid list of contents: one is listed twice"),
        (lambda: gzip.compress(CODE.written() + b"\n{}\n"), "invalid list of contents: must be"),
        (lambda: gzip.compress(b"{}"), "invalid manifest: must be"),
        (lambda: gzip.compress(b" " * 300_000_000, 9), "the manifest is larger than 8 MiB"),
        (lambda: packed(manifest({"../../etc/passwd": b"x"})), "'../../etc/passwd' has an empty part"),
        (
            lambda: packed(CODE, [b"\0" * 200_000_000], hashes=[sha256(TRAIN)]),
            "the sent contents do not have the SHA-256 ",
        ),
    ],
)
def test_damaged_or_hostile_code_is_refused_in_one_line_and_stores_nothing(
    tmp_path: Path, body: Callable[[], bytes], said: str
) -> None:
    with api(tmp_path) as it:
        refused = problem(_post(it, body()), 422, "USAGE")
        assert refused["detail"].startswith(said)
        assert "\n" not in refused["detail"]
        assert _rows(it) == 0


def test_oversized_body_is_refused_before_unpacking_and_other_routes_keep_their_limit(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        big = b"x" * (LARGEST_CODE + 1)
        assert problem(_post(it, big), 413, "USAGE")["detail"] == "the request is larger than 40 MiB. Send less"
        for path in ("/api/v1/code/", "/api/v1/codes", "/api/v1/workflows"):
            assert it.http.post(path, content=big[: 3 * 1024 * 1024]).status_code == 413


def test_each_user_has_a_quota_of_stored_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "LARGEST_OF_USER", 50_000)
    with api(tmp_path) as it:
        _send(it, CODE, [DATA, b"#!/bin/sh\n", TRAIN], "bob")
        noise = b"".join(sha256(str(number).encode()).encode() for number in range(2000))
        more = manifest({"noise": noise})
        before = _rows(it)
        refused = problem(_post(it, packed(more, [noise]), "bob"), 409, "CONFLICT")
        assert "bytes, but bob has only " in refused["detail"]
        assert (_rows(it), _known(it, more, "bob")) == (before, 404)
        assert _known(it, CODE, "bob") == 204
        _send(it, manifest({"small": b"x"}), [b"x"], "cleo")


def test_unused_code_is_deleted_after_a_day_and_with_its_last_workflow(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        retention = it.desk.service.retention
        shared = manifest({"train.py": TRAIN, "other": b"o"})
        _send(it, CODE, [DATA, b"#!/bin/sh\n", TRAIN])
        _send(it, shared, [b"o"])
        it.desk.time[0] += 86_000
        while retention.step():
            pass
        assert (_known(it, CODE), _known(it, shared)) == (204, 204), "asking keeps both for a day more"
        assert _submit(it, CODE.id).status_code == 201
        it.desk.time[0] += 2 * 86_400
        while retention.step():
            pass
        assert (_known(it, CODE), _known(it, shared)) == (204, 404)
        assert _post(it, packed(shared)).json()["missing"] == [sha256(b"o")], "what other code has too stays"
        it.call("POST", "/api/v1/workflows/w-1/cancel", {})
        it.desk.later(40)
        it.desk.later(91 * 86_400)
        while retention.step():
            pass
        assert (_known(it, CODE), _rows(it)) == (404, 0)


def test_code_is_deleted_for_each_user_separately(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        for user in ("bob", "cleo"):
            _send(it, CODE, [DATA, b"#!/bin/sh\n", TRAIN], user)
        _submit(it, CODE.id, "bob")
        it.desk.time[0] += 2 * 86_400
        while it.desk.service.retention.step():
            pass
        assert (_known(it, CODE, "bob"), _known(it, CODE, "cleo")) == (204, 404)


@pytest.mark.parametrize("harmed", [CODE.id, sha256(TRAIN)], ids=["manifest", "content"])
def test_damaged_code_affects_only_workflows_that_use_it(tmp_path: Path, harmed: str) -> None:
    other = manifest({"train.py": TRAIN})
    with api(tmp_path) as it:
        _send(it, CODE, [DATA, b"#!/bin/sh\n", TRAIN])
        _send(it, other, [])
        _send(it, CODE, [DATA, b"#!/bin/sh\n", TRAIN], "bob")
        with it.desk.store.transactions.writing() as connection:
            harm = "UPDATE code_pieces SET data = x'00' WHERE hash = ? AND user = (SELECT user FROM codes WHERE id = ?)"
            assert connection.exec_driver_sql(harm, (harmed, other.id)).rowcount == 1
        id = _submit(it, CODE.id).json()["id"]
        answer = it.http.get(f"/api/v1/workflows/{id}/code")
        assert "stored code is damaged" in problem(answer, 404, "NOTFOUND")["detail"]
        assert it.http.get(f"/api/v1/workflows/{_submit(it, CODE.id, 'bob').json()['id']}/code").status_code == 200
        it.desk.time[0] += 3 * 86_400
        assert set(it.desk.store.code.prune(it.desk.time[0])) == {other.id}
        assert it.desk.store.code.prune(it.desk.time[0]) == ()


def test_backend_without_pods_serves_no_code_to_pods(tmp_path: Path) -> None:
    with api(tmp_path) as it:
        answer = it.http.get("/api/v1/pod-code", headers={"Authorization": "Bearer header.claims.signature"})
        assert problem(answer, 401, "FORBIDDEN")["detail"].startswith("the token is missing or invalid")
