"""Tables and pictures on a terminal and in a pipe."""

import os
import pty
import subprocess
import time
from datetime import UTC, datetime

import click
import pytest

from runrig.cli import options
from runrig.cli.commands.watch import picture
from runrig.cli.printed import workflows as printed
from runrig.cli.rendering import times
from runrig.cli.rendering.tables import Column, Table, drawn, fitting, folded, plain
from tests.cli.canned_server import entry, page, pool, serving, task, workflow
from tests.worlds.command_line import process


def test_columns_are_as_wide_as_their_visible_text() -> None:
    table = Table((Column("A"), Column("B")), [("模型", "1"), ("e\u0301", "22")], sums=("", "23"))
    assert plain(table) == ["A     B", "----  --", "模型  1", "e\u0301     22", "----  --", "      23"]


def on_screen(table: Table, width: int) -> list[str]:
    return [click.unstyle(line) for line in drawn(table, width)]


def test_sentences_are_wrapped_at_their_longest_word_and_names_stay_whole() -> None:
    columns = (Column("Name"), Column("Message", prose=True))
    rows = [("模型模型", "no room for all 24 pods of pretraining-2026"), ("b", "-")]
    assert on_screen(Table(columns, rows, sums=("sum", "2")), 34) == [
        "Name      Message",
        "────────  ────────────────────────",
        "模型模型  no room for all 24 pods",
        "          of pretraining-2026",
        "b         -",
        "────────  ────────────────────────",
        "sum       2",
    ]


def test_name_too_long_for_its_row_gets_its_own_line() -> None:
    columns = (Column("Pool"), Column("Flavor"), Column("Quota", 1), Column("Used", 0))
    rows = [
        ("vision-pretraining", "h100", "16", "8"),
        ("vision-pretraining", "b200", "4", "0"),
        ("nlp", "h100", "8", "1"),
    ]
    assert on_screen(Table(columns, rows, sums=("Sum", "", "28", "9")), 20) == [
        "Pool",
        "  Flavor  Quota",
        "──────────────────",
        "vision-pretraining",
        "  h100    16",
        "  b200    4",
        "nlp",
        "  h100    8",
        "──────────────────",
        "Sum",
        "          28",
    ]
    assert on_screen(Table(columns, rows), 26)[2] == "vision-pretraining  h100"


def test_sentences_that_do_not_fit_are_below_their_rows() -> None:
    columns = (Column("ID"), Column("GPUs", 0), Column("Details", 1, prose=True, below=True))
    table = Table(columns, [("pretraining-1", "8", "on n1; ran 2m"), ("b-1", "4", "")])
    below = ["ID             GPUs", "─────────────  ────", "pretraining-1  8", "  on n1; ran 2m", "b-1            4"]
    assert on_screen(table, 27) == below
    assert on_screen(table, 50)[2:] == ["pretraining-1  8     on n1; ran 2m", "b-1            4"]


def test_word_longer_than_its_line_is_not_broken() -> None:
    assert folded("on gpu-worker-17 of rack-1", 10) == ["on", "gpu-worker-17", "of rack-1"]


def test_important_columns_are_kept_first_and_empty_ones_last() -> None:
    columns = (Column("Who", 1), Column("Id"), Column("Time", 0), Column("Why", 3), Column("Node", 2))
    table = Table(columns, [("ann", "train-1", "13:00:00", "-", "n00"), ("bo", "t-2", "13:00:01", "", "n17")])

    def shown(width: int) -> list[str]:
        return list(fitting(table, width).names)

    assert shown(33) == ["Who", "Id", "Time", "Why", "Node"]
    assert shown(32) == ["Who", "Id", "Time", "Node"]
    assert shown(27) == ["Who", "Id", "Why", "Node"]
    assert shown(22) == ["Who", "Id", "Node"]
    assert shown(17) == ["Id", "Node"]
    assert shown(12) == ["Who", "Id"]
    assert shown(11) == shown(1) == ["Id"]
    assert plain(table)[-1] == "bo   t-2      13:00:01       n17"


def test_statuses_have_colours_unless_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table((Column("Status"), Column("Name")), [("FAILED_CANCELED", "RUNNINGS")])
    assert drawn(table, 80)[2] == "\x1b[31mFAILED_CANCELED\x1b[0m  RUNNINGS"
    monkeypatch.setenv("NO_COLOR", "1")
    assert drawn(table, 80) == ["Status           Name", "───────────────  ────────", "FAILED_CANCELED  RUNNINGS"]


def test_watch_shows_the_last_attempt_of_each_task_and_why_it_waits() -> None:
    tasks = (
        task("a", status="COMPLETED", exit_code=0, end_time="2026-01-31T12:01:00Z"),
        task("b", status="RESCHEDULED", exit_code=3006),
        task("b", attempt=1, status="SCHEDULING", node=None, gpus=[], start_time=None),
    )
    answer = printed.workflow(workflow("PENDING", *tasks, end_time="2026-01-31T13:00:00.25Z"), "http://there")
    lines = picture(answer, "waits \x1b[2Jfor [bold]room[/bold]", 120)
    assert [click.unstyle(line).split() for line in lines if "─" not in line] == [
        ["train-1", "PENDING", "━" * 12, "1", "of", "2", "tasks", "12s", "pool", "vision,", "NORMAL"],
        ["waits", "for", "[bold]room[/bold]"],
        ["Task", "Status", "Node", "GPUs", "Duration", "Message"],
        ["a", "COMPLETED", "n00", "1", "59s"],
        ["b", "SCHEDULING", "-", "-", "-"],
    ]


def on_a_terminal(*args: str, answer: str = "") -> tuple[int, str]:
    """Exit code and everything that the terminal gets; *answer* is typed at once."""
    leader, follower = pty.openpty()
    env = os.environ | {"COLUMNS": "100", "TERM": "xterm-256color"}
    with subprocess.Popen(process(*args), stdin=follower, stdout=follower, stderr=follower, env=env) as child:
        os.close(follower)
        os.write(leader, answer.encode())
        seen = b""
        try:
            while chunk := os.read(leader, 65536):
                seen += chunk
        except OSError:  # the terminal is closed: the process has ended
            pass
    os.close(leader)
    return child.returncode, seen.decode()


@pytest.mark.slow
def test_terminal_gets_a_drawn_table_and_names_are_not_markup() -> None:
    with serving({"GET /api/v1/workflows": page(entry("[red]train-1[/red]"))}) as server:
        code, seen = on_a_terminal("--server", server.url, "workflow", "list")
    assert code == 0
    assert "[red]train-1[/red]" in seen
    assert "───" in seen


@pytest.mark.slow
def test_watch_redraws_until_the_end() -> None:
    states = [(200, workflow("RUNNING")), (200, workflow("COMPLETED", task(status="COMPLETED", exit_code=0)))]
    with serving({"GET /api/v1/workflows/train-1": states}) as server:
        code, seen = on_a_terminal("--server", server.url, "workflow", "watch", "train-1")
    assert code == 0
    assert "RUNNING" in seen
    assert "COMPLETED" in seen.split("RUNNING")[-1]


@pytest.mark.slow
def test_delete_asks_for_confirmation_and_no_changes_nothing() -> None:
    with serving({"DELETE /api/v1/pools/p": {"pool": pool("p", state="ARCHIVED"), "cancelled": []}}) as server:
        no = on_a_terminal("--server", server.url, "pool", "delete", "p", answer="n\n")
        yes = on_a_terminal("--server", server.url, "pool", "delete", "p", answer="y\n")
        told = on_a_terminal("--server", server.url, "pool", "delete", "p", "--yes")
    assert (no[0], yes[0], told[0]) == (3, 0, 0)
    assert "Delete pool p?" in no[1]
    assert "pool p is ARCHIVED" in yes[1]
    assert "Delete pool p?" not in told[1]
    assert len(server.asked) == 2


def test_durations_are_short() -> None:
    seconds = (None, 0.25, 42.9, 185, 7620, 273600)
    assert [times.span(each) for each in seconds] == ["-", "0.2s", "42s", "3m05s", "2h07m", "3d04h"]


def test_duration_without_an_end_continues() -> None:
    now = datetime(2026, 1, 31, 12, 0, 30, tzinfo=UTC)
    assert times.between("2026-01-31T12:00:00", None, now=now) == 30
    assert times.between(None, None, now=now) is None
    assert times.between("2026-01-31T12:00:00", "2026-01-31T12:00:05", now=now) == 5
    assert times.local("soon") == "-"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2h", "2026-03-29T10:00:00"),
        ("90M", "2026-03-29T10:30:00"),
        ("1d", "2026-03-28T12:00:00"),
        ("now", "2026-03-29T12:00:00"),
        ("today", "2026-03-28T23:00:00"),
        ("Yesterday", "2026-03-27T23:00:00"),
        ("2026-01-31", "2026-01-30T23:00:00"),
        ("2026-01-31t13:00", "2026-01-31T12:00:00"),
        ("2026-01-31T13:00Z", "2026-01-31T13:00:00"),
    ],
)
def test_times_can_be_given_in_common_forms(written: str, meant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the day on which summer time began in Berlin."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert options.utc_text(written, datetime(2026, 3, 29, 12, tzinfo=UTC)) == meant
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("wrong", ["", "2 h", "h", "-2h", "2y", "99999999w", "tomorrow"])
def test_invalid_time_is_refused(wrong: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        options.utc_text(wrong, datetime(2026, 3, 29, 12, tzinfo=UTC))
