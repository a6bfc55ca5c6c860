"""The cluster file on the page: the current one, its plan, and then the change."""

from pathlib import Path

import pytest

from runrig.service.commands.edits import PoolEdit
from tests.web.test_acts import SCRIPT
from tests.web.test_edits import quota, waiting
from tests.web.visitor import Site, fields_of, site, words_of

LENT = "pools: [{name: pool1, quota: 2}, {name: pool2, quota: 0}]"
MORE = """\
cohorts: [{name: labs}]
pools:
- {name: pool1, quota: 4, cohort: labs}
- {name: pool3, quota: 0, cohort: labs}
"""


def names(it: Site) -> list[str]:
    return [each.pool.name for each in it.desk.service.queries.pools()]


def test_current_settings_are_shown_and_a_changed_file_is_planned_and_then_applied(tmp_path: Path) -> None:
    with site(tmp_path, cluster=LENT) as it:
        waiting(it)
        visitor = it.visitor()
        assert 'href="/apply"' in visitor.page("/")
        opened = fields_of(visitor.page("/apply"))
        assert opened["file"].rstrip() == it.desk.service.declarations.export().rstrip()
        shown = visitor.fill("/apply", file=MORE)
        words = words_of(shown.text)
        for said in ("1 group (b-1) would start on 2 GPUs.", "quota of default/gpu 2 → 4", "Nothing has changed yet."):
            assert said in words, words
        assert (names(it), quota(it, "pool1")) == (["pool1", "pool2"], 2)
        answer = visitor.confirm("/apply", shown.text)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert (names(it), quota(it, "pool1")) == (["pool1", "pool2", "pool3"], 4)


def test_unchanged_file_changes_nothing(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor, before = it.visitor(), it.desk.service.declarations.export()
        shown = visitor.fill("/apply")
        assert "No workflow is affected." in words_of(shown.text)
        assert visitor.confirm("/apply", shown.text).status_code == 303
        assert it.desk.service.declarations.export() == before


@pytest.mark.parametrize(
    ("file", "status", "said"),
    [
        ("", 422, "the cluster file is missing. Paste or choose one."),
        ("pools: [{name: pool1, quota: many}]", 422, "line 1: "),
        ("pools: [", 422, "line 2: not valid YAML"),
        ("pools: [{name: pool1, quota: 2}, {name: pool1, quota: 1}]", 422, "pool1"),
        (SCRIPT, 422, ""),
    ],
)
def test_invalid_file_is_reported_at_its_field_and_kept(tmp_path: Path, file: str, status: int, said: str) -> None:
    with site(tmp_path) as it:
        answer = it.visitor().fill("/apply", file=file)
        assert (answer.status_code, said in words_of(answer.text)) == (status, True), words_of(answer.text)
        assert fields_of(answer.text)["file"] == file
        assert "<script>alert" not in answer.text


def test_concurrent_changes_are_not_silently_overwritten(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        shown = visitor.fill("/apply", file="pools: [{name: pool1, quota: 1}]")
        it.desk.service.declarations.update_pool("pool1", PoolEdit(settings={"description": "x"}), user="bob")
        lost = visitor.confirm("/apply", shown.text)
        assert (lost.status_code, 'role="alert"' in lost.text, quota(it, "pool1")) == (412, True, 2)
        again = visitor.post("/apply", fields_of(lost.text) | {"step": "check"})
        refused = visitor.confirm("/apply", again.text)
        assert (refused.status_code, "by bob" in words_of(refused.text)) == (409, True), words_of(refused.text)
        forced = visitor.post("/apply", fields_of(refused.text) | {"step": "check", "force": "yes"})
        assert visitor.confirm("/apply", forced.text).status_code == 303
        assert quota(it, "pool1") == 1


def test_only_cluster_administrators_see_and_submit_the_form(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        form = fields_of(it.visitor().page("/apply")) | {"step": "send", "file": MORE}
        lead = it.person("lead", "pool1-admin")
        assert (lead.get("/apply").status_code, 'href="/apply"' in lead.page("/")) == (403, False)
        assert lead.post("/apply", form | {"csrf": fields_of(lead.page("/me"))["csrf"]}).status_code == 403
        assert names(it) == ["pool1", "pool2"]
