"""The whole thing as people use it: a server as a process, driven through the command line."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from tests.worlds.command_line import Up, ended, runrig, up
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
