"""Every page, search and act of the web page, and the ways in which people use them: tests walk through these rows.

A test says with `covers` which rows it walks and how, and pytest runs it once for each. tests/web/test_every_cell.py fails for each
page, form and way that no test has.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Any, TypeVar

import pytest

from runrig.domain.access import role_named
from runrig.domain.credentials import CredentialKind
from runrig.domain.gangs import Priority
from runrig.domain.notices import When
from tests.browser.small import ARRAY, HOSTILE, Small
from tests.worlds.service import do, one_task, submit

T = TypeVar("T", bound=Callable[..., Any])


class Way(StrEnum):
    KEYBOARD = "by keyboard alone"
    PLAIN = "without scripts"
    HOSTILE = "with hostile text"


@dataclass(frozen=True, slots=True)
class Page:
    """*route*: as the application declares it. *path*: one such page of `small`."""

    route: str
    path: str = ""

    @property
    def at(self) -> str:
        return self.path or self.route


@dataclass(frozen=True, slots=True)
class Search:
    """A form that only reads. *action*: as in its template. *field*: its selector. *said*: on the page that answers.

    *button*: "": Enter in the field does.
    """

    action: str
    at: str
    field: str
    said: str
    typed: str = HOSTILE
    button: str = ""

    @property
    def route(self) -> str:
        return read_by(self.action)


def read_by(action: str) -> str:
    """The name of a form that only reads."""
    return f"form {action}"


Made = Callable[[Small], str]
_numbers = count(1)


def fresh(it: Small) -> str:
    return f"walk{next(_numbers)}"


@dataclass(frozen=True, slots=True)
class Act:
    """*make*: what it acts on; other texts have what it returns as {it}. *at*: the page. *picks*: what is selected there first.

    *opens*: the link or button that leads to the form. *typed*: label to value; "on" for a box. *button*: the last. *said*: by
    its preview; "": it has none. *done*: whether the API says that it is done, or the page, where no API knows. *once*: it answers
    with a page that is shown once.
    """

    route: str
    at: str
    opens: str
    button: str
    done: Callable[[Small, str, str], object]
    make: Made = fresh
    typed: Mapping[str, str] = field(default_factory=dict)
    said: str = ""
    picks: str = ""
    once: bool = False


Row = TypeVar("Row", Page, Search, Act)


def covers(rows: Iterable[Row], *ways: Way) -> Callable[[T], T]:
    """The test takes each of *rows* as its argument ``row``."""
    chosen = tuple(rows)

    def marked(test: T) -> T:
        covers_routes({each.route for each in chosen}, *ways)(test)
        ids = [f"{each.route} {getattr(each, 'opens', '')}".strip() for each in chosen]
        each: T = pytest.mark.parametrize("row", chosen, ids=ids)(test)
        return each

    return marked


def covers_routes(routes: Iterable[str], *ways: Way) -> Callable[[T], T]:
    """The test walks through *routes* by itself."""
    found = frozenset((route, way) for route in routes for way in ways)

    def marked(test: T) -> T:
        test.cells = getattr(test, "cells", frozenset()) | found  # type: ignore[attr-defined]
        return test

    return marked


PAGES = (
    Page("/"),
    Page("/map"),
    Page("/waiting"),
    Page("/workflows", "/workflows?q=is:array&open=points-1"),
    Page("/workflows", "/workflows?q=odd"),
    Page("/workflow/{id}", "/workflow/odd-1"),
    Page("/workflow/{id}", "/workflow/big-1"),
    Page("/workflow/{id}", "/workflow/points-1"),
    Page("/find", "/find?q=train"),
    Page("/usage"),
    Page("/pool/{name}", "/pool/vision"),
    Page("/pool/{name}", "/pool/nlp--chat?over=30d"),
    Page("/pool/{name}/what-if", "/pool/vision/what-if?quota=20"),
    Page("/node/{name}", "/node/n1"),
    Page("/limits"),
    Page("/me"),
    Page("/access"),
    Page("/access/user/{user}", "/access/user/root"),
    Page("/login"),
)
NOT_PAGES = (
    "/login/oidc",
    "/page/layout",
    "/page/live",
    "/page/output/{id}",
    "/page/series",
    "/page/state",
    "/page/yours",
    "/static/{tag}/{name}",
    "/workflow/{id}/output.txt",
    "/workflows/list.csv",
    "/workflows/list.json",
)
"""Data for scripts and programs, and the way to the identity provider."""

SEARCHES = (
    Search("/find", "/usage", ".find [name=q]", "Nothing that you can see has"),
    Search("/workflows", "/workflows", "#q", "use only one part of a name"),
    Search("/access", "/access", "main [name=q]", "No users match this filter"),
    Search("/limits/user", "/limits", "main [name=name]", "Not found"),
    Search("/map", "/map", "main [name=size]", "Invalid request"),
    Search("/waiting", "/waiting", "main [name=pool]", "vision", "vision", "Show"),
    Search("{{ here }}", "/node/n1", "#time [name=at]", "Invalid request"),
    Search("{{ here }}#output-title", "/workflow/odd-1", "main [name=find]", "with " + HOSTILE, button="Search"),
)


# ---------------------------------------------------------------- what acts need


def _work(it: Small, text: str, priority: Priority = Priority.NORMAL) -> str:
    found = submit(it.desk.service, text, "nlp", "root", priority)
    it.desk.service.settle()
    return found


def _waits(it: Small) -> str:
    return _work(it, one_task(fresh(it), gpus=8, duration=9e6))


def _low(it: Small) -> str:
    return _work(it, one_task(fresh(it), gpus=8, duration=9e6), Priority.LOW)


def _held(it: Small) -> str:
    found = _waits(it)
    do(it.desk.service, it.desk.service.submissions.holding(found, user="root"))
    return found


def _ended(it: Small) -> str:
    found = _waits(it)
    do(it.desk.service, it.desk.service.submissions.cancelling(found, user="root"))
    it.desk.service.settle()
    return found


def _array(it: Small) -> str:
    return _work(it, ARRAY.replace("name: points", f"name: {fresh(it)}"))


def _subpool(it: Small) -> str:
    name = fresh(it)
    it.desk.service.subpools.create("nlp", name, 0, user="root")
    return name


def _paused(it: Small) -> str:
    name = _subpool(it)
    it.desk.service.declarations.pause_pool(f"nlp--{name}", user="root", reason="")
    return name


def _closed(it: Small) -> str:
    name = _subpool(it)
    it.desk.service.declarations.close_pool(f"nlp--{name}", user="root", reason="")
    return name


def _node(cordoned: bool) -> Made:
    def made(it: Small) -> str:
        it.desk.service.nodes.cordon(["n4"], user="root", cordoned=cordoned)
        return "n4"

    return made


def _user(it: Small) -> str:
    name = fresh(it)
    it.desk.service.access.users.create(name, [role_named("vision-user")], actor="root")
    it.desk.service.access.tokens.create(name, "laptop", None, actor="root")
    return name


def _disabled(it: Small) -> str:
    name = _user(it)
    it.desk.service.access.users.set_disabled(name, True, actor="root")
    return name


def _token(it: Small) -> str:
    name = fresh(it)
    it.desk.service.access.tokens.create("root", name, None, actor="root")
    return name


def _credential(it: Small) -> str:
    name = fresh(it)
    it.desk.service.access.credentials.set("root", name, CredentialKind.GENERIC, {"key": "x"}, actor="root")
    return name


NOTICES = "https://127.0.0.1:1/?<script>alert(1)</script>"


def notices_on(it: Small) -> str:
    it.desk.service.notices.set("root", NOTICES, (When.FAIL,), 0, it.desk.service.stored)
    return ""


def _notices_off(it: Small) -> str:
    it.desk.service.notices.turn_off("root")
    return ""


def _no_pool(it: Small) -> str:
    it.desk.service.access.set_profile("root", {"pool": None})
    return ""


# ---------------------------------------------------------------- what the API says


def _workflow(name: str, value: object, id: str = "{it}") -> Callable[[Small, str, str], object]:
    return lambda it, made, page: it.api(f"/api/v1/workflows/{id.replace('{it}', made)}")[name] == value


def _pool(name: str, value: object) -> Callable[[Small, str, str], object]:
    return lambda it, made, page: it.api(f"/api/v1/pools/nlp--{made}")[name] == value


def _conditions(*names: str) -> Callable[[Small, str, str], object]:
    return lambda it, made, page: {*names} <= {*it.api("/api/v1/nodes/n4")["conditions"]}


def _names(path: str, name: str = "{it}", *, gone: bool = False) -> Callable[[Small, str, str], object]:
    """Whether the list at *path* has *name*, or has it no more."""

    def found(it: Small, made: str, page: str) -> bool:
        items = it.api(path.replace("{it}", made))["items"]
        return (name.replace("{it}", made) in [each["name"] for each in items]) != gone

    return found


FILE = one_task("{it}", gpus=1, duration=9e6)
ACTS = (
    Act(
        "/submit",
        "/workflows",
        "Submit",
        "Submit",
        _workflow("priority", "LOW", "{it}-1"),
        typed={"Workflow file": FILE, "Pool": "nlp", "Priority": "LOW"},
        said="{it} would",
    ),
    Act(
        "/run",
        "/submit",
        "use the short form",
        "Submit",
        _workflow("pool", "nlp", "{it}-1"),
        typed={"Command, without a shell": "./{it}.sh '<b>'", "Pool": "nlp", "Image": HOSTILE.replace(" ", "")},
        said="{it} would",
    ),
    Act(
        "/workflow/{id}/again",
        "/workflow/{it}",
        "Submit again…",
        "Submit",
        lambda it, made, page: it.api(f"/api/v1/workflows/{made.removesuffix('1')}2")["priority"] == "LOW",
        _ended,
        typed={"Priority": "LOW"},
        said="would",
    ),
    Act(
        "/workflow/{id}/restart",
        "/workflow/{it}",
        "Restart…",
        "Restart",
        lambda it, made, page: it.api(f"/api/v1/workflows/{made.removesuffix('1')}2")["repeats"] == made,
        _ended,
    ),
    Act(
        "/workflow/{id}/cancel",
        "/workflow/{it}",
        "Cancel…",
        "Cancel {it}",
        _workflow("status", "FAILED_CANCELED"),
        _waits,
        {"Reason (stored with the workflow)": HOSTILE},
    ),
    Act("/workflow/{id}/hold", "/workflow/{it}", "Hold…", "Hold {it}", _workflow("held_by", "root"), _waits),
    Act("/workflow/{id}/release", "/workflow/{it}", "Release…", "Release {it}", _workflow("held_by", None), _held),
    Act(
        "/workflow/{id}/reassign",
        "/workflow/{it}",
        "Move or reprioritise…",
        "Change {it}",
        lambda it, made, page: (
            [it.api(f"/api/v1/workflows/{made}")[each] for each in ("pool", "priority")] == ["nlp--chat", "LOW"]
        ),
        _waits,
        {"Pool": "nlp--chat", "Priority": "LOW"},
        "Pool: nlp → nlp--chat",
    ),
    Act(
        "/workflow/{id}/array",
        "/workflow/{it}",
        "Elements at a time…",
        "Change {it}",
        lambda it, made, page: it.api(f"/api/v1/workflows/{made}")["array"]["most"] == 4,
        _array,
        {"How many may run at a time": "4"},
        "2 elements would enter the queue now",
    ),
    Act(
        "/workflow/{id}/elements",
        "/workflow/{it}",
        "Cancel elements…",
        "Cancel 2 elements",
        lambda it, made, page: it.api(f"/api/v1/workflows/{made}")["array"]["cancelled"] == 2,
        _array,
        {"Elements": "7,9", "Reason (stored with the workflow)": HOSTILE},
        "2 elements would be cancelled",
    ),
    *(
        Act("/workflows/act", "/workflows?q={it}", opens, button, done, make, picks="Select {it}")
        for opens, button, done, make in (
            ("Cancel…", "Cancel 1 workflow", _workflow("status", "FAILED_CANCELED"), _waits),
            ("Hold…", "Hold 1 workflow", _workflow("held_by", "root"), _waits),
            ("Release…", "Release 1 workflow", _workflow("held_by", None), _held),
            ("LOW…", "Set the priority of 1 workflow to LOW", _workflow("priority", "LOW"), _waits),
            ("NORMAL…", "Set the priority of 1 workflow to NORMAL", _workflow("priority", "NORMAL"), _low),
            ("HIGH…", "Set the priority of 1 workflow to HIGH", _workflow("priority", "HIGH"), _waits),
        )
    ),
    Act(
        "/workflows/columns",
        "/workflows",
        "Choose columns…",
        "Show these",
        lambda it, made, page: ">Labels</th>" in page,
        typed={"Labels": "on"},
    ),
    Act(
        "/pool/{name}/edit",
        "/pool/nlp",
        "Edit…",
        "Change nlp",
        lambda it, made, page: it.api("/api/v1/pools/nlp")["weight"] == int(made),
        lambda it: str(1 + next(_numbers)),
        {"Weight": "{it}"},
        "weight",
    ),
    Act(
        "/pool/{name}/edit",
        "/pool/nlp--{it}",
        "Resize…",
        "Change nlp--{it}",
        lambda it, made, page: it.api(f"/api/v1/pools/nlp--{made}")["gpus"]["quota"] == 1,
        _subpool,
        {"Quota in GPUs, or a percentage of the parent such as 25%": "1"},
        "0 → 1",
    ),
    Act(
        "/pool/{name}/subpool",
        "/pool/nlp",
        "New subpool…",
        "Create",
        lambda it, made, page: it.api(f"/api/v1/pools/nlp--{made}")["gpus"]["quota"] == 1,
        typed={"Name after nlp--": "{it}", "Quota in GPUs, or a percentage such as 25%": "1"},
        said="nlp--{it}",
    ),
    Act(
        "/pool/{name}/delete",
        "/pool/nlp--{it}",
        "Delete…",
        "Delete nlp--{it}",
        _names("/api/v1/pools?limit=500", "nlp--{it}", gone=True),
        _subpool,
        said="Computed at revision",
    ),
    Act(
        "/pool/{name}/pause",
        "/pool/nlp--{it}",
        "Pause…",
        "Pause nlp--{it}",
        _pool("paused_reason", HOSTILE),
        _subpool,
        {"Reason (shown to users whose work waits or is refused)": HOSTILE, "Until": "2h"},
        "Computed at revision",
    ),
    Act(
        "/pool/{name}/resume",
        "/pool/nlp--{it}",
        "Resume…",
        "Resume nlp--{it}",
        _pool("paused_by", None),
        _paused,
        said="Computed at revision",
    ),
    Act(
        "/pool/{name}/close",
        "/pool/nlp--{it}",
        "Close…",
        "Close nlp--{it}",
        _pool("closed_reason", HOSTILE),
        _subpool,
        {"Reason (shown to users whose work waits or is refused)": HOSTILE},
    ),
    Act("/pool/{name}/open", "/pool/nlp--{it}", "Open…", "Open nlp--{it}", _pool("closed_by", None), _closed),
    Act(
        "/apply",
        "/",
        "Cluster file…",
        "Apply",
        _names("/api/v1/pools?limit=500"),
        typed={"Cluster file": "pools: [{name: {it}, quota: 0}]"},
        said="{it}",
    ),
    Act(
        "/limits/user",
        "/limits",
        "Change limits of eve",
        "Set limits",
        lambda it, made, page: ("eve", int(f"7{made}")) in it.limits("waiting"),
        lambda it: str(next(_numbers)),
        {"Waiting workflows": "7{it}"},
        "7{it}",
    ),
    Act(
        "/limits/pool/{name}",
        "/limits",
        "Change limits of vision",
        "Set limits",
        lambda it, made, page: (None, int(f"5{made}")) in it.limits("waiting"),
        lambda it: str(next(_numbers)),
        {"Waiting workflows": "5{it}"},
        "5{it}",
    ),
    Act(
        "/me/pool",
        "/me",
        "Change…",
        "Save",
        lambda it, made, page: it.desk.service.access.profile("root").pool == "nlp",
        _no_pool,
        {"Pool": "nlp"},
    ),
    Act(
        "/me/notices",
        "/me",
        "Turn on…",
        "Save",
        lambda it, made, page: it.api("/api/v1/me/notices")["when"] == ["start", "fail", "preempt"],
        _notices_off,
        {"Send them to": NOTICES, "starts": "on", "Only at the end of workflows that ran for at least": "10m"},
        once=True,
    ),
    Act(
        "/me/notices/off",
        "/me",
        "Turn off…",
        "Turn notices off",
        lambda it, made, page: not it.api("/api/v1/me/notices")["when"],
        notices_on,
    ),
    Act(
        "/me/token",
        "/me",
        "Create token…",
        "Create",
        _names("/api/v1/tokens"),
        typed={"Name": "{it}", "Description": HOSTILE},
        once=True,
    ),
    Act(
        "/me/change/{name}",
        "/me",
        "Change {it}",
        "Save",
        lambda it, made, page: (
            (made, HOSTILE) in [(each["name"], each["description"]) for each in it.api("/api/v1/tokens")["items"]]
        ),
        _token,
        {"Roles": "all", "Description": HOSTILE},
    ),
    Act("/me/revoke/{name}", "/me", "Revoke {it}", "Revoke token {it}", _names("/api/v1/tokens", gone=True), _token),
    Act(
        "/me/credential",
        "/me",
        "Create credential…",
        "Create",
        _names("/api/v1/credentials"),
        typed={"Name": "{it}", "Values, one KEY: VALUE per line": "key: " + HOSTILE},
    ),
    Act(
        "/me/credential/delete/{name}",
        "/me",
        "Delete {it}",
        "Delete credential {it}",
        _names("/api/v1/credentials", gone=True),
        _credential,
    ),
    Act(
        "/access/create",
        "/access",
        "Create user…",
        "Create",
        _names("/api/v1/users?limit=500"),
        typed={"User": "{it}", "Roles": "vision-user"},
    ),
    Act(
        "/access/grant",
        "/access/user/{it}",
        "Grant a role…",
        "Grant",
        lambda it, made, page: "viewer" in it.api(f"/api/v1/users/{made}")["roles"],
        _user,
        {"User": "{it}", "Role": "viewer"},
    ),
    Act(
        "/access/revoke/{user}/{role}",
        "/access/user/{it}",
        "Revoke vision-user",
        "Revoke vision-user of {it}",
        lambda it, made, page: not it.api(f"/api/v1/users/{made}")["roles"],
        _user,
    ),
    Act(
        "/access/user/{user}/disable",
        "/access/user/{it}",
        "Disable…",
        "Disable {it}",
        lambda it, made, page: it.api(f"/api/v1/users/{made}")["disabled"],
        _user,
    ),
    Act(
        "/access/user/{user}/enable",
        "/access/user/{it}",
        "Enable…",
        "Enable {it}",
        lambda it, made, page: not it.api(f"/api/v1/users/{made}")["disabled"],
        _disabled,
    ),
    Act(
        "/access/user/{user}/token",
        "/access/user/{it}",
        "Create token…",
        "Create",
        _names("/api/v1/users/{it}/tokens", "ci"),
        _user,
        {"Name": "ci", "Description": HOSTILE},
        once=True,
    ),
    Act(
        "/access/user/{user}/change/{name}",
        "/access/user/{it}",
        "Change laptop",
        "Save",
        lambda it, made, page: it.api(f"/api/v1/users/{made}/tokens")["items"][0]["description"] == HOSTILE,
        _user,
        {"Roles": "vision-user", "Description": HOSTILE},
    ),
    Act(
        "/access/user/{user}/revoke/{name}",
        "/access/user/{it}",
        "Revoke laptop",
        "Revoke token laptop of {it}",
        _names("/api/v1/users/{it}/tokens", "laptop", gone=True),
        _user,
    ),
    Act("/node/{name}/cordon", "/node/n4", "Cordon…", "Cordon n4", _conditions("Cordoned"), _node(False)),
    Act(
        "/node/{name}/uncordon",
        "/node/n4",
        "Uncordon…",
        "Uncordon n4",
        lambda it, made, page: "Cordoned" not in it.api("/api/v1/nodes/n4")["conditions"],
        _node(True),
    ),
    Act(
        "/node/{name}/drain",
        "/node/n4",
        "Drain…",
        "Drain n4",
        _conditions("Cordoned"),
        _node(False),
        said="Computed at revision",
    ),
)
