"""The whole thing as people use it: a server as a process, driven through the command line."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from tests.worlds.command_line import Up, ended, process, runrig, up
from tests.worlds.workflow_files import one_task

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One for all tests of this module: starting one takes longer than all that is asked of it."""
    with up(tmp_path_factory.mktemp("data"), "--gpus", "2") as found:
        yield found


def file(script: str, *, gpu: Any = 1, name: str = "job", **task: Any) -> str:
    """A workflow of one task that runs *script*."""
    return one_task(name, gpu, **{"image": "ubuntu", "command": ["bash", "-c", script], **task})


def submitted(server: Up, text: str, *args: str) -> str:
    done = server.runrig("workflow", "submit", "-", "-t", "json", *args, stdin=text)
    assert done.code == 0, done
    return str(done.json["name"])


def test_first_line_has_the_address_and_the_data_folder_is_private(server: Up) -> None:
    record = json.loads((server.data / "server.json").read_text())
    assert record["pid"] == server.child.pid
    assert server.said == f"runrig 0.1.0 is up at {record['url']} (backend local, 2 GPUs, data {server.data})\n"
    assert (server.data / "token").stat().st_mode & 0o777 == 0o600
    assert f"server 0.1.0 at {record['url']}" in server.runrig("version").out


def test_workflow_runs_and_its_output_is_stored(server: Up) -> None:
    id = submitted(server, file('echo "on $CUDA_VISIBLE_DEVICES with $MODE"; echo oops >&2'), "--set-env", "MODE=a=b")
    assert server.runrig("workflow", "wait", id, "--timeout", "30").code == 0
    assert server.runrig("workflow", "watch", id).code == 0
    assert server.runrig("workflow", "logs", id, "--task", "main", "--stream", "out").out in (
        "on 0 with a=b\n",
        "on 1 with a=b\n",
    )
    assert server.runrig("workflow", "logs", id, "--task", "main", "--error").out == "oops\n"
    assert server.json("workflow", "query", id)["status"] == "COMPLETED"
    assert "submitted to pool default" in server.runrig("workflow", "events", id).out
    assert id in server.runrig("workflow", "list").out


def test_waiting_workflow_shows_why_until_the_other_is_cancelled(server: Up) -> None:
    holder = submitted(server, file("sleep 600", gpu=2, name="holder"))
    waiter = submitted(server, file("echo ran", gpu=2, name="waiter"), "--priority", "LOW")
    assert server.runrig("workflow", "wait", holder, "--for", "RUNNING", "--timeout", "30").code == 0
    late = server.runrig("workflow", "wait", waiter, "--timeout", "0")
    why = server.json("workflow", "why", waiter)
    assert (late.code, why["status"]) == (75, "PENDING")
    assert [reason["law"] for group in why["groups"] for reason in group["reasons"]] == ["Q3"]
    assert why["sentence"] in " ".join(server.runrig("why", waiter).out.split())
    assert server.json("pool", "list")["node_sets"][0]["pools"][0]["used"] == 2
    assert server.runrig("workflow", "cancel", holder, "-m", "enough").out == f"{holder} is cancelled\n"
    ended = server.runrig("workflow", "wait", holder, "--timeout", "30")
    assert (ended.code, ended.out) == (125, "")
    assert ended.err.startswith(f"{holder} is FAILED_CANCELED")
    assert server.runrig("workflow", "logs", waiter, "-f", "--task", "main").out == "ran\n"


def test_waiting_workflows_are_moved_and_reprioritised(server: Up) -> None:
    assert server.runrig("pool", "create", "side", "--quota", "0").code == 0
    holder = submitted(server, file("sleep 600", gpu=2, name="holds"), "--pool", "default")
    moves = submitted(server, file("echo moved", gpu=2, name="moves"), "--pool", "default")
    assert server.runrig("workflow", "wait", holder, "--for", "RUNNING", "--timeout", "30").code == 0
    refused = server.runrig("workflow", "move", moves, "--pool", "side")
    assert (refused.code, f"{moves} needs 2 GPUs" in refused.err) == (1, True)
    low = ("workflow", "reprioritise", moves, "--priority", "low")
    assert server.runrig(*low, "--dry-run").out.startswith(f"{moves} would wait: ")
    assert server.json(*low, "--dry-run")["verdicts"][moves]["verdict"] == "WAITS"
    assert server.json("workflow", "query", moves)["priority"] == "NORMAL"
    assert server.runrig(*low).out == f"{moves} now has priority LOW\n"
    assert server.runrig("workflow", "move", moves, "--pool", "side").out == f"{moves} is in pool side\n"
    assert server.json("workflow", "move", moves, holder, "--pool", "side")["moved"] == []
    assert f"{moves} moved to pool side, priority LOW" in server.runrig("workflow", "events", moves).out
    found = server.json("workflow", "query", moves)
    assert (found["pool"], found["priority"], found["status"]) == ("side", "LOW", "PENDING")
    assert server.runrig("workflow", "cancel", holder).code == 0
    assert server.runrig("workflow", "wait", moves, "--timeout", "30").code == 0
    assert server.runrig("pool", "delete", "side").code == 0


def test_pool_limits_run_times(server: Up) -> None:
    """P6."""
    made = server.runrig("pool", "create", "short", "--quota", "0", "--default-run-time", "1s", "--max-run-time", "90m")
    assert "default run time 1s, max run time 90m" in made.out
    assert "Default run time  1s\nMax run time      90m\n" in made.out
    limited = ("--pool", "short", "--priority", "LOW")
    text = file("sleep 600", name="long")
    longer = text.replace('"name": "long"', '"name": "long", "timeout": {"exec_timeout": "2h"}', 1)
    refused = server.runrig("workflow", "submit", "-", *limited, stdin=longer)
    assert refused.code == 1
    assert "long has a time limit of 2h, but pool short allows at most 90m. Set `--time`" in refused.err
    ids = [submitted(server, text, *limited), submitted(server, text, "--pool", "default")]
    assert [server.json("workflow", "query", id)["exec_timeout"] for id in ids] == [1.0, None]
    assert server.runrig("workflow", "cancel", ids[1]).code == 0
    server.runrig("workflow", "wait", ids[0], "--timeout", "30")
    assert server.json("workflow", "query", ids[0])["status"] == "FAILED_EXEC_TIMEOUT"
    again = server.runrig("pool", "update", "short", "--default-run-time", "none", "--max-run-time", "1d")
    assert "pool short: default run time 1s → none, max run time 90m → 1d" in again.out
    shown = server.json("pool", "show", "short")
    assert (shown["default_run_time_s"], shown["max_run_time_s"], shown["max_exec_timeout"]) == (None, 86400.0, "1d")
    wrong = server.runrig("pool", "update", "short", "--default-run-time", "2d")
    assert (wrong.code, "the default run time 2d exceeds the maximum of 1d" in wrong.err) == (2, True)
    assert server.runrig("pool", "update", "short", "--max-run-time", "soon").code == 2
    assert server.runrig("pool", "delete", "short").code == 0


def test_closed_pool_refuses_submissions_and_starts_waiting_work(server: Up) -> None:
    """S7."""
    assert server.runrig("pool", "create", "shut", "--quota", "0").code == 0
    holder = submitted(server, file("sleep 600", gpu=2, name="fills"), "--pool", "default")
    assert server.runrig("workflow", "wait", holder, "--for", "RUNNING", "--timeout", "30").code == 0
    waits = submitted(server, file("true", name="early"), "--pool", "shut", "--priority", "LOW")
    done = server.runrig("pool", "close", "shut", "--reason", "it moves")
    assert (done.code, done.out.startswith("pool shut is closed to submissions; ")) == (0, True)
    refused = server.runrig("workflow", "submit", "-", "--pool", "shut", "--priority", "LOW", stdin=file("true"))
    assert (refused.code, "pool shut was closed to submissions by " in refused.err) == (1, True)
    assert "(it moves). Use another pool, or ask an administrator to run `runrig pool open shut`" in refused.err
    assert "(it moves)" in server.runrig("pool", "show", "shut").out
    assert "CLOSED" in server.runrig("pool", "list", "--pool", "shut").out
    assert "closed by" in server.runrig("pool", "history", "shut").out
    assert server.runrig("pool", "update", "shut", "--weight", "2").code == 0
    assert server.runrig("pool", "close", "shut").code == 1
    assert server.runrig("workflow", "cancel", holder).code == 0
    assert server.runrig("workflow", "wait", waits, "--timeout", "30").code == 0
    assert server.runrig("pool", "open", "shut").out == "pool shut is open\n"
    assert server.json("pool", "show", "shut")["closed_by"] is None
    submitted(server, file("true"), "--pool", "shut", "--priority", "LOW", "--dry-run")
    assert server.runrig("pool", "delete", "shut").code == 0


def test_cancel_by_filter_asks_for_confirmation(server: Up) -> None:
    ids = [submitted(server, file("sleep 600", gpu=2, name=name)) for name in ("one", "two")]
    assert server.runrig("workflow", "wait", ids[0], "--for", "RUNNING", "--timeout", "30").code == 0
    ours, theirs = os.openpty()
    all_that_fit = ("--pool", "default", "--status", "PENDING")
    for filters, said, code in ((all_that_fit, "n", 3), ((), "n", 3), ((), "y", 0)):  # without a filter: the latest
        command = process("cancel", "--data", str(server.data), *filters)
        os.write(ours, f"{said}\n".encode())
        assert (
            subprocess.run(
                command, stdin=theirs, stdout=theirs, stderr=theirs, timeout=PATIENCE_S, check=False
            ).returncode
            == code
        )
        shown = os.read(ours, 10_000).decode()
        assert "Cancel 1 workflow (two-" in shown
        assert [server.json("workflow", "query", id)["cancelled_by"] is not None for id in ids] == [False, said == "y"]
    for end in (ours, theirs):
        os.close(end)
    assert server.runrig("workflow", "cancel", "--pool", "default").out == f"{ids[0]} is cancelled\n"


def test_held_workflow_starts_once_it_is_released(server: Up) -> None:
    holder = submitted(server, file("sleep 600", gpu=2, name="holder"))
    waiter = submitted(server, file("echo ran", gpu=2, name="waiter"))
    assert server.runrig("workflow", "wait", holder, "--for", "RUNNING", "--timeout", "30").code == 0
    assert server.runrig("workflow", "hold", waiter).out == f"{waiter} is held\n"
    again = server.runrig("workflow", "hold", waiter, holder, "-t", "json")
    assert (again.code, again.json["held"], [each["name"] for each in again.json["failed"]]) == (
        1,
        [],
        [waiter, holder],
    )
    (group,) = server.json("workflow", "why", waiter)["groups"]
    assert [(each["code"], each["law"]) for each in group["reasons"]] == [("OnHold", "W3")]
    user = server.json("workflow", "query", waiter)["held_by"]
    assert f"on hold ({user})" in " ".join(server.runrig("workflow", "list", "-s", "PENDING").out.split())
    assert lines_with("On hold", server.runrig("workflow", "query", waiter).out)[0].split()[2:4] == ["by", user]
    assert f"{waiter} put on hold by {user} (Hold, rule W3)" in server.runrig("workflow", "events", waiter).out
    assert server.runrig("workflow", "cancel", holder).code == 0
    assert server.runrig("workflow", "wait", holder, "--timeout", "30").code == 125
    assert server.json("workflow", "query", waiter)["status"] == "PENDING"
    assert server.runrig("workflow", "release", waiter).out == f"{waiter} is released\n"
    assert server.runrig("workflow", "wait", waiter, "--timeout", "30").code == 0
    assert server.runrig("workflow", "release", waiter).code == 1


def test_failed_workflow_can_be_restarted(server: Up) -> None:
    id = submitted(server, file("exit 7", name="fails"))
    watched = server.runrig("workflow", "watch", id)
    assert (watched.code, "exit code 7" in watched.out) == (1, True)
    again = server.runrig("workflow", "restart", id, "-t", "json").json["name"]
    assert server.runrig("workflow", "wait", again, "--for", "FAILED", "--timeout", "30").code == 0
    assert server.json("workflow", "query", again)["parent_name"] == id


def test_local_file_is_sent_with_the_workflow(server: Up, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("echo {{ no template }} é\n")
    text = file("bash /run.sh", name="travels", files=[{"path": "/run.sh", "localpath": "run.sh"}])
    (tmp_path / "wf.yaml").write_text(text)
    done = server.runrig("workflow", "submit", str(tmp_path / "wf.yaml"), "-t", "json")
    assert server.runrig("workflow", "wait", done.json["name"], "--timeout", "30").code == 0
    assert (
        server.runrig("workflow", "logs", done.json["name"], "--task", "main").out
        == "echo {{ no template }} é"[5:] + "\n"
    )


def test_pools_and_cohorts_are_created_changed_and_deleted(server: Up) -> None:
    assert server.runrig("cohort", "create", "lab", "--quota", "0").code == 0
    assert (
        server.runrig("pool", "create", "spare", "--quota", "0", "--cohort", "lab", "--borrowing-limit", "1").code == 0
    )
    assert server.runrig("pool", "update", "spare", "--borrowing-limit", "none").code == 0
    settings = server.json("pool", "show", "spare")
    assert settings["quotas"]["default"]["gpu"] == {"nominal": 0, "borrowing_limit": None, "lending_limit": None}
    assert "└─ spare" in server.runrig("cohort", "list").out
    assert lines_with("Sum", server.runrig("pool", "list").out)
    assert server.runrig("pool", "delete", "spare").out == "pool spare is ARCHIVED: nothing runs there\n"
    assert server.runrig("cohort", "delete", "lab").code == 0


def lines_with(word: str, text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(word)]


def test_nodes_show_their_users(server: Up) -> None:
    node = server.json("resource", "list")["resources"][0]["hostname"]
    assert lines_with(node, server.runrig("resource", "list").out)
    assert lines_with("GPUs used", server.runrig("resource", "info", node).out)
    assert server.runrig("resource", "info", "nowhere").code == 2


BOMB = "a: &a [x]\n" + "\n".join(
    f"{c}: &{c} [{','.join([f'*{p}'] * 9)}]" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
)
LOOP = file("true").replace("ubuntu", "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}")
CYCLE = """\
workflow:
  name: circle
  tasks:
  - {name: a, image: i, command: [x], inputs: [{task: b}]}
  - {name: b, image: i, command: [x], inputs: [{task: a}]}
"""
BAD: Mapping[str, tuple[str, int, str]] = {
    "unknown field": (file("true", imge="x"), 2, "imge"),
    "wrong type": (file("true", lead="perhaps"), 2, "lead"),
    "command is text": (file("true", command="sleep 5"), 2, "command"),
    "negative GPUs": (file("true", gpu=-1), 2, "-1"),
    "GPUs that are no number": (file("true", gpu="many"), 2, "many"),
    "larger than the quota": (file("true", gpu=3), 1, "has a quota of 2 GPUs"),
    "circle of groups": (CYCLE, 2, "cycle"),
    "unknown resource": (file("true", resource="huge"), 2, "huge"),
    "larger than a reader takes": ("#" + "x" * 1_000_000, 2, "bytes"),
    "YAML bomb": (BOMB, 2, "alias"),
    "template without end": (LOOP, 2, "took longer than"),
    "file outside": (file("true", files=[{"path": "/../../etc/passwd", "contents": "x"}]), 2, ".."),
    "empty": ("", 2, ""),
    "no mapping": ("- 5", 2, ""),
    "NUL": ("workflow: \0", 2, ""),
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD)
def test_invalid_workflow_file_is_refused_with_a_clear_message_and_nothing_is_stored(server: Up, bad: str) -> None:
    text, code, word = BAD[bad]
    before = server.workflows()
    done = server.runrig("workflow", "submit", "-", "--pool", "default", stdin=text)
    assert (done.code, done.out) == (code, "")
    assert word in done.err
    assert "Traceback" not in done.err
    if code == 2:
        assert re.match(r"<stdin>(:[0-9]+:[0-9]+|:[0-9]+)?: ", done.err)
    assert server.workflows() == before


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (["workflow", "submit", "-", "--pool", "nowhere"], 2, "nowhere"),
        (["workflow", "query", "nothing-1"], 2, "nothing-1"),
        (["workflow", "logs", "nothing-1"], 2, "nothing-1"),
        (["workflow", "cancel", "nothing-1"], 2, "nothing-1"),
        (["workflow", "wait", "nothing-1"], 2, "nothing-1"),
        (["pool", "show", "nowhere"], 2, "nowhere"),
        (["pool", "create", "default", "--quota", "1"], 1, "default"),
        (["pool", "create", "a--b", "--quota", "1"], 2, "--"),
        (["pool", "create", "x", "--quota", "h100=1"], 2, "h100"),
        (["cohort", "show", "nowhere"], 2, "nowhere"),
        (["apply", "-f", "-"], 2, ""),
    ],
)
def test_unknown_name_is_reported_and_changes_nothing(server: Up, args: list[str], code: int, word: str) -> None:
    done = server.runrig(*args, stdin=file("true"))
    assert (done.code, done.out) == (code, "")
    assert word in done.err


def test_a_wrong_token_is_not_allowed(server: Up) -> None:
    url = json.loads((server.data / "server.json").read_text())["url"]
    done = runrig("--server", url, "pool", "list", env={"RUNRIG_TOKEN": "wrong"})
    assert (done.code, done.out) == (4, "")


# ---------------------------------------------------------------- failed starts


def failed_start(*args: str) -> tuple[int, str]:
    done = ended("up", *args)
    assert (done.out, "Traceback" in done.err) == ("", False)
    return done.code, done.err


def test_error_in_a_cluster_file_has_its_line_and_nothing_is_created(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("pools:\n- {name: a, quota: 1}\n- {name: b, quotas: 1}\n")
    code, err = failed_start("--port", "0", "--data", str(tmp_path / "d"), "--cluster", str(cluster))
    assert code == 2
    assert err.partition("\n")[2].startswith(f"{cluster}:3:"), err
    assert not (tmp_path / "d").exists()
    code, err = failed_start("--cluster", str(tmp_path / "no.yaml"))
    assert (code, err) == (2, f"Error: {tmp_path}/no.yaml: no such file\n")


def test_invalid_options_of_up_are_wrong_usage(tmp_path: Path) -> None:
    for args in (["--gpus", "-1"], ["--port", "70000"], ["--backend", "kubernetes"]):
        code, err = failed_start(*args, "--data", str(tmp_path / "d"))
        assert code == 2
        assert args[0] in err
    assert not (tmp_path / "d").exists()


def test_server_ended_with_ctrl_c_comes_back_with_its_state(tmp_path: Path) -> None:
    with up(tmp_path, "--backend", "simulated", "--gpus", "4") as first:
        assert "(backend simulated, 4 GPUs" in first.said
        id = submitted(first, file("true", duration="0s"))
        os.kill(first.child.pid, signal.SIGINT)
        assert first.child.wait(timeout=PATIENCE_S) == 0
        assert first.child.stdout is not None
        assert first.child.stdout.read() in ("stopped\n", "stopped; 1 task keeps running\n")
    assert runrig("pool", "list", env={"RUNRIG_DATA": str(tmp_path)}).code == 10
    with up(tmp_path, "--backend", "simulated", "--gpus", "4") as second:
        assert second.runrig("workflow", "wait", id, "--timeout", "30").code == 0
    assert second.child.returncode == 0


def test_ctrl_c_reports_how_many_tasks_keep_running(tmp_path: Path) -> None:
    with up(tmp_path, "--gpus", "3") as first:
        ids = [submitted(first, file("exec sleep 600")) for _ in range(2)]
        for id in ids:
            assert first.runrig("workflow", "wait", id, "--for", "RUNNING", "--timeout", "30").code == 0
        os.kill(first.child.pid, signal.SIGINT)
        assert first.child.wait(timeout=PATIENCE_S) == 0
        assert first.child.stdout is not None
        assert first.child.stdout.read() == "stopped; 2 tasks keep running\n"
    with up(tmp_path, "--gpus", "3") as second:
        assert second.runrig("workflow", "cancel", *ids).code == 0
        for id in ids:
            assert second.runrig("workflow", "wait", id, "--for", "FAILED", "--timeout", "30").code == 0


def test_machine_without_gpus_gets_the_reason(tmp_path: Path) -> None:
    with up(tmp_path) as server:
        found = server.json("resource", "list")["resources"][0]["gpus"]
        server.child.send_signal(signal.SIGTERM)
        _, told = server.child.communicate(timeout=PATIENCE_S)
    assert ("Warning: no GPUs to share: " in told, "; --gpus N simulates N" in told) == (not found,) * 2


def test_ignored_images_are_reported_once(tmp_path: Path) -> None:
    with up(tmp_path, "--gpus", "1") as server:
        told = [server.runrig("workflow", "submit", "-", stdin=file("true")).err for _ in range(2)]
    assert ["image is ignored" in each for each in told] == [True, False]


def test_logs_show_which_attempt_of_how_many_it_is(server: Up) -> None:
    script = "echo attempt $RUNRIG_RETRY; [ -e ../../seen ] || { touch ../../seen; exit 9; }"
    again = submitted(server, file(script, exitActions={"RESCHEDULE": "9"}))
    assert server.runrig("workflow", "wait", again, "--timeout", "60").code == 0
    latest = server.runrig("workflow", "logs", again)
    first = server.runrig("workflow", "logs", again, "--task", "main", "--attempt", "1")
    assert latest.err == "attempt 2 of 2: main (use --attempt all to see them all)\n"
    assert first.err == "attempt 1 of 2: main (omit --attempt to see the latest)\n"
    once = submitted(server, file("echo once"))
    assert server.runrig("workflow", "wait", once, "--timeout", "60").code == 0
    assert server.runrig("workflow", "logs", once).err == ""
    assert server.runrig("workflow", "logs", again, "-t", "json").err == ""
