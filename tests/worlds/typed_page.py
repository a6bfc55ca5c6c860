"""A page of the docs whose commands are typed by a test, block by block, in a real shell.

A block ``console`` has commands behind ``$ ``, each with its output; ``...`` stands for any lines. ``console server`` is a second
terminal, in which a server starts and stays. A block with ``file=NAME`` is saved under this name. A block after
``<!-- not run: REASON -->`` is not typed, and a block ``sh`` must have such a reason.
"""

import getpass
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>.+?) -->\n)?^```(?P<info>\S[^\n]*)\n(?P<body>.*?)^```", re.DOTALL | re.MULTILINE
)
_COMMAND = re.compile(r"^\$ (.*\n(?:> .*\n)*)((?:(?!\$ ).*\n)*)", re.MULTILINE)
_READS = re.compile(r"runrig (?:list|status|logs|why|events|top|pool (?:list|show)|workflow (?:list|query))\b")
"""Commands that change nothing, so that they can be typed until what they wait for has happened."""
_SAME = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "TIME"),
    (re.compile(r"\b\d\d:\d\d(?::\d\d)?\b"), "CLOCK"),
    (re.compile(r"\b\d+(?:\.\d+)?(?:ms|s|m|h)(?: \d+(?:s|m))?\b"), "SPAN"),
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), "ADDRESS"),
    (re.compile(r"\(\d+(?:\.\d+)? k?B\)"), "(SIZE)"),
    (re.compile(r"[-─]{2,}"), "--"),
    (re.compile(r" {2,}"), "  "),
)
_LONGEST_S = 15.0
_END = "typed-until-here"


@dataclass(frozen=True)
class Block:
    info: str
    body: str
    reason: str | None
    """Why it is not typed; None: it is."""

    @property
    def file(self) -> str | None:
        found = re.search(r"\bfile=(\S+)", self.info)
        return found[1] if found else None

    def commands(self) -> Iterator[tuple[str, str]]:
        for command, printed in _COMMAND.findall(self.body):
            yield command.replace("\n> ", "\n").strip(), printed


def blocks(text: str) -> list[Block]:
    """The blocks of a page that are typed or saved, and those of commands that are not."""
    every = [Block(found["info"], found["body"], found["reason"]) for found in _BLOCK.finditer(text)]
    return [each for each in every if each.reason or each.file or each.info.startswith(("console", "sh"))]


def type_page(text: str, folder: Path, programs: Path) -> list[str]:
    """Types the page in *folder*, with *programs* first in PATH; returns what differs, command by command."""
    home = folder.with_name(f"{folder.name}-home")
    home.mkdir()
    env = {name: os.environ[name] for name in os.environ if not name.startswith(("RUNRIG_", "PYTEST"))}
    env |= {"PATH": f"{programs}:{env['PATH']}", "HOME": str(home), "NO_COLOR": "1", "USER_OF_PAGE": getpass.getuser()}
    found: list[str] = []
    with ExitStack() as servers, _shell(folder, env) as shell:
        for block in blocks(text):
            if block.reason or block.info == "sh":
                continue
            if block.file:
                (folder / block.file).write_text(block.body)
                continue
            for command, printed in block.commands():
                if block.info == "console server":
                    servers.enter_context(_server(command, folder, env))
                elif (said := _typed(shell, command, printed)) is not None:
                    found.append(f"$ {command}\n{said}")
    return found


def _typed(shell: "subprocess.Popen[str]", command: str, printed: str) -> str | None:
    """Returns what was printed instead of *printed*; None if they agree."""
    until = time.monotonic() + (_LONGEST_S if _READS.match(command) else 0)
    while True:
        code, said = _run(shell, command)
        if _agrees(printed, said) and (code == 0 or "Error: " in printed):
            return None
        if time.monotonic() >= until:
            return f"{said}(exit code {code})"
        time.sleep(0.1)


def _agrees(printed: str, said: str) -> bool:
    parts = [re.escape(_normal(part)) for part in re.split(r"^\.\.\.\n", printed, flags=re.MULTILINE)]
    return re.fullmatch(r"(?:.*\n)*?".join(parts), _normal(said)) is not None


def _normal(text: str) -> str:
    for name, there in ((socket.gethostname(), "gpu-1"), (getpass.getuser(), "ann")):
        text = re.sub(rf"\b{re.escape(name)}\b", there, text)
    for pattern, same in _SAME:
        text = pattern.sub(same, text)
    return "\n".join(line.rstrip() for line in text.split("\n"))


# ---------------------------------------------------------------- terminals


@contextmanager
def _shell(folder: Path, env: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        ["bash", "--norc"],
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            yield shell
        finally:
            shell.kill()


def _run(shell: "subprocess.Popen[str]", command: str) -> tuple[int, str]:
    assert shell.stdin is not None
    assert shell.stdout is not None
    shell.stdin.write(f"{{ {command}\n}} </dev/null; echo {_END} $?\n")
    shell.stdin.flush()
    lines: list[str] = []
    for line in shell.stdout:
        if line.startswith(_END):
            return int(line.split()[1]), "".join(lines)
        lines.append(line)
    raise AssertionError(f"the shell ended at {command}: {''.join(lines)}")


@contextmanager
def _server(command: str, folder: Path, env: dict[str, str]) -> Iterator[None]:
    """The server that *command* starts, on a free port."""
    words = f"exec {command} --port 0"
    with subprocess.Popen(
        ["bash", "-c", words], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        try:
            assert server.stdout is not None
            said: list[str] = []
            for line in server.stdout:
                said.append(line)
                if " is up at " in line:
                    break
            else:
                raise AssertionError(f"{command} did not start: {''.join(said)}")
            yield
        finally:
            server.terminate()
