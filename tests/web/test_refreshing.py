"""Pages that are kept as they are: one answer for all who have the same roles, never for others, and pauses that keep the cost small."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runrig.domain.access import role_named
from runrig.service.commands.edits import CohortEdit
from runrig.web import refreshing
from runrig.web.refreshing import HEADER, MOST_S, PART, PAUSE, REQUEST_S, Refreshes, pause_s
from tests.web.visitor import Site, Visitor, site

PEOPLE = {
    "ada": ("admin",),
    "vera": ("viewer",),
    "ulla": ("user",),
    "mina": ("pool1-user",),
    "mona": ("pool1-viewer",),
    "otto": ("pool2-user",),
    "beth": ("pool1-user", "pool2-user"),
    "nell": (),
}
SHARED = ("/", "/waiting", "/waiting?pool=pool1", "/map", "/map?table=1", "/map?gang=b-1", "/map?size=1x1")
OWN = ("/workflows", "/workflow/a-1", "/pool/pool1", "/node/n0")
SECTION = re.compile(r'<(\w+) [^>]*\bid="([^"]+)"[^>]*\bdata-live(?!=)')


@contextmanager
def at_work(folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: object) -> Iterator[Site]:
    """Both pools run something, and something waits in both.  Shared answers stay good."""
    monkeypatch.setattr(refreshing, "LEAST_S", 1000.0)
    with site(folder, gpus=4, **settings) as it:
        for name, pool in (("a", "pool1"), ("b", "pool2"), ("c", "pool1"), ("d", "pool2")):
            it.desk.submit(name, pool, gpus=2)
            it.desk.service.settle()
        # Not every user can see this event.
        it.desk.service.declarations.create_cohort("org", CohortEdit(), user="ann")
        yield it


def refreshed(visitor: Visitor, path: str) -> str:
    found = visitor.get(path, **{HEADER: "1"})
    assert found.status_code == 200, found.text
    assert float(found.headers[PAUSE]) > 0
    return found.text


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the shared answers, as they are made."""
    made, make = list[str](), Refreshes._make

    async def counting(self: Refreshes, kept: Any, request: Any, draw: Any) -> Any:
        own = await make(self, kept, request, draw)
        made.extend([request.url.path] if own is None else [])
        return own

    monkeypatch.setattr(Refreshes, "_make", counting)
    return made


def sections(page: str) -> dict[str, str]:
    """What is live on *page*, by id: each up to where the next one begins that is no part of it."""
    found = {}
    for match in SECTION.finditer(page):
        depth = 0
        for tag in re.finditer(rf"<(/?){match[1]}\b[^>]*>", page[match.start() :]):
            depth += -1 if tag[1] else 1
            if not depth:
                found[match[2]] = page[match.start() : match.start() + tag.end()]
                break
    return found


def shared_of(it: Site) -> Refreshes:
    found: Refreshes = it.app.state.refreshes
    return found


def test_users_with_other_roles_get_their_own_response(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user gets the refreshed parts of their own page, whatever other users requested before."""
    with at_work(tmp_path, monkeypatch) as it:
        people = {name: it.person(name, *roles) for name, roles in PEOPLE.items()}
        allowed = {(n, p): v.get(p).status_code == 200 for (n, v), p in product(people.items(), SHARED + OWN)}
        own = {key: sections(people[key[0]].page(key[1])) for key, may in allowed.items() if may}
        assert len({str(own[name, "/"]) for name in PEOPLE}) == 6, "there is something to be mistaken for another's"
        # In both orders, each asks after every other: whoever gets what was kept for another differs in one of them.
        for path, order in product(SHARED + OWN, ([*PEOPLE], [*reversed(PEOPLE)])):
            shared_of(it)._kept.clear()
            for name in order:
                if allowed[name, path]:
                    assert sections(refreshed(people[name], path)) == own[name, path], (order, name, path)
                else:
                    assert people[name].get(path, **{HEADER: "1"}).status_code in (403, 404), (name, path)


def test_response_to_a_script_has_no_user_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with at_work(tmp_path, monkeypatch) as it:
        visitor = it.person("unmistakable", "admin")
        for path in SHARED:
            assert "unmistakable" in visitor.page(path)
            found = refreshed(visitor, path)
            assert "unmistakable" not in found
            assert "csrf" not in found


def test_page_is_rendered_once_for_all_users_with_the_same_roles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = counted(monkeypatch)
    with at_work(tmp_path, monkeypatch) as it:
        eve, bob, ann = it.person("eve", "pool1-user"), it.person("bob", "pool1-user"), it.person("zoe", "viewer")
        answers = [refreshed(each, "/") for each in (eve, bob) * 10]
        assert (len(set(answers)), made) == (1, ["/"])
        refreshed(ann, "/")
        refreshed(ann, "/map")
        assert made == ["/", "/", "/map"]
        eve.page("/")
        assert len(made) == 3, "who loads a page gets one that was made for them"


def test_old_response_is_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with at_work(tmp_path, monkeypatch) as it:
        eve = it.person("eve", "viewer")
        before = refreshed(eve, "/")
        it.desk.submit("new", "pool1")
        assert refreshed(eve, "/") == before
        for kept in shared_of(it)._kept.values():
            kept.good_until = 0.0
        found = refreshed(eve, "/")
        assert sections(found) == sections(eve.page("/"))
        assert "new-1" not in before
        assert f'data-revision="{it.desk.revision}"' in found


def test_user_who_lost_a_role_sees_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with at_work(tmp_path, monkeypatch) as it:
        eve = it.person("eve", "pool1-user", "pool2-user")
        assert "pool2" in refreshed(eve, "/")
        it.desk.service.access.users.withdraw("eve", role_named("pool2-user"), actor="ann")
        assert "pool2" not in refreshed(eve, "/")
        it.desk.service.access.users.set_disabled("eve", True, actor="ann")
        assert eve.get("/", **{HEADER: "1"}).headers["location"] == "/login"


def test_the_first_workflow_of_an_empty_server_is_not_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool in the command is that of the asker's profile."""
    made = counted(monkeypatch)
    with site(tmp_path) as it:
        eve, bob = it.person("eve", "user"), it.person("bob", "user")
        it.desk.service.access.set_profile("eve", {"pool": "pool2"})
        it.desk.service.access.set_profile("bob", {"pool": "pool1"})
        for visitor in (eve, bob, eve):
            assert sections(refreshed(visitor, "/")) == sections(visitor.page("/"))
        assert sections(eve.page("/")) != sections(bob.page("/"))
        assert made == []


@given(st.integers(1, 200), st.floats(0, 0.2))
def test_all_tabs_together_use_little_processor_time(streams: int, cost_s: float) -> None:
    pause = pause_s(streams, cost_s)
    assert pause == MOST_S or streams * (REQUEST_S + cost_s) / pause <= PART * 1.001
    assert pause_s(1, 0.01) == refreshing.LEAST_S, "one tab is quick"


def test_more_tabs_get_longer_pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with at_work(tmp_path, monkeypatch) as it:
        monkeypatch.setattr(refreshing, "LEAST_S", 2.0)
        eve = it.person("eve", "viewer")
        pauses = []
        for streams in (1, 100, 200):
            it.app.state.hub.streams = streams
            pauses.append([float(eve.get(path, **{HEADER: "1"}).headers[PAUSE]) for path in ("/", "/workflows")])
        assert all(shared < own <= MOST_S for shared, own in pauses[1:]), "what is made for one alone costs more"
        assert pauses[0][0] <= 2.0
        assert [each[0] for each in pauses[1:]] == [100 * REQUEST_S / PART, 200 * REQUEST_S / PART]
