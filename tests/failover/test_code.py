"""Code of workflows with two servers on one database: the leader is killed while code is sent, and what was sent is there for the next."""

import io
import os
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from runrig.domain.code import sha256
from tests.patience import PATIENCE_S, until
from tests.stores import store_url
from tests.worlds.code import manifest, packed
from tests.worlds.service import one_task

from .servers import Server, Site, site

PATH = "/api/v1/code"
FILES = {"noise": os.urandom(3_000_000), "train.py": b"print('train')\n"}
CODE = manifest(FILES)
BODY = packed(CODE, [FILES[path] for path in sorted(FILES)])


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Site]:
    with store_url("postgresql", tmp_path) as url, site(tmp_path, url) as found:
        yield found


def kill(here: Site, leader: Server) -> Server:
    """Returns the next leader."""
    here.forget(leader)
    until(lambda: here.servers[0].ready, said=here.logs)
    return here.servers[0]


def pieces(here: Site) -> int:
    with here.store() as store, store.transactions.reading() as connection:
        return int(connection.exec_driver_sql("SELECT count(*) FROM code_pieces").scalar_one())


def test_leader_killed_during_an_upload_leaves_nothing_and_the_next_two_have_later_uploads(here: Site) -> None:
    bearer = {"Authorization": f"Bearer {here.admin()}"}
    here.start(2)
    leader = here.leader()
    place = urlsplit(leader.url)
    head = f"POST {PATH} HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: {bearer['Authorization']}\r\n"
    with socket.create_connection((place.hostname or "", place.port or 0), PATIENCE_S) as half:
        half.sendall(f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY[: len(BODY) // 2])
        leader = kill(here, leader)
    assert pieces(here) == 0
    here.start(1)
    with httpx2.Client(base_url=leader.url, headers=bearer, timeout=PATIENCE_S) as http:
        sent = http.post(PATH, content=packed(CODE))
        assert sent.json() == {"id": CODE.id, "missing": [file.sha256 for file in CODE.files]}
        assert http.post(PATH, content=BODY).json() == {"id": CODE.id, "missing": []}
        text = one_task("w") + f"  code: {CODE.id}\n"
        id = http.post("/api/v1/workflows", json={"pool": "team", "file": text}).json()["id"]
    leader = kill(here, leader)
    with httpx2.Client(base_url=leader.url, headers=bearer, timeout=PATIENCE_S) as http:
        assert http.head(f"{PATH}/{CODE.id}").status_code == 204
        archived = http.get(f"/api/v1/workflows/{id}/code")
        with tarfile.open(fileobj=io.BytesIO(archived.content), mode="r:gz") as tar:
            found = {each.name: sha256(file.read()) for each in tar if (file := tar.extractfile(each)) is not None}
        assert found == {file.path: file.sha256 for file in CODE.files}
        assert http.post(PATH, content=packed(CODE)).json()["missing"] == [], "the next send has nothing to send"
