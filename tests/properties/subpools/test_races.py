"""50 submit while 5 resize, delete and create again, and work ends meanwhile: on both stores, by the service and over HTTP.

Who comes first is chance, so nothing here says what is to be accepted.  But every answer is a yes or a no with its reason, the
log has exactly what was answered with yes, and the witness finds no revision of it in which a promise was broken.
"""

import faulthandler
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import pytest

from runrig.api.app import create_app
from runrig.backends.clock import ServerClock
from runrig.domain.access import role_named
from runrig.domain.errors import Conflict, Refused
from runrig.domain.gangs import Priority
from runrig.domain.plan import PutPool, Submit
from runrig.domain.pools import PoolState
from runrig.domain.records import Event
from runrig.service.commands.edits import PoolEdit
from tests.patience import PATIENCE_S
from tests.properties.subpools.restartable_server import RestartableServer, file
from tests.properties.subpools.witness import Witness, gpus
from tests.worlds.edits import amounts
from tests.worlds.http import Client, listening
from tests.worlds.service import submit

SUBMITTERS, EDITORS = 50, 5
SUBMISSIONS, EDITS = 6, 12
NODES = {f"n{at}": 8 for at in range(10)}
SHORTS = ("a", "b", "c")
POOLS = ("team", "team", "sim", *(f"team--{short}" for short in SHORTS))
PRIORITIES = ("HIGH", "NORMAL", "LOW")
TOKEN = "correct-horse"
EDIT_KINDS = ("resize", "resize", "delete", "create", "create", "parent")


class Answer(NamedTuple):
    """*said*: what the answer says of it: the id, or the quota or state that the pool now has; None: it was refused."""

    user: str
    what: str
    pool: str
    said: Any


class Work(NamedTuple):
    user: str
    name: str
    pool: str
    priority: str
    gpus: int


class Edit(NamedTuple):
    user: str
    what: str
    short: str
    share: int


Asked = Work | Edit
Person = Callable[[Asked], Any]
"""Asks for one person; answers None for a clear refusal, else what the answer says.  Raises whatever else comes."""
Way = Callable[[RestartableServer], AbstractContextManager[Callable[[str], Person]]]


def wanted(seed: int) -> list[list[Asked]]:
    """What each person asks for, one after the other: the same in every run."""
    mix = random.Random(seed)
    lists: list[list[Asked]] = []
    for at in range(SUBMITTERS):
        user = f"user{at}"
        lists.append(
            [
                Work(user, f"w{at}x{nth}", mix.choice(POOLS), mix.choice(PRIORITIES), mix.choice((1, 1, 2, 3, 4, 8)))
                for nth in range(SUBMISSIONS)
            ]
        )
    for at in range(EDITORS):
        edits = [(mix.choice(EDIT_KINDS), mix.choice(SHORTS), mix.randint(1, 20)) for _ in range(EDITS)]
        lists.append([Edit(f"admin{at}", *each) for each in edits])
    return lists


# ---------------------------------------------------------------- two ways to call it


@contextmanager
def by_service(server: RestartableServer) -> Iterator[Callable[[str], Person]]:
    yield lambda _user: lambda asked: _refusable(_done, server, asked)


def _refusable(do: Callable[..., Any], *args: Any) -> Any:
    try:
        return do(*args)
    except (Refused, Conflict) as error:
        said = error.message
    assert len(said) > 10
    return None


def _done(server: RestartableServer, asked: Asked) -> Any:
    subpools = server.service.subpools
    match asked:
        case Work(user, name, pool, priority, amount):
            text = file(name, amount)
            return submit(server.service, text, pool, user, Priority(priority))
        case Edit(user, "resize", short, share):
            return subpools.resize("team", short, share, user=user).now.gpus.quota
        case Edit(user, "create", short, share):
            return subpools.create("team", short, share, user=user).now.gpus.quota
        case Edit(user, "delete", short):
            return subpools.delete("team", short, user=user).view.pool.state.value
        case Edit(user, _, _, share):
            server.service.declarations.update_pool("team", PoolEdit(amounts(quota=30 + share)), user=user)
            return 30 + share


@contextmanager
def by_http(server: RestartableServer) -> Iterator[Callable[[str], Person]]:
    clients: list[Client] = []

    def person(user: str) -> Person:
        headers = {"Authorization": f"Bearer {TOKEN}", "x-osmo-user": user}
        client = Client(f"127.0.0.1:{port}", headers)
        clients.append(client)
        return lambda asked: _answered(client, asked)

    for at in range(max(SUBMITTERS, EDITORS)):
        for name in (f"user{at}", f"admin{at}"):
            server.service.access.users.create(name, [role_named("admin")], actor="ann")
    with listening(lambda port: create_app(server.service, token=TOKEN, port=port, user="ann")) as port:
        try:
            yield person
        finally:
            for client in clients:
                client.close()


def _answered(client: Client, asked: Asked) -> Any:
    at = "/api/configs/pool/team"
    match asked:
        case Work(_, name, pool, priority, amount):
            body = {"file": file(name, amount)}
            return _said(client.call("POST", f"/api/pool/{pool}/workflow?priority={priority}", body), "name")
        case Edit(_, "resize", short, share):
            return _said(client.call("PATCH", f"{at}/subpool/{short}", {"quota": share}), "quota")
        case Edit(_, "create", short, share):
            return _said(client.call("POST", f"{at}/subpool", {"name": short, "quota": share}), "quota")
        case Edit(_, "delete", short):
            return _said(client.call("DELETE", f"{at}/subpool/{short}"), "state")
        case Edit(_, _, _, share):
            settings = {"resources": {"gpu": {"guarantee": 30 + share}}}
            return _said(client.call("PATCH", at, {"configs_dict": settings}), "quota")


def _said(answer: tuple[int, Any], field: str) -> Any:
    status, body = answer
    if (status, body.get("error_code")) in ((400, "RESOURCE"), (409, "CONFLICT")):
        assert len(body["message"]) > 10
        return None
    assert status == 200, f"{status}: {body}"
    return body[field]


# ---------------------------------------------------------------- the race


def race(server: RestartableServer, ask: Callable[[str], Person], lists: Sequence[Sequence[Asked]]) -> list[Answer]:
    """All begin at once; whoever has got an answer ends a task of somebody, so that pools drain.  Fails if they hang."""
    gate = threading.Barrier(len(lists))
    answers: list[list[Answer]] = [[] for _ in lists]
    faults: list[BaseException] = []

    def live(at: int) -> None:
        try:
            person = ask(lists[at][0].user)
            gate.wait(PATIENCE_S)
            for nth, asked in enumerate(lists[at]):
                pool = asked.pool if isinstance(asked, Work) else f"team--{asked.short}"
                what = "submit" if isinstance(asked, Work) else asked.what
                answers[at].append(Answer(asked.user, what, "team" if what == "parent" else pool, person(asked)))
                server.cluster.end_one(at + nth)
        except BaseException as error:  # noqa: BLE001 - it is raised by who waits for the thread
            faults.append(error)
            gate.abort()

    threads = [threading.Thread(target=live, args=(at,), daemon=True) for at in range(len(lists))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), f"{thread.name} hangs: {sum(each.is_alive() for each in threads)} do"
    if faults:
        raise faults[0]
    return [answer for each in answers for answer in each]


@pytest.mark.parametrize("way", [by_service, by_http])
def test_racing_submissions_and_edits_break_no_rule(any_store: str, way: Way) -> None:
    """Laws S1, S2, P2, P3, R7, W2."""
    run(any_store, way, seed=4)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 125))
@pytest.mark.parametrize("way", [by_service, by_http])
def test_many_races_break_no_rule(any_store: str, way: Way, seed: int) -> None:
    run(any_store, way, seed)


def run(url: str, way: Way, seed: int) -> None:
    # If it hangs where no `join` would notice, all stacks are printed, and the run ends.
    faulthandler.dump_traceback_later(3 * PATIENCE_S, exit=True)
    try:
        _run(url, way, seed)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _run(url: str, way: Way, seed: int) -> None:
    with RestartableServer(url, NODES, ServerClock()) as server:
        server.pool("team", 40, a=10, b=10, c=5)
        server.pool("sim", 20)
        server.service.start()
        with way(server) as ask:
            answers = race(server, ask, wanted(seed))
        server.service._reconciler.stop()
        assert server.service.not_ready is None
        server.settle()
        events = Witness(server.store).follow()
        check_log(answers, events)
        check_not_idle(answers)
        drain(server)


def check_log(answers: Sequence[Answer], events: Sequence[Event]) -> None:
    """Each yes is in the log once, with who said it; and nothing else is."""
    ids = [(each.user, each.said) for each in answers if each.what == "submit" and each.said is not None]
    submitted = [event.action.workflow for event in events if isinstance(event.action, Submit)]
    assert Counter(ids) == Counter((each.submitted_by, each.id) for each in submitted)
    by_admin = [
        (event.actor, event.action)
        for event in events
        if isinstance(event.action, PutPool) and event.actor.startswith("admin")
    ]
    for user in sorted({each.user for each in answers} - {each.submitted_by for each in submitted}):
        done = [each for each in answers if each.user == user and each.said is not None and each.what != "submit"]
        check_edits(done, [edit for actor, edit in by_admin if actor == user])


def check_edits(done: Sequence[Answer], edits: Sequence[PutPool]) -> None:
    """In this order, each as it was answered.  A resize to what it was already is a yes without an entry."""
    left = list(edits)
    for answer in done:
        if left and said_of(left[0]) == (answer.what.replace("parent", "resize"), answer.pool, answer.said):
            del left[0]
        else:
            assert answer.what in ("resize", "parent"), f"{answer} was answered with yes, and is not in the log"
    assert not left, f"{left} are in the log, and nobody was told"


def said_of(edit: PutPool) -> tuple[str, str, Any]:
    """What was asked for, of which pool, and what the answer says of it."""
    pool, before = edit.pool, edit.before
    if pool.state is not PoolState.ACTIVE:
        return "delete", pool.name, pool.state.value
    is_new = before is None or before.state is not PoolState.ACTIVE
    return "create" if is_new else "resize", pool.name, gpus(pool)


def check_not_idle(answers: Sequence[Answer]) -> None:
    """There was something to race for."""
    found = Counter((each.what == "submit", each.said is not None) for each in answers)
    assert len(found) == 4, found


def drain(server: RestartableServer) -> None:
    """In the end all that runs ends, and no pool stays DELETING."""
    while server.cluster.running:
        for key in sorted(server.cluster.running):
            server.cluster.end(key)
        server.settle()
    Witness(server.store).follow()
    assert "DELETING" not in {pool.state.value for pool in server.rows().pools}
