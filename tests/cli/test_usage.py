"""`runrig usage` of the worked example of docs/usage.md, and what it answers to wrong questions."""

import csv
import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from runrig.api.app import create_app
from runrig.cli.rendering.usage_page import page
from runrig.domain.access import role_named
from runrig.domain.gangs import Priority
from runrig.service.service import Service
from runrig.store import schema
from tests.worlds.command_line import Done, runrig
from tests.worlds.http import listening
from tests.worlds.service import desk, one_task, submit
from tests.worlds.usage import TEN, example_service

TOKEN = "0123456789abcdef" * 2
TIMES = ("--since", "2026-09-24T10:00Z", "--until", "2026-09-24T12:00Z")


class There:
    def __init__(self, url: str, token: str) -> None:
        self._env = {"RUNRIG_SERVER": url, "RUNRIG_TOKEN": token}

    def usage(self, *args: str, width: int | None = None) -> Done:
        return runrig("usage", *args, env=self._env, width=width)

    def answer(self, *args: str) -> Any:
        return json.loads(self.usage(*args, *TIMES, "-t", "json").out)


@contextmanager
def there(folder: Path, user: str = "root") -> Iterator[There]:
    """*user* `sam` may use pool speech alone."""
    with example_service(folder) as service:
        service.access.users.create("sam", [role_named("speech-user")], actor="root")
        with asked(service, user) as it:
            yield it


@contextmanager
def asked(service: Service, user: str = "root") -> Iterator[There]:
    token = service.access.tokens.create(user, "laptop", actor=user).text if user != "root" else TOKEN
    with listening(lambda port: create_app(service, token=TOKEN, port=port, user="root")) as port:
        yield There(f"http://127.0.0.1:{port}", token)


BY_POOL = """\
GPU-hours, 2026-09-24 10:00 to 12:00 UTC
Pool    Quota  Held  Guaranteed  Borrowed  Lent  Waited  Lost  Portion lost
------  -----  ----  ----------  --------  ----  ------  ----  ------------
speech    4.0   5.1         2.5       2.5   0.0     2.9   3.1           61%
vision   12.0   7.5         7.5       0.0   2.5     0.0   0.0            0%
------  -----  ----  ----------  --------  ----  ------  ----  ------------
SUM      16.0  12.5        10.0       2.5   2.5     3.0   3.1           24%
"""
BY_USER = """\
GPU-hours, 2026-09-24 10:00 to 12:00 UTC
From              User  Priority  Held  Waited  Lost  Portion lost
----------------  ----  --------  ----  ------  ----  ------------
2026-09-24 10:00  ann   NORMAL     3.5     0.0   0.0            0%
2026-09-24 10:00  sam   LOW        3.1     0.9   3.1          100%
2026-09-24 11:00  ann   NORMAL     4.0     0.0   0.0            0%
2026-09-24 11:00  sam   LOW        2.0     2.0   0.0            0%
----------------  ----  --------  ----  ------  ----  ------------
SUM                               12.5     3.0   3.1           24%
"""
BY_FLAVOR = """\
GPU-hours, 2026-09-24 10:00 to 12:00 UTC
Flavor  Capacity  Held  Free  Down  Idle while requested  Waited  Lost  In use
------  --------  ----  ----  ----  --------------------  ------  ----  ------
h100        16.0  12.5   3.5   0.0                   1.5     3.0   3.1     78%
------  --------  ----  ----  ----  --------------------  ------  ----  ------
SUM         16.0  12.5   3.5   0.0                   1.5     3.0   3.1     78%
"""


def test_the_worked_example_is_shown_as_tables(tmp_path: Path) -> None:
    with there(tmp_path) as it:
        assert it.usage(*TIMES).out == BY_POOL
        assert it.usage(*TIMES, "--by", "user,priority", "--every", "hour").out == BY_USER
        assert it.usage(*TIMES, "--by", "flavor").out == BY_FLAVOR
        assert it.usage(*TIMES, "--user", "nobody").out.splitlines()[1:] == ["no matching usage"]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("by", ["pool", "flavor", "user,pool,flavor,priority"])
def test_a_table_fits_the_terminal(tmp_path: Path, width: int, by: str) -> None:
    with there(tmp_path) as it:
        assert max(map(len, it.usage(*TIMES, "--by", by, "--every", "hour", width=width).out.splitlines())) <= width


def test_the_worked_example_as_json_has_exact_gpu_seconds(tmp_path: Path) -> None:
    with there(tmp_path) as it:
        found = it.answer("--by", "pool,flavor")
        speech = next(row for row in found["rows"] if row["pool"] == "speech")
        assert speech == {
            "time": "2026-09-24T10:00:00Z",
            "pool": "speech",
            "flavor": "h100",
            "priority": None,
            "user": None,
            "others": False,
            "subtree": False,
            "held": 18240.0,
            "waited": 10560.0,
            "lost_preempted": 11040.0,
            "lost_other": 0.0,
            "quota": 14400.0,
            "guaranteed": 9120.0,
            "drawn": 0.0,
            "borrowed": 9120.0,
            "lent": 0.0,
            **dict.fromkeys(("capacity", "free", "down", "idle_asked")),
        }
        assert found["total"]["held"] == 45120.0
        assert (found["complete_since"], found["folded_until"]) == ("2026-09-24T10:00:00Z", "2026-09-24T12:00:00Z")
        weeks = it.answer("--by", "pool", "--every", "week")
        assert [row["held"] for row in weeks["rows"]] == [18240.0, 26880.0]


TREE = """\
GPU-hours, 2026-09-24 10:00 to 11:00 UTC
Pool                Quota  Held  Guaranteed  Borrowed  Lent  Waited  Lost  Portion lost
------------------  -----  ----  ----------  --------  ----  ------  ----  ------------
speech                4.0   0.0         0.0       0.0   1.0     0.0   0.0             -
vision                8.0   8.0         7.0       1.0   0.0     0.0   0.0            0%
  without subpools    2.0   0.0         0.0       0.0   1.5     0.0   0.0             -
  vision--ads         4.0   8.0         4.0       4.0   0.0     0.0   0.0            0%
  vision--maps        2.0   0.0         0.0       0.0   1.5     0.0   0.0             -
------------------  -----  ----  ----------  --------  ----  ------  ----  ------------
SUM                  12.0   8.0         4.0       4.0   4.0     0.0   0.0            0%
"""


def test_the_tree_nets_what_subpools_lend_to_each_other(tmp_path: Path) -> None:
    """ads borrows 2 GPUs for an hour, all of them within vision, and 4 more for half an hour, two of them from speech."""
    pools = "pools:\n- {name: vision, quota: 8}\n- {name: speech, quota: 4}\n"
    with desk(tmp_path, gpus=12, cluster=pools, time=TEN) as world:
        for short, quota in (("ads", 4), ("maps", 2)):
            world.service.subpools.create("vision", short, quota, user="ann")
        for name, gpus in (("first", 6), ("second", 4)):
            submit(world.service, one_task(name, gpus=gpus, duration=9000), "vision--ads", "ann", Priority.LOW)
            world.later(0)
            world.later(1800)
        world.service.usage.step()
        hour = ("--since", "2026-09-24T10:00Z", "--until", "2026-09-24T11:00Z", "--tree")
        with asked(world.service) as it:
            assert it.usage(*hour).out == TREE
            found = json.loads(it.usage(*hour, "-t", "json").out)["rows"]
            assert [(row["pool"], row["subtree"], row["borrowed"]) for row in found] == [
                ("speech", False, 0.0),
                ("vision", True, 3600.0),
                ("vision", False, 0.0),
                ("vision--ads", False, 14400.0),
                ("vision--maps", False, 0.0),
            ]
            by_user = it.usage(*hour, "--by", "pool,user", "-t", "csv").out.splitlines()
            assert by_user[0] == "time,pool,user,others,subtree,held,waited,lost_preempted,lost_other"
            assert [line.split(",")[1:6] for line in by_user[1:]] == [
                ["vision", "ann", "false", "true", "28800.0"],
                ["vision--ads", "ann", "false", "false", "28800.0"],
            ]
            assert "a tree adds up pools. Group by pool too" in it.usage(*hour, "--by", "user").err
            assert "vision--ads" in it.usage(*hour, "--pool", "vision--ads").out
        world.later(9000)  # The work ends, which closes the hour.
        world.service.usage.step()
        with world.store.transactions.writing() as connection:
            connection.execute(
                delete(schema.usage_sums).where(schema.usage_sums.c.name == "tree")
            )  # As a version without trees left it.
        with asked(world.service) as it:
            older = [line for line in it.usage(*hour).out.splitlines() if line.startswith("vision ")]
            assert [line.split() for line in older] == [["vision", "8.0", "8.0", "-", "-", "-", "0.0", "0.0", "0%"]]


def test_csv_has_a_column_for_each_amount_that_is_known(tmp_path: Path) -> None:
    with there(tmp_path) as it:
        rows = list(csv.reader(io.StringIO(it.usage(*TIMES, "--by", "user", "-t", "csv").out)))
        assert rows == [
            ["time", "user", "others", "held", "waited", "lost_preempted", "lost_other"],
            ["2026-09-24T10:00:00Z", "ann", "false", "26880.0", "120.0", "0.0", "0.0"],
            ["2026-09-24T10:00:00Z", "sam", "false", "18240.0", "10560.0", "11040.0", "0.0"],
        ]


def test_users_see_their_pools_by_name_and_others_as_one_amount(tmp_path: Path) -> None:
    with there(tmp_path, "sam") as it:
        whole = it.answer("--by", "user,pool")
        assert [(row["user"], row["pool"], row["others"], row["held"]) for row in whole["rows"]] == [
            ("sam", "speech", False, 18240.0),
            (None, None, True, 26880.0),
        ]
        assert whole["total"]["held"] == 45120.0
        assert [row["user"] for row in it.answer("--by", "user", "--user", "ann")["rows"]] == []
        done = it.usage(*TIMES, "--pool", "vision")
        assert (done.code, "vision" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--by", "team"), "unknown key 'team'. Keys: user, pool, flavor, priority"),
        (("--since", "soon"), "'soon' is not a time"),
        (("--since", "2027-01-01"), "`since` is 2027-01-01 00:00 UTC, and usage is known only up to now"),
        (
            ("--since", "2026-09-24T11:00Z", "--until", "2026-09-24T11:00Z"),
            "`since` must be before `until`, which is 2026-09-24 11:00 UTC. Use an earlier time",
        ),
        (("--pool", "nope"), "nope"),
        (
            ("--since", "1970-01-02", "--every", "hour"),
            "too many steps (maximum 20,000). Use a shorter time or longer steps",
        ),
    ],
)
def test_an_invalid_query_is_refused_with_the_way_out(tmp_path: Path, wrong: tuple[str, ...], said: str) -> None:
    with there(tmp_path) as it:
        done = it.usage(*wrong)
        assert (done.code, done.out) == (2, "")
        assert said in done.err


def test_the_report_of_a_month_is_one_page_that_loads_nothing(tmp_path: Path) -> None:
    file = tmp_path / "september.html"
    with there(tmp_path) as it:
        done = it.usage("report", "--month", "2026-09", "--html", str(file))
        assert (done.code, done.out) == (0, f"Wrote {file}.\n")
        for arguments, said in (
            (("--month", "2026-13", "--html", str(file)), "--month '2026-13' is not a month. Use for example 2026-10."),
            (("--month", "2027-01", "--html", str(file)), "usage is known only up to now"),
            (("--month", "2026-09", "--html", str(tmp_path / "no/such.html")), "No such file or directory"),
            (("--month", "2026-09", "--html", str(tmp_path)), "cannot be written: Is a directory"),
            (("--month", "2026-09", "--html", "/dev/full"), "cannot be written: No space left on device"),
        ):
            wrong = it.usage("report", *arguments)
            assert wrong.code == 2
            assert said in " ".join(wrong.err.split())
        assert it.usage("report", "--month", "2026-09", "--html", "-").out.endswith("</html>\n")
    text = file.read_text()
    words = " ".join(unescape(re.sub("<[^>]*>", " ", text.partition("<body>")[2])).split())
    assert "In September 2026 the cluster had 16.0 GPU-hours. 12.5 of them (78 %) were in use." in words
    assert "1.5 GPU-hours were free while waiting work could have used them; 0.0 were down." in words
    assert "Pools borrowed 2.5 GPU-hours from quota that other pools did not use." in words
    assert "3.1 GPU-hours were lost: 3.1 to preemption, 0.0 to drains and lost nodes." in words
    assert "Usage is recorded since 2026-09-24 10:00 UTC." in words
    pools = (
        "vision 12.0 7.5 62 % 0.0 2.5 0.0 0.0 speech 4.0 5.1 127 % 2.5 0.0 2.9 3.1 Sum 16.0 12.5 78 % 2.5 2.5 3.0 3.1"
    )
    assert pools in words
    assert "ann 7.5 0.0 0.0 sam 5.1 2.9 3.1" in words
    assert "2026-09-24: 0.5 GPUs in use, 0.1 of them borrowed" in words
    assert re.findall(r"(?:src|href)=|url\(|@import|<script", text) == []


def test_hostile_names_stay_text_in_the_report() -> None:
    name = "<img src=x onerror=alert(1)>\x1b[31m\"'&"
    with_names = {"user": name, "pool": name, "flavor": name, "priority": None}
    amounts = dict.fromkeys(("held", "waited", "lost_preempted", "lost_other", "borrowed", "lent", "quota"), 3600.0)
    nodes = dict.fromkeys(("capacity", "free", "down", "idle_asked"), 3600.0)
    row = {"time": "2026-09-24T00:00:00Z", "others": False, **with_names, **amounts, **nodes}
    times = {"since": "2026-09-01T00:00:00Z", "until": "2026-10-01T00:00:00Z"}
    times |= {"complete_since": times["since"], "folded_until": times["until"]}
    answer = {"rows": [row], "total": row, **times}
    text = page(name, *[answer] * 5)
    assert ("<img" in text, "\x1b" in text) == (False, False)
    assert text.count("&lt;img src=x onerror=alert(1)&gt;") == 4
