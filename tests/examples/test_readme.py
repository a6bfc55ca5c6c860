"""The session of README.md: a reader who types it, however slowly, sees what is printed there."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from runrig.spec.workflow import read_workflow
from tests.docs.test_docs import PAGES
from tests.worlds.command_line import runrig, up, written

SESSION = PAGES["README.md"].partition("## A session")[2].partition("\n## ")[0]
CLUSTER = Path(__file__).parents[2] / "examples" / "clusters" / "two-pools.yaml"
SLOWEST_S = 1800
WIDTH = 120
_LOOP = re.compile(r"for i in ([0-9 ]+); do (.*); done")
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", SESSION, re.DOTALL | re.MULTILINE)


def typed() -> Iterator[tuple[list[list[str]], str]]:
    """The commands behind each prompt of the second terminal, and what is printed below it."""
    for block in blocks("console")[1:]:
        for _, line, printed in re.findall(r"^(\$ )(.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            loop = _LOOP.fullmatch(line)
            times, command = (len(loop[1].split()), loop[2]) if loop else (1, line)
            program, *args = shlex.split(command)
            assert program == "runrig", line
            yield [args] * times, printed


def test_commands_of_the_session_print_what_it_shows(tmp_path: Path) -> None:
    (file,) = blocks("yaml workflow")
    (task,) = (task for group in read_workflow(file.replace("{{ gpus }}", "1")).groups for task in group.tasks)
    assert f"sleep {SLOWEST_S}" in task.command[-1], "a task of the session ends while its reader still types"
    train = written(tmp_path, file, "train.yaml")
    seen = []
    with up(tmp_path / "data", "--gpus", "4", "--cluster", str(CLUSTER)) as server:
        for commands, printed in typed():
            for args in commands:
                there = [train if arg == "train.yaml" else arg for arg in args]
                done = runrig(*there, env={"RUNRIG_DATA": str(server.data)}, width=WIDTH)
                if args[0] == "submit" and done.code == 0:
                    id = done.out.split()[0]
                    assert server.runrig("workflow", "wait", id, "--for", "RUNNING", "--timeout", "60").code == 0
            if printed:
                told, shown = (_TIME.sub("TIME", text).replace("─", "-") for text in (done.out + done.err, printed))
                assert told[: len(shown)] == shown  # the README omits the address of the page
                seen.append(args[:2])
    assert seen == [["pool", "list"], ["why", "train-3"], ["submit", "train.yaml"]]
