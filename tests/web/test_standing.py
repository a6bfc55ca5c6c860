"""Pages of what is closed or held: a workflow on hold, moved, or reprioritised; a node that is cordoned, drained and opened."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runrig.domain.gangs import Priority
from runrig.domain.nodes import Node
from tests.web.test_acts import settle
from tests.web.visitor import Elements, Site, fields_of, site, words_of


@contextmanager
def waiting(folder: Path) -> Iterator[Site]:
    """a-1 runs, and b-1 waits for it."""
    with site(folder) as it:
        it.desk.submit("a", gpus=2)
        it.desk.submit("b", gpus=2)
        it.desk.service.settle()
        yield it


def acts_of(page: str) -> set[str]:
    return {str(each["href"]).rpartition("/")[2] for each in Elements(page).named("a") if "data-act" in each}


# ---------------------------------------------------------------- workflows


def test_held_workflow_shows_by_whom_and_is_released(tmp_path: Path) -> None:
    with waiting(tmp_path) as it:
        visitor = it.visitor()
        assert acts_of(visitor.page("/workflow/a-1")) == {"cancel", "reassign", "again"}
        assert acts_of(visitor.page("/workflow/b-1")) == {"cancel", "hold", "reassign", "again"}
        answer = visitor.fill("/workflow/b-1/hold")
        assert (answer.status_code, answer.headers["location"]) == (303, "/workflow/b-1")
        held = visitor.page("/workflow/b-1")
        assert acts_of(held) == {"cancel", "release", "reassign", "again"}
        assert "on hold" in words_of(held)
        assert "b-1 is waiting: put on hold by ann at 2027-01-15 08:00:02 UTC" in words_of(held)
        assert visitor.fill("/workflow/b-1/release").status_code == 303
        assert ">on hold<" not in visitor.page("/workflow/b-1")


def test_workflows_on_hold_are_listed_with_waiting_ones(tmp_path: Path) -> None:
    """Also where nothing stands in the queue, and only to those who see the pool."""
    with waiting(tmp_path) as it:
        visitor, stranger = it.visitor(), it.person("eve", "pool2-viewer")
        assert visitor.fill("/workflow/b-1/hold").status_code == 303
        for path in ("/", "/waiting"):
            shown = words_of(visitor.page(path))
            assert ("put on hold by ann" in shown, "Nothing is waiting" in shown) == (True, False), path
            shown = words_of(stranger.page(path))
            assert ("put on hold by ann" in shown, "Nothing is waiting" in shown) == (False, True), path


TWO_GROUPS = """
workflow:
  name: steps
  groups:
  - {name: first, tasks: [{name: one, image: any, command: [c], duration: 1000}]}
  - {name: then, tasks: [{name: two, image: any, command: [c], inputs: [{task: one}]}]}
"""


def test_running_workflow_shows_that_its_other_groups_are_held(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("steps", text=TWO_GROUPS)
        it.desk.service.settle()
        visitor = it.visitor()
        assert acts_of(visitor.page("/workflow/steps-1")) == {"cancel", "hold", "reassign", "again"}
        assert visitor.fill("/workflow/steps-1/hold").status_code == 303
        page = words_of(visitor.page("/workflow/steps-1"))
        assert ("RUNNING" in page, "on hold by ann since 2027-01-15 08:00:01" in page) == (True, True)


def test_hold_and_release_report_what_they_cannot_change(tmp_path: Path) -> None:
    with waiting(tmp_path) as it:
        visitor = it.visitor()
        for path, said in (
            ("/workflow/a-1/hold", "all groups of a-1 have started"),
            ("/workflow/b-1/release", "b-1 is not on hold"),
            ("/workflow/a-1/reassign", "a-1 has started"),
        ):
            typed = {"pool": "pool2"} if path.endswith("reassign") else {}
            answer = visitor.fill(path, **typed)
            assert (answer.status_code, said in words_of(answer.text)) == (409, True), words_of(answer.text)


def test_running_workflow_becomes_low_after_a_preview(tmp_path: Path) -> None:
    with waiting(tmp_path) as it:
        visitor = it.visitor()
        shown = visitor.fill("/workflow/a-1/reassign", priority="LOW")
        assert "Priority: NORMAL → LOW a-1 would keep its nodes, free" in words_of(shown.text)
        assert it.desk.store.head("a-1").priority is Priority.NORMAL
        assert visitor.confirm("/workflow/a-1/reassign", shown.text).status_code == 303
        assert it.desk.store.head("a-1").priority is Priority.LOW


def test_move_is_previewed_before_it_is_sent(tmp_path: Path) -> None:
    with waiting(tmp_path) as it:
        visitor = it.visitor()
        path = "/workflow/b-1/reassign"
        shown = visitor.fill(path, pool="pool2", priority="LOW")
        said = words_of(shown.text)
        assert "Pool: pool1 → pool2 Priority: NORMAL → LOW b-1 would start now on n0." in said
        before = it.desk.store.head("b-1")
        assert (before.pool, before.priority) == ("pool1", Priority.NORMAL)
        other = visitor.confirm(path, shown.text, priority="HIGH")
        assert (other.status_code, "Priority: NORMAL → HIGH" in words_of(other.text)) == (200, True)
        assert visitor.confirm(path, shown.text).headers["location"] == "/workflow/b-1"
        after = it.desk.store.head("b-1")
        assert (after.pool, after.priority) == ("pool2", Priority.LOW)


def test_move_that_is_refused_or_has_no_effect_is_not_offered(tmp_path: Path) -> None:
    with waiting(tmp_path) as it:
        it.desk.submit("c", priority=Priority.LOW, gpus=3)
        it.desk.service.settle()
        visitor = it.visitor()
        for id, typed, status, said in (
            ("c-1", {"priority": "NORMAL"}, 400, "c-1 needs 3 GPUs, but pool pool1"),
            ("b-1", {}, 409, "is already in pool pool1 with priority NORMAL"),
            ("b-1", {"pool": "nowhere"}, 404, "unknown pool 'nowhere'"),
            ("b-1", {"priority": "URGENT"}, 422, "choose a priority from the list"),
        ):
            answer = visitor.fill(f"/workflow/{id}/reassign", **typed)
            found = (answer.status_code, said in words_of(answer.text), 'value="send"' in answer.text)
            assert found == (status, True, False), words_of(answer.text)


def test_owner_cannot_move_work_into_another_teams_pool(tmp_path: Path) -> None:
    with waiting(tmp_path) as it:
        bob = it.person("bob", "pool1-user")
        shown = bob.fill("/submit", file="workflow: {name: mine, tasks: [{name: t, image: i, command: [c]}]}")
        assert bob.confirm("/submit", shown.text).status_code == 303
        refused = bob.fill("/workflow/mine-1/reassign", pool="pool2")
        assert (refused.status_code, "unknown pool 'pool2'" in words_of(refused.text)) == (404, True)
        assert bob.get("/workflow/b-1/hold").status_code == 403
        assert bob.get("/workflow/b-1/reassign").status_code == 403


# ---------------------------------------------------------------- nodes


@contextmanager
def busy(folder: Path) -> Iterator[Site]:
    """On n0 firm-1 and low-1 run, the latter in a pool of its own; n1 is empty."""
    nodes = (Node("n0", {"gpu": 3}), Node("n1", {"gpu": 2}))
    with site(folder, nodes=nodes) as it:
        it.desk.service.nodes.cordon(["n1"], user="ann", cordoned=True)
        it.desk.submit("firm", "pool1", gpus=2)
        it.desk.submit("low", "pool2", Priority.LOW)
        it.desk.service.settle()
        it.desk.later(1)
        it.desk.service.nodes.cordon(["n1"], user="ann", cordoned=False)
        assert (it.desk.status("firm-1"), it.desk.status("low-1")) == ("RUNNING", "RUNNING")
        yield it


def test_node_is_cordoned_and_uncordoned(tmp_path: Path) -> None:
    with busy(tmp_path) as it:
        visitor = it.visitor()
        assert acts_of(visitor.page("/node/n0")) == {"cordon", "drain"}
        assert visitor.fill("/node/n0/cordon").headers["location"] == "/node/n0"
        page = visitor.page("/node/n0")
        assert acts_of(page) == {"uncordon", "drain"}
        said = "Cordoned: no new pods. Waiting for 2 groups to finish."
        assert said in words_of(page)
        assert visitor.fill("/node/n0/uncordon").status_code == 303
        assert "Cordoned:" not in words_of(visitor.page("/node/n0"))


def test_drain_previews_what_stops_and_forces_only_on_request(tmp_path: Path) -> None:
    with busy(tmp_path) as it:
        visitor = it.visitor()
        opened = visitor.page("/node/n0/drain")
        said = words_of(opened).partition("Preview")[2]
        assert "Stopped low-1 (pool2, LOW, 1 GPU" in said
        assert "Keeps running firm-1 (pool1, NORMAL, 2 GPUs)" in said
        forced = visitor.confirm("/node/n0/drain", opened, force="yes")
        assert (forced.status_code, it.desk.status("firm-1")) == (200, "RUNNING")
        said = words_of(forced.text).partition("Preview")[2]
        assert "Stopped firm-1 (pool1, NORMAL, 2 GPUs" in said
        assert "Keeps running" not in said
        assert visitor.confirm("/node/n0/drain", opened).headers["location"] == "/node/n0"
        page = visitor.page("/node/n0")
        said = (
            "Draining: no new pods, LOW workflows are being stopped. Waiting for 1 group to finish and 1 group to stop."
        )
        assert said in words_of(page)
        settle(it)
        assert "firm-1" in visitor.page("/node/n0")
        assert "low-1" not in words_of(visitor.page("/node/n0"))
        forced = visitor.fill("/node/n0/drain", force="yes")
        assert visitor.confirm("/node/n0/drain", forced.text).status_code == 303
        settle(it)
        assert "The node is empty." in words_of(visitor.page("/node/n0"))
        assert acts_of(visitor.page("/node/n0")) == {"uncordon"}


def test_past_page_shows_what_ran_on_the_node(tmp_path: Path) -> None:
    with busy(tmp_path) as it:
        it.desk.service.keeper.step()
        visitor, then = it.visitor(), it.desk.revision
        opened = visitor.page("/node/n0/drain")
        visitor.confirm("/node/n0/drain", opened)
        settle(it)
        page = visitor.page(f"/node/n0?at={then}")
        assert ("low-1" in words_of(page), "Draining:" in words_of(page), acts_of(page)) == (True, False, set())


@pytest.mark.parametrize("act", ["cordon", "uncordon", "drain"])
def test_only_an_admin_sees_the_buttons_of_a_node(tmp_path: Path, act: str) -> None:
    with busy(tmp_path) as it:
        ann, eve = it.visitor(), it.person("eve", "pool1-admin")
        form = fields_of(ann.page(f"/node/n0/{act}")) | {"step": "send", "csrf": fields_of(eve.page("/me"))["csrf"]}
        before = it.desk.revision
        assert acts_of(eve.page("/node/n0")) == set()
        assert eve.get(f"/node/n0/{act}").status_code == 403
        assert eve.post(f"/node/n0/{act}", form).status_code == 403
        assert it.desk.revision == before
        assert "another pool – LOW 1 running" in words_of(eve.page("/node/n0"))
        assert "low-1" not in eve.page("/node/n0")


@pytest.mark.parametrize("act", ["cordon", "uncordon", "drain"])
def test_unknown_node_is_reported(tmp_path: Path, act: str) -> None:
    with busy(tmp_path) as it:
        answer = it.visitor().get(f"/node/n9/{act}")
        assert (answer.status_code, "Node 'n9' not found" in words_of(answer.text)) == (404, True)


# ---------------------------------------------------------------- numbers and words


def test_usage_of_cordoned_nodes_does_not_reduce_free_gpus_of_others(tmp_path: Path) -> None:
    with busy(tmp_path) as it:
        it.desk.service.nodes.cordon(["n0"], user="ann", cordoned=True)
        visitor = it.visitor()
        page = words_of(visitor.page("/"))
        assert "GPUs in use 3 of 5 HIGH, NORMAL 2 LOW 1 Free 2" in page
        assert "Nodes 2 1 accepts no new pods" in page
        assert "2 nodes, 3 of 5 GPUs in use; 1 node accepts no new pods" in words_of(visitor.page("/map"))


def test_commands_are_shown_as_code_and_everything_else_as_text(tmp_path: Path) -> None:
    with waiting(tmp_path) as it:
        page = it.visitor().get("/workflow/nothing-1").text
        assert "<code>runrig workflow list</code>" in page
        page = it.visitor().get("/workflow/%3Cb%3E%60%3Ci%3E").text
        assert ("<b>" in page, "<i>" in page, "&lt;b&gt;" in page) == (False, False, True)
