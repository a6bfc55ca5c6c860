"""The page of a pool: over time, who used how much, who waits at which place, what runs."""

import re
from pathlib import Path

import pytest

from runrig.domain.gangs import Priority
from tests.web.visitor import Site, site, words_of
from tests.worlds.service import one_task, submit

CLUSTER = """
pools:
- {name: team, quota: 4, max_run_time: 2d, gpus_per_workflow: 4, user_waiting: 9, subpools: [{name: a, quota: 1}]}
- {name: zebra, quota: 4}
"""


def used(it: Site) -> None:
    """bob runs on all of team for an hour, and sue after him; four groups wait, one of them in a subpool."""
    service = it.desk.service
    service.usage.step()
    submit(service, one_task("first", gpus=3, duration=3600.0), "team", "bob")
    submit(service, one_task("zoo", gpus=4, duration=9e6), "zebra", "zoe")
    service.settle()
    it.desk.later(3600)
    submit(service, one_task("second", gpus=3, duration=9e6), "team", "sue")
    service.settle()
    it.desk.later(1800)
    for name, pool, priority in (
        ("low", "team", Priority.LOW),
        ("mid", "team", Priority.NORMAL),
        ("top", "team", Priority.HIGH),
    ):
        submit(service, one_task(name, gpus=2, duration=9e6), pool, "bob", priority)
        it.desk.later(1)
    for _ in range(2):
        submit(service, one_task("below", gpus=1, duration=9e6), "team--a", "sue")
        it.desk.later(1)
    service.usage.step()


def text(part: str) -> str:
    return words_of(f"<main {part}")


def section(page: str, id: str) -> str:
    """The text of the live section *id*."""
    found = re.search(rf'<div id="{id}" data-live>(.*?)</section>', page, re.DOTALL)
    assert found is not None, id
    return text(found[1])


def test_queue_has_positions_workflows_and_reasons(tmp_path: Path) -> None:
    with site(tmp_path, gpus=8, cluster=CLUSTER) as it:
        used(it)
        page = it.visitor().page("/pool/team")
        rows = re.findall(r"<tr><td class=\"n\">.*?</tr>", page, re.DOTALL)
        assert [text(row) for row in rows] == [
            "1 top-1 HIGH team bob 2 GPUs Guarantee P2 quota: 0 GPUs left in team, needs 2",
            "1 below-2 NORMAL team--a sue 1 GPU Guarantee P2 quota: 0 GPUs left in team--a, needs 1",
            "2 mid-1 NORMAL team bob 2 GPUs Guarantee P2 quota: 0 GPUs left in team, needs 2",
            "3 low-1 LOW team bob 2 GPUs Balance Q3 idle quota: 0 GPUs in the cluster, needs 2",
        ]
        running = section(page, "running")
        assert "second-1 NORMAL team sue 3 GPUs 30m05s n0" in running
        assert "below-1" in running


def test_users_are_listed_by_usage_and_the_time_range_can_be_chosen(tmp_path: Path) -> None:
    with site(tmp_path, gpus=8, cluster=CLUSTER) as it:
        used(it)
        visitor = it.visitor()
        assert section(visitor.page("/pool/team"), "users").startswith(
            "User Share GPU-hours Waited Lost bob 3 0 0 sue 1.5 0 0"
        )
        it.desk.later(2 * 86_400.0)
        assert section(visitor.page("/pool/team?used=24h"), "users").startswith(
            "User Share GPU-hours Waited Lost sue 98 24.5 0 bob 0 147 0"
        )
        for path in ("/pool/team?used=30d&over=7d", "/pool/team?used=never&over=never"):
            page = visitor.page(path)
            assert len(re.findall(r'aria-current="true"', page)) == 2, path


@pytest.mark.parametrize(("over", "rows"), [("1h", 60), ("24h", 2), ("7d", 2), ("30d", 1), ("", 2)])
def test_each_range_has_a_picture_and_a_row_for_each_step(tmp_path: Path, over: str, rows: int) -> None:
    with site(tmp_path, gpus=8, cluster=CLUSTER) as it:
        used(it)
        page = it.visitor().page(f"/pool/team?over={over}")
        table = re.findall(r'<tr><th scope="row" class="time">.*?</tr>', page, re.DOTALL)
        assert (len(table), page.count('class="step"'), page.count('<svg class="chart"')) == (rows, rows, 1)
        if over == "":
            assert [text(row) for row in table] == ["01-15 09:00 4 3 0 0 0 1 0", "01-15 08:00 4 3 0 0 0 1 0"]


def test_a_short_history_says_which_minutes_are_averages(tmp_path: Path) -> None:
    with site(tmp_path, gpus=8, cluster=CLUSTER) as it:
        used(it)
        assert "averages of whole hours" not in it.visitor().page("/pool/team?over=1h")
    with site(tmp_path / "other", gpus=8, cluster=CLUSTER) as it:
        it.desk.submit("a", "team", gpus=1, duration=9e6)
        it.desk.later(1800)
        it.desk.submit("b", "team", gpus=1, duration=9e6)
        it.desk.service.settle()
        it.desk.service.usage.step()
        assert "Before 08:31 UTC: averages of whole hours" in it.visitor().page("/pool/team?over=1h")


def test_limits_of_the_pool_are_among_its_facts(tmp_path: Path) -> None:
    with site(tmp_path, cluster=CLUSTER) as it:
        words = words_of(it.visitor().page("/pool/team"))
        for each in (
            "runs end after at most 2d",
            "at most 4 GPUs in one workflow",
            "at most 9 waiting workflows of one user",
        ):
            assert each in words
        assert "at most" not in words_of(it.visitor().page("/pool/zebra")).partition("GPUs over time")[0]


def test_usage_and_queue_show_nothing_of_other_pools(tmp_path: Path) -> None:
    with site(tmp_path, gpus=8, cluster=CLUSTER) as it:
        used(it)
        visitor = it.person("eve", "team-viewer")
        page = visitor.page("/pool/team?over=7d&used=30d")
        assert [each for each in ("zebra", "zoe", "zoo") if each in page] == []
        assert "bob" in page
        assert visitor.get("/pool/zebra?over=1h").status_code == 404


def test_earlier_time_has_the_numbers_up_to_then(tmp_path: Path) -> None:
    with site(tmp_path, gpus=8, cluster=CLUSTER) as it:
        it.desk.service.keeper.step()
        used(it)
        page = it.visitor().page("/pool/team?at=2027-01-15T08:30:00Z&over=24h")
        assert len(re.findall(r'<tr><th scope="row" class="time">', page)) == 1
        assert "first-1" in section(page, "running")
        assert "top-1" not in page
