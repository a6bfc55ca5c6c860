"""`runrig restart --failed`: COMPLETED groups stay as they are, and the others read their outputs."""

from pathlib import Path
from shutil import rmtree

import pytest

from runrig.domain.errors import InvalidInput
from runrig.domain.workflows import TaskKey
from runrig.service.commands.restarts import Changes
from tests.worlds.command_line import up
from tests.worlds.served import Served, served
from tests.worlds.service import do

CHAIN = """
workflow:
  name: chain
  groups:
  - name: make
    tasks:
    - {name: data, image: any, command: [gen], count: 2, resource: none, duration: 5, lead: true}
  - name: use
    tasks:
    - {name: head, image: any, command: [train], inputs: [{task: data}], resource: one, duration: 50}
  resources: {none: {cpu: 1}, one: {gpu: 1}}
"""


def stopped(there: Served, after: float) -> str:
    """The id of a chain that is cancelled *after* some seconds."""
    id = there.submit(CHAIN, "--pool", "pool1", "--priority", "HIGH")
    there.desk.later(0)
    there.desk.later(after)
    assert there.runrig("cancel", id).code == 0
    there.desk.later(0)
    there.desk.later(31)
    return id


def test_restart_runs_only_incomplete_groups_and_reads_outputs_of_the_others(tmp_path: Path) -> None:
    with served(tmp_path) as there:
        id = stopped(there, after=6)
        done = there.runrig("restart", id, "--failed")
        says = "chain-2 repeats chain-1 except make (completed). Follow it: runrig attach chain-2\n"
        assert (done.code, done.out, done.err) == (0, says, "")
        there.desk.later(0)
        (launch,) = there.desk.backend.desired.run.values()
        assert (launch.key, launch.inputs) == (
            TaskKey("chain-2", "head", 0),
            (("data", (TaskKey(id, "data-0", 0), TaskKey(id, "data-1", 0))),),
        )
        found = there.json("workflow", "query", "chain-2")
        assert (found["parent_name"], found["priority"], found["pool"]) == (id, "HIGH", "pool1")
        assert [group["name"] for group in found["groups"]] == ["use"]
        there.desk.later(60)
        assert there.desk.status("chain-2") == "COMPLETED"


def test_restart_runs_all_groups_if_none_completed(tmp_path: Path) -> None:
    with served(tmp_path) as there:
        id = stopped(there, after=1)
        done = there.runrig("restart", id, "--failed")
        says = "chain-2 repeats all of chain-1. Follow it: runrig attach chain-2\n"
        assert (done.code, done.out) == (0, says)
        there.desk.later(0)
        assert sorted(key.task for key in there.desk.backend.desired.run) == ["data-0", "data-1"]


@pytest.mark.parametrize("state", ["runs", "completed"])
def test_only_failed_workflows_can_be_restarted(tmp_path: Path, state: str) -> None:
    with served(tmp_path) as there:
        id = there.submit(CHAIN, "--pool", "pool1")
        for seconds in (0, 6) if state == "runs" else (0, 6, 60):
            there.desk.later(seconds)
        done = there.runrig("restart", id, "--failed")
        now = "RUNNING" if state == "runs" else "COMPLETED"
        assert (done.code, f"{id} is {now}. Only failed workflows can be restarted" in done.err) == (1, True), done


def test_code_is_replaced_by_the_folder_as_it_is_now(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text("lr = 1\n")
    (project / "model.py").write_text("width = 8\n")
    with served(tmp_path) as there:

        def code_of(id: str) -> str | None:
            return there.desk.service.workflow_queries.workflow(id).code

        first = there.runrig("restart", stopped(there, after=6), "--code", str(project))
        assert (first.code, first.err[:12]) == (0, "Sent 2 files"), first
        assert (code_of("chain-1"), code_of("chain-2") is not None) == (None, True)
        there.runrig("cancel", "chain-2")
        (project / "train.py").write_text("lr = 2\n")
        second = there.runrig("restart", "chain-2", "--failed", "--code", str(project))
        assert (second.code, second.err[:11]) == (0, "Sent 1 file"), second
        assert code_of("chain-3") not in (None, code_of("chain-2"))
        there.runrig("cancel", "chain-3")
        again = there.runrig("restart", "chain-3", "--code", str(project))
        assert (again.code, again.err, code_of("chain-4")) == (0, "", code_of("chain-3"))
        there.runrig("cancel", "chain-4")
        kept = there.runrig("restart", "chain-4")
        assert (kept.code, code_of("chain-5")) == (0, code_of("chain-3"))


def test_the_file_of_a_restart_names_its_code(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text("lr = 1\n")
    with served(tmp_path) as there:
        assert there.runrig("restart", stopped(there, after=1), "--code", str(project)).code == 0
        old = there.desk.service.workflow_queries.workflow("chain-2").code
        id = there.submit(CHAIN.replace("  groups:", f"  code: {old}\n  groups:"), "--pool", "pool1")
        there.runrig("cancel", id)
        (project / "train.py").write_text("lr = 2\n")
        assert there.runrig("restart", id, "--code", str(project)).code == 0
        new = there.desk.service.workflow_queries.workflow("chain-4").code
        file = there.runrig("workflow", "spec", "chain-4").out
        assert (f"code: {new}" in file, str(old) in file) == (True, False)


@pytest.mark.parametrize(
    ("folder", "says"), [("missing", "missing: no such folder"), ("empty", "empty has no files to send")]
)
def test_unsendable_folder_restarts_nothing(tmp_path: Path, folder: str, says: str) -> None:
    (tmp_path / "empty").mkdir()
    with served(tmp_path) as there:
        id = stopped(there, after=1)
        done = there.runrig("restart", id, "--code", str(tmp_path / folder))
        assert (done.code, says in done.err) == (2, True), done
        refused = there.desk.service.submissions.restarting(
            id, pool="pool1", user="ann", changes=Changes(code="f" * 64)
        )
        with pytest.raises(InvalidInput, match="unknown code"):
            do(there.desk.service, refused)
        assert [each["name"] for each in there.json("list", "--all")["workflows"]] == [id]


_TRAIN = """
workflow:
  name: train
  tasks:
  - {name: prep, image: any, command: [sh, -c, "echo tokens > {{output}}/data; echo prep >> RUNS"]}
  - name: main
    image: any
    command: [sh, -c, "cat {{input:prep}}/data && echo main >> RUNS && test -e MENDED"]
    inputs: [{task: prep}]
"""


@pytest.mark.slow
def test_processes_continue_from_files_until_these_are_removed(tmp_path: Path) -> None:
    runs, mended, data = tmp_path / "runs", tmp_path / "mended", tmp_path / "data"
    text = _TRAIN.replace("RUNS", str(runs)).replace("MENDED", str(mended))
    with up(data, "--gpus", "0") as server:
        assert server.runrig("submit", "-", stdin=text).code == 0
        assert server.runrig("wait", "train-1").code == 1
        assert server.runrig("restart", "train-1", "--failed").code == 0
        assert server.runrig("wait", "train-2").code == 1
        mended.touch()
        assert server.runrig("restart", "train-2", "--failed").code == 0
        assert server.runrig("wait", "train-3").code == 0
        assert server.runrig("logs", "train-3").out == "tokens\n"
        assert runs.read_text() == "prep\nmain\nmain\nmain\n"
        (output,) = data.rglob("train-1/prep/0/output")
        rmtree(output)
        for id, way in (("train-1", "Use `runrig restart train-1`"), ("train-2", "Submit its file again")):
            refused = server.runrig("restart", id, "--failed")
            assert (refused.code, refused.err) == (
                1,
                f"Error: {id} cannot continue from completed groups: the output of prep was removed. "
                f"{way} to run all groups\n",
            )
        assert server.workflows() == 3


_PROGRAM = """
workflow:
  name: fit
  tasks:
  - {name: prep, image: any, command: [sh, -c, "echo tokens > {{output}}/data; echo prep >> RUNS"]}
  - name: main
    image: any
    command: [python3, train.py, "{{input:prep}}/data"]
    inputs: [{task: prep}]
"""


@pytest.mark.slow
def test_corrected_program_continues_from_the_outputs_of_completed_groups(tmp_path: Path) -> None:
    runs, project = tmp_path / "runs", tmp_path / "project"
    project.mkdir()
    program = project / "train.py"
    program.write_text("import sys\nprint(open(sys.argv[1]).read().strip(), config['lr'])\n")
    with up(tmp_path / "data", "--gpus", "0") as server:
        server.runrig("submit", "-", stdin=_PROGRAM.replace("RUNS", str(runs)))
        assert server.runrig("wait", "fit-1").code == 2  # Python does not find train.py.
        server.runrig("restart", "fit-1", "--failed", "--code", str(project))
        assert server.runrig("wait", "fit-2").code == 1
        assert "NameError: name 'config' is not defined" in server.runrig("why", "fit-2").out
        program.write_text("import sys\nprint(open(sys.argv[1]).read().strip(), 0.1)\n")
        assert server.runrig("restart", "--failed", "--code", str(project)).code == 0
        assert server.runrig("wait", "fit-3").code == 0
        assert server.runrig("logs", "fit-3").out == "tokens 0.1\n"
        assert runs.read_text() == "prep\n"
