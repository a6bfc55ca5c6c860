"""Names that a real bash completes, of a real server."""

import os
import pty
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.worlds.command_line import RUN, Up, up
from tests.worlds.workflow_files import one_task

CLUSTER = """
backend: {name: lab, type: simulated}
nodes:
- {name: "n{0..1}", resources: {gpu: 2}}
cohorts:
- {name: research}
pools:
- {name: vision, cohort: research, quota: 2, subpools: [{name: a, quota: 1}, {name: b, quota: 1}]}
- {name: video, quota: 2}
"""


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Bash"]:
    here = tmp_path_factory.mktemp("completion")
    (here / "bin").mkdir()
    program = here / "bin" / "runrig"
    program.write_text(f"#!{sys.executable}\n{RUN}\n")
    program.chmod(0o755)
    (here / "cluster.yaml").write_text(CLUSTER)
    with up(here / "data", "--cluster", str(here / "cluster.yaml")) as server:
        for name in ("train", "tune"):
            text = one_task(name, 1, image="any", command=["x"], duration=3600)
            assert server.runrig("workflow", "submit", "-", "--pool", "video", stdin=text).code == 0
        assert server.runrig("workflow", "cancel", "tune-1").code == 0
        assert server.runrig("workflow", "wait", "tune-1").code == 125  # cancelled
        assert server.runrig("user", "create", "alice").code == 0
        yield Bash(here, server)


class Bash:
    """A shell in which `runrig` is on the PATH, its completion is loaded, and *server* is the one that it finds."""

    def __init__(self, here: Path, server: Up) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RUNRIG_")}
        path = f"{here / 'bin'}:{clean['PATH']}"
        self.here, self.environment = here, {**clean, "PATH": path, "RUNRIG_DATA": str(server.data), "TERM": "dumb"}
        self.environment["RUNRIG_COMPLETION_S"] = str(PATIENCE_S)  # a machine may be busy

    def offers(self, *words: str, env: Mapping[str, str] | None = None) -> list[str]:
        """What the loaded function completes the last of *words* to."""
        script = (
            'eval "$(runrig completion bash)"; COMP_WORDS=(runrig "$@"); COMP_CWORD=$#; COMPREPLY=(); '
            '_runrig_completion runrig; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "--norc", "-c", script, "bash", *words],
            env={**self.environment, **(env or {})},
            cwd=self.here,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return done.stdout.split()


@contextmanager
def typing(bash: Bash, *shell: str) -> Iterator["Terminal"]:
    """*shell*: another one."""
    command = shell or ("bash", "--norc", "--noprofile", "-i")
    child, master = pty.fork()
    if child == 0:
        os.chdir(bash.here)
        os.execvpe(command[0], command, bash.environment)
    try:
        yield Terminal(master)
    finally:
        os.close(master)
        os.waitpid(child, 0)


class Terminal:
    def __init__(self, master: int) -> None:
        self._master = master

    def keys(self, text: str) -> None:
        os.write(self._master, text.encode())

    def shows(self, wanted: str) -> None:
        """Returns once it has."""
        seen, until = "", time.monotonic() + PATIENCE_S
        while wanted not in seen:
            assert time.monotonic() < until, seen
            if select.select([self._master], [], [], 1.0)[0]:
                seen += os.read(self._master, 4096).decode(errors="replace").replace("\a", "")


@pytest.mark.slow
def test_completion_answers_keys_pressed_in_a_terminal(bash: Bash) -> None:
    with typing(bash) as terminal:
        terminal.keys('bind "set enable-bracketed-paste off"; eval "$(runrig completion bash)"; echo ready$((1 + 1))\n')
        terminal.shows("ready2")
        terminal.keys("runrig why tr\t")
        terminal.shows("runrig why train-1 ")
        terminal.keys("--po\tvis\t--b\t")
        terminal.shows("--pool vision--b ")
        terminal.keys("\x15runrig plan -f clus\t")
        terminal.shows("runrig plan -f cluster.yaml")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("why", ""), ["train-1", "tune-1"]),
        (("why", "train-1", "t"), ["tune-1"]),
        (("workflow", "cancel", "t"), ["train-1"]),
        (("workflow", "logs", "x"), []),
        (("workflow", "exec", "train-1", ""), ["main"]),
        (("workflow", "logs", "train-1", "--task", ""), ["main"]),
        (("workflow", "cancel", "--user", ""), ["alice"]),
        (("user", "show", "al"), ["alice"]),
        (("why", "--pool", "v"), ["video", "vision", "vision--a", "vision--b"]),
        (("workflow", "submit", "wf.yaml", "-p", "vid"), ["video"]),
        (("pool", "show", "vision--"), ["vision--a", "vision--b"]),
        (("pool", "create", "v"), []),
        (("pool", "update", "video", "--cohort", "r"), ["research"]),
        (("pool", "subpool", "update", "vision", ""), ["a", "b"]),
        (("cohort", "show", ""), ["research"]),
        (("resource", "info", "n"), ["n0", "n1"]),
        (("plan", "--drain", "n1"), ["n1"]),
        (("workflow", "list", "--user", "a"), ["alice"]),
        (("role", "grant", ""), ["alice"]),
        (("user", "disable", "a"), ["alice"]),
    ],
    ids=" ".join,
)
def test_completed_names_come_from_the_server(bash: Bash, words: tuple[str, ...], offered: list[str]) -> None:
    assert sorted(bash.offers(*words)) == offered


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(("line", "offered"), [("runrig why tr", ["train-1"]), ("runrig why --pool vid", ["video"])])
def test_fish_completion_offers_the_same_names(bash: Bash, line: str, offered: list[str]) -> None:
    script = f"runrig completion fish | source; complete -C '{line}'"
    home = bash.environment | {"HOME": str(bash.here)}
    done = subprocess.run(["fish", "--no-config", "-c", script], env=home, capture_output=True, text=True, check=True)
    assert done.stdout.split() == offered


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completion_completes_typed_names(bash: Bash) -> None:
    with typing(bash, "zsh", "-f", "-i") as terminal:
        terminal.keys(
            'PS1="> "; autoload -U compinit; compinit -u -D; eval "$(runrig completion zsh)"; echo ready$((1 + 1))\n'
        )
        terminal.shows("ready2")
        terminal.keys("runrig why tr\t")
        terminal.shows("train-1 ")
        terminal.keys("--po\tvis\t--b\t")
        terminal.shows("vision--b")


@pytest.mark.slow
def test_missing_server_is_not_an_error(bash: Bash) -> None:
    assert bash.offers("why", "t", env={"RUNRIG_SERVER": "http://127.0.0.1:9"}) == []
    assert bash.offers("why", "t", env={"RUNRIG_SERVER": "nonsense"}) == []
    assert bash.offers("why", "t", env={"RUNRIG_TOKEN": "not-a-good-one"}) == []
    assert bash.offers("why", "--ve") == ["--verbose"]


@pytest.mark.slow
def test_completion_does_not_wait_for_a_slow_server(bash: Bash) -> None:
    """It takes the connection, and says nothing as long as the test lasts: the shell goes on all the same."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for patience in ("", "soon", "-1", "nan", "0.01"):
            assert bash.offers("why", "t", env={"RUNRIG_SERVER": address, "RUNRIG_COMPLETION_S": patience}) == []
