"""The page of limits of users, and its forms."""

import re
from pathlib import Path

from tests.web.visitor import site, words_of


def test_an_administrator_limits_a_user_and_each_user_of_a_pool_after_a_preview(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        it.desk.submit("a", gpus=2)
        it.desk.service.settle()
        visitor = it.visitor()
        assert "No limits." in words_of(visitor.page("/limits"))
        of_user, of_pool = "/limits/user?name=ann", "/limits/pool/pool1"
        shown = visitor.fill(of_user, gpus="1").text
        assert "GPUs at the same time: no limit → 1 ann is above it: GPUs at the same time 2, at most 1." in words_of(
            shown
        )
        assert "No limits." in words_of(visitor.page("/limits"))
        assert visitor.confirm(of_user, shown).headers["location"] == "/limits"
        shown = visitor.fill(of_pool, waiting="9", budget="2000").text
        left = "0.0 of 2,000 GPU-hours used this month, 2,000.0 left; it renews on 2027-02-01 00:00:00 UTC."
        assert f"GPU-hours in a month: {left}" in words_of(shown)
        visitor.confirm(of_pool, shown)
        own = words_of(visitor.page("/me"))
        assert "GPUs at the same time in all pools 2 of 1 Waiting workflows in pool1 0 of 9" in own
        assert "GPU-hours until 2027-02-01 in pool1 at most 2,000" in own
        rows = re.findall(r"<tr><th.*?</tr>", visitor.page("/limits").partition("<tbody>")[2])
        assert [re.sub(r"(<[^>]*>)+", " ", each).split() for each in rows] == [
            ["ann", "all", "pools", "GPUs", "at", "the", "same", "time", "2", "of", "1", "Change…"],
            ["all", "users", "pool1", "GPU-hours", "in", "a", "month", "at", "most", "2,000", "Change…"],
            ["each", "user", "pool1", "Waiting", "workflows", "at", "most", "9", "Change…"],
        ]
        shown = visitor.fill(of_user, gpus="").text
        assert "GPUs at the same time: 1 → no limit" in words_of(shown)
        visitor.confirm(of_user, shown)
        assert "ann" not in visitor.page("/limits").partition("<tbody>")[2].partition("</tbody>")[0]


def test_limits_are_not_overwritten_and_wrong_ones_are_refused_in_their_field(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        path = "/limits/pool/pool1"
        shown = visitor.fill(path, gpus="8").text
        visitor.confirm(path, visitor.fill(path, gpus="4").text)
        late = visitor.confirm(path, shown)
        assert (late.status_code, "were changed" in late.text) == (412, True)
        for name, said, most in (
            *(("gpus", said, "1000000") for said in ("0", "x", "1.5", "9999999")),
            ("budget", "9999999999", "1000000000"),
        ):
            answer = visitor.fill(path, **{name: said})
            assert (
                f"'{said}' is not a limit. Use a whole number from 1 to {most}, or nothing for no limit."
                in words_of(answer.text)
            )
        assert visitor.get("/limits/user?name=nobody").status_code == 404


def test_users_see_their_own_limits_and_change_none(tmp_path: Path) -> None:
    with site(tmp_path) as it:
        visitor = it.visitor()
        for path in ("/limits/pool/pool1", "/limits/pool/pool2"):
            visitor.confirm(path, visitor.fill(path, gpus="1").text)
        bob = it.person("bob", "pool2-user")
        page = words_of(bob.page("/limits"))
        assert ("pool2" in page, "pool1" in page, "Change…" in page, "Set limits" in page) == (
            True,
            False,
            False,
            False,
        )
        denied = [
            bob.get(path).status_code for path in ("/limits/user?name=bob", "/limits/pool/pool2", "/limits/pool/pool1")
        ]
        assert denied == [403, 403, 404]
        admin = it.person("cy", "pool2-admin")
        assert "Change…" in words_of(admin.page("/limits"))
        assert admin.get("/limits/pool/pool2").status_code == 200
