"""What is done on pages, by their forms: submitting, submitting again, restarting, cancelling."""

from pathlib import Path
from urllib.parse import urlencode

import pytest

from runrig.domain.gangs import Priority
from runrig.domain.plan import MoveWorkflow
from runrig.domain.records import Event
from runrig.domain.workflows import Workflow
from runrig.ports.store import WorkflowQuery
from runrig.service.runtime.retention import DAYS, Retention
from tests.api.client import URL
from tests.web.visitor import Site, fields_of, site, words_of
from tests.worlds.service import do, one_task

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>'\""
ACTS = (
    "/workflow/a-1/cancel",
    "/workflow/a-1/again",
    "/workflow/f-1/restart",
    "/workflow/a-1/hold",
    "/workflow/a-1/release",
    "/workflow/a-1/reassign",
    "/submit",
)
FILE = one_task("mine")


def settle(it: Site) -> None:
    """What is to stop stops, which takes a while."""
    it.desk.service.settle()
    it.desk.later(60)


def busy(it: Site) -> None:
    """a-1 of ann runs in pool1; f-1 was cancelled."""
    it.desk.submit("f", gpus=1)
    it.desk.service.settle()
    do(it.desk.service, it.desk.service.submissions.cancelling("f-1", user="ann"))
    settle(it)
    it.desk.submit("a", gpus=2)
    it.desk.service.settle()


def _stored(it: Site, id: str) -> Workflow:
    return it.desk.store.head(id)


def _ids(it: Site) -> list[str]:
    found, _ = it.desk.service.workflow_queries.workflows(WorkflowQuery(limit=100))
    return sorted(each.id for each in found)


# ---------------------------------------------------------------- effects


def test_cancelled_workflow_shows_who_cancelled_it_and_why(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        visitor = it.visitor()
        assert "1 pod on 1 node with 2 GPUs will be stopped." in words_of(visitor.page("/workflow/a-1/cancel"))
        answer = visitor.fill("/workflow/a-1/cancel", message="wrong data")
        assert (answer.status_code, answer.headers["location"]) == (303, "/workflow/a-1")
        settle(it)
        assert it.desk.status("a-1") == "FAILED_CANCELED"
        assert _stored(it, "a-1").cancelled_by == "ann"
        assert "wrong data" in visitor.page("/workflow/a-1")
        assert "It is already " in visitor.page("/workflow/a-1/cancel")


def test_cancelling_a_waiting_workflow_removes_it_from_the_queue(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        it.desk.submit("b", gpus=2)
        it.desk.service.settle()
        assert "It has not started. Cancelling removes it from the queue." in words_of(
            it.visitor().page("/workflow/b-1/cancel")
        )


def test_file_is_previewed_before_it_is_submitted(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        visitor = it.visitor()
        shown = visitor.fill("/submit", file=FILE.replace("\n", "\r\n"), pool="pool2", priority="LOW")
        assert (shown.status_code, "mine would start now on n0." in words_of(shown.text)) == (200, True)
        assert _ids(it) == ["a-1", "f-1"]
        answer = visitor.confirm("/submit", shown.text)
        assert (answer.status_code, answer.headers["location"]) == (303, "/workflow/mine-1")
        it.desk.service.settle()
        made = _stored(it, "mine-1")
        assert (made.pool, made.priority, made.submitted_by) == ("pool2", Priority.LOW, "ann")
        assert it.desk.service.workflow_queries.spec("mine-1").text == FILE


def test_values_are_filled_into_the_template(tmp_path: Path) -> None:
    file = FILE.replace("name: mine", "name: {{ called }}")
    with site(tmp_path) as it:
        visitor = it.visitor()
        shown = visitor.fill("/submit", file=file, pool="pool1", values="called=this\n\n")
        assert "this would start now" in words_of(shown.text)
        wrong = visitor.fill("/submit", file=file, pool="pool1", values="called")
        assert (wrong.status_code, "invalid line 'called'. Use one NAME=VALUE per line" in words_of(wrong.text)) == (
            422,
            True,
        )


def test_environment_labels_and_text_values_are_submitted(tmp_path: Path) -> None:
    file = FILE.replace("image: any", "image: 'any:{{ version }}'")
    with site(tmp_path) as it:
        visitor = it.visitor()
        typed = {"strings": "version=010", "environment": "MODE=fast\nLEVEL=2", "label": "team=vision"}
        shown = visitor.fill("/submit", file=file, pool="pool1", **typed)
        assert visitor.confirm("/submit", shown.text).status_code == 303
        (id,) = _ids(it)
        stored = it.desk.service.workflow_queries.spec(id).spec
        task = stored.groups[0].tasks[0]
        assert (task.image, dict(stored.labels)) == ("any:010", {"team": "vision"})
        assert {"MODE": "fast", "LEVEL": "2"}.items() <= dict(task.environment).items()
        for name in typed:
            wrong = visitor.fill("/submit", file=file, pool="pool1", **{**typed, name: "no sign"})
            assert (wrong.status_code, f'id="wrong-{name}"' in wrong.text) == (422, True), name


def test_submitted_values_equal_the_previewed_ones(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        shown = visitor.fill("/submit", file=FILE, pool="pool1")
        for change in (
            {"file": one_task("other")},
            {"pool": "pool2"},
            {"priority": "LOW"},
            {"file": f"# again\n{FILE}"},
        ):
            answer = visitor.confirm("/submit", shown.text, **change)
            assert (answer.status_code, "The result has changed since the last preview" in answer.text) == (
                200,
                True,
            ), change
        assert visitor.confirm("/submit", shown.text, shown="").status_code == 200
        assert _ids(it) == []


def test_workflow_is_submitted_again_with_its_secrets_and_another_priority(tmp_path: Path) -> None:
    file = FILE.replace("image: any", "image: any\n    environment: {TOKEN: hush}")
    with site(tmp_path) as it:
        it.desk.submit("mine", text=file)
        it.desk.service.settle()
        visitor = it.visitor()
        assert "hush" in visitor.page("/workflow/mine-1/again")
        shown = visitor.fill("/workflow/mine-1/again", pool="pool2", priority="LOW")
        assert "mine would start now" in words_of(shown.text)
        assert visitor.confirm("/workflow/mine-1/again", shown.text).headers["location"] == "/workflow/mine-2"
        made = _stored(it, "mine-2")
        assert (made.pool, made.priority, made.parent) == ("pool2", Priority.LOW, "mine-1")
        assert it.desk.service.workflow_queries.spec("mine-2").text == file


def test_only_failed_groups_are_restarted(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        visitor = it.visitor()
        shown = {id: visitor.page(f"/workflow/{id}") for id in ("a-1", "f-1")}
        acts = ("cancel", "restart", "again")
        links = [f'href="/workflow/{id}/{act}"' in page for id, page in shown.items() for act in acts]
        assert links == [True, False, True, False, True, True]
        answer = visitor.fill("/workflow/f-1/restart")
        assert (answer.status_code, answer.headers["location"]) == (303, "/workflow/f-2")
        refused = visitor.fill("/workflow/a-1/restart")
        assert (refused.status_code, "Only failed workflows can be restarted" in refused.text) == (409, True)


# ---------------------------------------------------------------- who may


@pytest.mark.parametrize("path", ACTS)
def test_user_without_permission_gets_no_button_and_is_refused(tmp_path: Path, path: str) -> None:
    with site(tmp_path) as it:
        busy(it)
        ann, eve, zoe = it.visitor(), it.person("eve", "pool1-viewer"), it.person("zoe", "pool2-user")
        form = fields_of(ann.page(path)) | {"step": "send"}
        page = path.rpartition("/")[0] or "/workflows"
        assert 'class="acts"' in ann.page(page)
        assert 'class="acts"' not in eve.page(page)
        own = fields_of(eve.page("/me"))["csrf"]
        before = _ids(it)
        assert [eve.get(path).status_code, zoe.get(path).status_code][: 2 if path != "/submit" else 0] in (
            [403, 404],
            [],
        )
        sent = form | {"csrf": own, "file": FILE, "pool": "pool1"}
        assert eve.post(path, sent).status_code == 403
        assert eve.post(path, form).status_code == 303, "with the secret of another session: to the login"
        assert zoe.post(path, sent | {"csrf": fields_of(zoe.page("/me"))["csrf"]}).status_code == 404
        it.desk.later(1)
        assert (_ids(it), it.desk.status("a-1")) == (before, "RUNNING")


def test_owner_can_cancel_and_another_user_of_the_pool_cannot(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        bob = it.person("bob", "pool1-user")
        shown = bob.fill("/submit", file=FILE)
        assert bob.confirm("/submit", shown.text).headers["location"] == "/workflow/mine-1"
        assert 'href="/workflow/mine-1/cancel"' in bob.page("/workflow/mine-1")
        assert 'class="acts"' not in bob.page("/workflow/a-1")
        assert bob.get("/workflow/a-1/cancel").status_code == 403
        assert bob.fill("/workflow/mine-1/cancel").status_code == 303
        refused = bob.fill("/submit", file=FILE, pool="pool2")
        assert (refused.status_code, "unknown pool 'pool2'" in words_of(refused.text)) == (404, True)


@pytest.mark.parametrize("path", ACTS)
def test_cookie_alone_cannot_act(tmp_path: Path, path: str) -> None:
    with site(tmp_path) as it:
        busy(it)
        visitor = it.visitor()
        form = fields_of(visitor.page(path)) | {"file": FILE, "pool": "pool1", "step": "send"}
        before = (_ids(it), it.desk.service.feed.newest())
        secret = form["csrf"]
        for wrong in ("", "x", secret[:-1], secret + "0", "0" * 64):
            assert visitor.post(path, form | {"csrf": wrong}, Accept="*/*").status_code == 401
        without = {name: value for name, value in form.items() if name != "csrf"}
        assert visitor.post(path, without, Accept="*/*").status_code == 401
        for body in (f"message=1&csrf={secret}", f"x{'y' * 300}=1&csrf={secret}", "", "&", f"csrf%3D{secret}"):
            answer = visitor.http.post(
                path, content=body, headers={"Origin": URL, "Content-Type": "application/x-www-form-urlencoded"}
            )
            assert answer.status_code == 401, body
        for kind in ("text/plain", "multipart/form-data; boundary=x", "application/json"):
            assert visitor.post(path, form, **{"Content-Type": kind, "Accept": "*/*"}).status_code == 401
        for headers in (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ):
            assert visitor.post(path, form, **headers, Accept="*/*").status_code in (401, 403), headers
        body, kind = urlencode(form), "application/x-www-form-urlencoded"
        opened = visitor.http.request("GET", path, content=body, headers={"Content-Type": kind, "Accept": "text/html"})
        assert opened.status_code == 200, "what a request without a second secret carries is not read"
        assert (_ids(it), it.desk.service.feed.newest()) == before
        assert visitor.get(path).headers.get("content-encoding") is None, "a page with a secret is not zipped"


def test_form_key_is_read_however_its_bytes_arrive(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        visitor = it.visitor()
        form = fields_of(visitor.page("/workflow/a-1/cancel"))
        body = f"csrf={form['csrf']}&key={form['key']}&message={'m' * 500}".encode()
        pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
        headers = {"Origin": URL, "Content-Type": "application/x-www-form-urlencoded"}
        answer = visitor.http.post("/workflow/a-1/cancel", content=iter(pieces), headers=headers)
        assert answer.status_code == 303
        settle(it)
        assert "m" * 500 in visitor.page("/workflow/a-1")


# ---------------------------------------------------------------- repeated and invalid forms


def test_form_sent_twice_is_carried_out_once(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        visitor = it.visitor()
        for path, typed in (("/submit", {"file": FILE, "pool": "pool2"}), ("/workflow/f-1/again", {})):
            shown = visitor.fill(path, **typed).text
            assert len({visitor.confirm(path, shown).headers["location"] for _ in range(3)}) == 1
        for path in ("/workflow/f-1/restart", "/workflow/a-1/cancel"):
            form = fields_of(visitor.page(path))
            assert len({visitor.post(path, form).headers["location"] for _ in range(3)}) == 1
            settle(it)
            assert visitor.post(path, form).status_code == 303
        assert _ids(it) == ["a-1", "f-1", "f-2", "f-3", "mine-1"]
        cancels = [
            each
            for each in it.desk.service.workflow_queries.events("a-1")
            if isinstance(each, Event) and isinstance(each.action, MoveWorkflow)
        ]
        assert len([each for each in cancels if each.actor == "ann"]) <= 1


@pytest.mark.parametrize(
    ("typed", "status", "said"),
    [
        ({"file": ""}, 422, "the workflow file is missing. Paste or choose one."),
        ({"file": "workflow: {name: a"}, 422, "line 2: not valid YAML"),
        ({"file": FILE + "  colour: red\n"}, 422, "colour"),
        ({"pool": ""}, 422, "choose a pool."),
        ({"pool": "nowhere"}, 404, "unknown pool 'nowhere'"),
        ({"priority": "URGENT"}, 422, "choose a priority from the list."),
        ({"file": one_task("big", gpus=64)}, 400, "big needs 64 GPUs"),
        ({"key": "1", "step": "send"}, 422, "this form has no key. Reload the page."),
    ],
)
def test_errors_are_shown_and_no_input_is_lost(tmp_path: Path, typed: dict[str, str], status: int, said: str) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        good = {"file": FILE, "pool": "pool1", "priority": "LOW"}
        if "key" in typed:
            good |= {"shown": fields_of(visitor.fill("/submit", **good).text)["shown"]}
        answer = visitor.fill("/submit", **good | typed)
        assert (answer.status_code, said in words_of(answer.text)) == (status, True), words_of(answer.text)
        assert 'role="alert"' in answer.text
        kept = fields_of(answer.text)
        for name, value in (good | typed).items():
            if name in ("file", "values") or value in ("LOW", "pool1"):
                assert kept[name] == value


def test_html_in_any_field_is_escaped(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        busy(it)
        visitor = it.visitor()
        for path in ACTS:
            for field in ("file", "values", "pool", "priority", "message", "key", "shown", "step"):
                answer = visitor.fill(path, **{"file": FILE, "pool": "pool1"} | {field: SCRIPT})
                assert [each for each in ("<script>alert", "<img src=x") if each in answer.text] == [], (path, field)
                if path == "/workflow/a-1/cancel" and answer.status_code == 303:
                    assert field != "key"
        settle(it)
        assert "<script>alert" not in visitor.page("/workflow/a-1")


def test_form_with_too_many_fields_or_invalid_text_is_refused(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        csrf = fields_of(visitor.page("/submit"))["csrf"]
        headers = {"Origin": URL, "Content-Type": "application/x-www-form-urlencoded"}
        for body in (f"csrf={csrf}" + "&a=1" * 2_000, f"csrf={csrf}&file=%ff%fe", f"csrf={csrf}&file=\u00fc"):
            answer = visitor.http.post("/submit", content=body.encode(), headers=headers)
            assert answer.status_code == 422, body[-20:]


def test_empty_server_shows_how_to_start_and_a_busy_one_does_not(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        assert "runrig workflow submit hello.yaml --pool pool1" in it.visitor().page("/")
        assert "You cannot submit to any pool yet" in it.person("eve", "pool1-viewer").page("/")
        busy(it)
        assert "hello.yaml" not in it.visitor().page("/")


@pytest.mark.parametrize("left", ["nothing", "on hold", "without GPUs"])
def test_server_is_empty_again_once_everything_has_ended_and_was_deleted(tmp_path: Path, left: str) -> None:
    with site(tmp_path) as it:
        busy(it)
        visitor, days = it.visitor(), DAYS * 86_400
        do(it.desk.service, it.desk.service.submissions.cancelling("a-1", user="ann"))
        settle(it)
        it.desk.time[0] += days - 100
        if left != "nothing":
            text = one_task("left", duration=days)
            it.desk.submit("left", text=text.replace("{gpu: 1}", "{}") if left == "without GPUs" else text)
        if left == "on hold":
            do(it.desk.service, it.desk.service.submissions.holding("left-1", user="ann"))
        it.desk.service.settle()
        it.desk.time[0] += 200
        retention = Retention(it.desk.store, it.desk.backend, it.desk.service.clock, DAYS, it.desk.service.metrics)
        while retention.step():
            pass
        assert _ids(it) == ["left-1"] * (left != "nothing")
        assert ("hello.yaml" in visitor.page("/")) == (left == "nothing")


def test_restart_keeps_completed_groups_by_default(tmp_path: Path) -> None:
    text = """
workflow:
  name: f
  groups:
  - {name: first, tasks: [{name: prepare, lead: true, image: any, command: [x], duration: 1, resource: one}]}
  - name: second
    tasks: [{name: train, lead: true, image: any, command: [x], duration: 1000, resource: one, inputs: [{task: prepare}]}]
  resources: {one: {gpu: 1}}
"""
    for boxes, groups in (({}, ["second"]), ({"keep": ""}, ["first", "second"])):
        folder = tmp_path / groups[0]
        folder.mkdir()
        with site(folder) as it:
            it.desk.submit("f", text=text)
            it.desk.later(5)
            it.desk.later(5)
            do(it.desk.service, it.desk.service.submissions.cancelling("f-1", user="ann"))
            settle(it)
            visitor = it.visitor()
            assert "Restart what failed" in visitor.page("/workflow/f-1")
            fields = fields_of(visitor.page("/workflow/f-1/restart")) | {"step": "check"}
            assert "keep" in fields
            left = {name: value for name, value in fields.items() if name not in boxes}
            answer = visitor.post("/workflow/f-1/restart", left)
            assert answer.headers["location"] == "/workflow/f-2"
            shown = it.desk.service.workflow_queries.workflow("f-2")
            assert [each.name for each in shown.groups] == groups
