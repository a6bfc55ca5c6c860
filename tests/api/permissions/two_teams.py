"""A server with two teams who must not see each other, and somebody of every role."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import httpx2
from sqlalchemy import select

from runrig.domain.access import role_named
from runrig.domain.credentials import CredentialKind
from runrig.domain.gangs import Priority
from runrig.ports.store import RevisionsQuery, WorkflowQuery
from runrig.store import schema
from tests.api.client import Api, api
from tests.worlds.code import manifest, packed
from tests.worlds.service import do, one_task, submit

CLUSTER = """
cohorts:
- {name: org}
- {name: zeta}
pools:
- {name: team, cohort: org, quota: 4, subpools: [{name: a, quota: 1}]}
- {name: team2, cohort: zeta, quota: 2, subpools: [{name: b, quota: 1}]}
"""

ROLES: Mapping[str, tuple[str, ...]] = {
    "ada": ("admin",),
    "vera": ("viewer",),
    "tina": ("team-admin",),
    "tom": ("team-user",),
    "tess": ("team-user",),
    "uwe": ("team2-user",),
    "nina": (),
}
"""*tom* and *uwe* own the work in their pools, *tess* only works beside tom."""

FOREIGN = ("team2", "uwe", "zeta")
"""What nobody of `team` may read anywhere: the other pool, its cohort, its user, and with the user's name all of its work."""

CANARY = "s3cr3t-canary"
SOURCE = b"print('hello')\n"
CODE = manifest({"train.py": SOURCE})
"""Everybody has sent this code."""
SETTINGS: Mapping[str, Any] = {"cluster": CLUSTER, "gpus": 8}


@dataclass
class TwoTeams:
    """*work*: per pool a workflow that runs; *old*: one that was cancelled."""

    api: Api
    tokens: Mapping[str, str]
    work: Mapping[str, str]
    old: Mapping[str, str]

    def send(self, actor: str | None, method: str, path: str, body: Any = None, **query: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.tokens[actor]}" if actor else ""}
        answer: httpx2.Response = self.api.http.request(method, path, json=body, params=query or None, headers=headers)
        return answer

    def get(self, actor: str, path: str, **query: Any) -> Any:
        answer = self.send(actor, "GET", path, **query)
        assert answer.status_code == 200, answer.text
        return answer.json() if answer.headers["content-type"] == "application/json" else answer.text

    def submit(self, user: str, name: str, pool: str, *, priority: Priority = Priority.NORMAL, gpus: int = 1) -> str:
        desk = self.api.desk
        desk.time[0] += 1
        text = one_task(name, gpus=gpus, extra=f"    environment: {{KEY: {CANARY}}}") + f"  code: {CODE.id}\n"
        id = submit(desk.service, text, pool, user, priority)
        desk.service.settle()
        return id

    def work_waits(self, *, held: bool) -> None:
        """From now on *work* has not started."""
        self.work = {
            pool: self.submit(user, f"{user}next", pool, gpus=gpus)
            for user, pool, gpus in (("tom", "team", 3), ("uwe", "team2", 1))
        }
        for pool, user in (("team", "tom"), ("team2", "uwe")) if held else ():
            do(self.api.desk.service, self.api.desk.service.submissions.holding(self.work[pool], user=user))

    def work_is_arrays(self) -> None:
        """From now on *work* is arrays of which one element runs."""
        tasks = "array: {indices: 0-3, most: 1}, tasks: [{name: main, image: i, command: [c], resource: none}]"
        texts = {
            user: f"workflow:\n  name: {user}array\n  resources: {{none: {{cpu: 1}}}}\n  groups: [{{name: g, {tasks}}}]\n"
            for user in ("tom", "uwe")
        }
        service = self.api.desk.service
        self.work = {
            pool: submit(service, texts[user], pool, user) for user, pool in (("tom", "team"), ("uwe", "team2"))
        }
        self.api.desk.service.settle()

    def portrait(self) -> tuple[object, ...]:
        """Everything that is kept, but for when tokens were used."""
        store = self.api.desk.store
        access = store.access.load()
        tokens = tuple(replace(each, last_used_at=None) for each in access.tokens)
        tags = store.tags.used(WorkflowQuery(limit=100))
        profiles = tuple(store.access.profile(user) for user in ROLES)
        said = store.log.pool_revisions(RevisionsQuery(limit=1000))
        with store.transactions.reading() as connection:
            codes = connection.execute(select(schema.codes).order_by(schema.codes.c.user, schema.codes.c.id)).all()
        whom = store.notices.settings()
        return store.load(), store.log.events(), replace(access, tokens=tokens), tags, profiles, said, codes, whom


@contextmanager
def two_teams(folder: Path, *, database: str | None = None) -> Iterator[TwoTeams]:
    """The server in *folder*.  On SQLite it is a copy of one that was built once: building takes some thirty transactions."""
    if database is not None:
        with api(folder, **SETTINGS, database=database) as it:
            yield _settled(it)
        return
    built = _built()
    shutil.copytree(built.folder, folder, dirs_exist_ok=True)
    with api(folder, **{**SETTINGS, "cluster": None}, time=built.time) as it:
        yield TwoTeams(it, built.tokens, dict(built.work), dict(built.old))


class Built(NamedTuple):
    """What `TwoTeams` tells of the server that lies in *folder*, closed; *time*: that of its clock."""

    folder: Path
    time: float
    tokens: Mapping[str, str]
    work: Mapping[str, str]
    old: Mapping[str, str]


@cache
def _built() -> Built:
    folder = Path(mkdtemp())
    with api(folder, **SETTINGS) as it:
        found = _settled(it)
        return Built(folder, it.desk.time[0], found.tokens, found.work, found.old)


def _settled(it: Api) -> TwoTeams:
    access = it.desk.service.access
    for user, roles in ROLES.items():
        access.users.create(user, [role_named(role) for role in roles], actor="ada")
    tokens = {user: access.tokens.create(user, "laptop", actor=user).text for user in ROLES}
    for user in ROLES:
        access.credentials.set(user, "spare", CredentialKind.GENERIC, {"key": CANARY}, actor=user)
        it.desk.service.codes.receive(user, BytesIO(packed(CODE, {SOURCE})))
    found = TwoTeams(it, tokens, {}, {})
    found.old = {pool: found.submit(user, f"{user}old", pool) for user, pool in (("tom", "team"), ("uwe", "team2"))}
    for id in found.old.values():
        do(it.desk.service, it.desk.service.submissions.cancelling(id, user="ada"))
    it.desk.later(31)
    found.work = {pool: found.submit(user, f"{user}job", pool) for user, pool in (("tom", "team"), ("uwe", "team2"))}
    return found
