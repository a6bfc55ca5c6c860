"""Two wheels of one folder: runrig's has every file, and the client's is enough for a laptop."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from runrig import __version__
from tests.worlds.command_line import up, written

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent.parent
LARGEST = 15_000_000
"""Bytes of the client with all that it needs, without bytecode."""
MISSING = (
    "Error: this command needs the server. Install runrig instead of runrig-client: "
    "pip uninstall runrig-client, then pip install runrig\n"
)
HEAVY = ("numpy", "sqlalchemy", "fastapi", "uvicorn", "pydantic", "asyncio")
HELLO = "workflow:\n  name: hello\n  tasks: [{name: main, image: ubuntu, command: [sleep, '1']}]\n"
CLUSTER = "backend: {name: lab, type: simulated}\npools: [{name: p, quota: 1}]\n"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel of the client and that of the server."""
    folder = tmp_path_factory.mktemp("wheels")
    for project in ("client", "."):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=ROOT / project, check=True, stdout=subprocess.DEVNULL)
    return folder / f"runrig_client-{__version__}-py3-none-any.whl", folder / f"runrig-{__version__}-py3-none-any.whl"


def modules(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return sorted(name for name in archive.namelist() if name.startswith("runrig/"))


def needs(wheel: Path) -> list[Requirement]:
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        found = Parser().parsestr(archive.read(metadata).decode())
    return [Requirement(each) for each in found.get_all("Requires-Dist", [])]


def test_runrig_wheel_has_every_file_and_the_client_wheel_only_those_of_a_client(wheels: tuple[Path, Path]) -> None:
    files = [path for path in (ROOT / "src/runrig").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    examples = [f"runrig/{path.relative_to(ROOT)}" for path in (ROOT / "examples").rglob("*.yaml")]
    client, whole = (modules(wheel) for wheel in wheels)
    assert whole == sorted([*(str(path.relative_to(ROOT / "src")) for path in files), *examples])
    of_laptop = {"__init__.py", "__main__.py", "py.typed", "cli", "client", "domain", "mcp", "osmo", "spec", "wire"}
    in_client = [name for name in whole if name.split("/")[1] in of_laptop]
    assert client == sorted([*in_client, *(name for name in examples if name.startswith("runrig/examples/workflows/"))])


def test_both_wheels_need_only_published_packages_and_the_client_none_beyond_runrigs(wheels: tuple[Path, Path]) -> None:
    locked = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    published = {each["name"] for each in locked if "registry" in each["source"]}
    client, whole = ({str(each) for each in needs(wheel) if each.marker is None} for wheel in wheels)
    assert client < whole
    assert sorted({each.name for each in needs(wheels[1])} - published) == []


def test_on_an_index_the_readme_has_no_link_into_the_repository(wheels: tuple[Path, Path]) -> None:
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            shown = archive.read(metadata).decode().partition("\n\n")[2]
        assert shown.startswith("# runrig")
        assert re.findall(r"\]\((?!https://)[^)]*\)", shown) == []


def test_both_wheels_have_one_version_and_one_license(wheels: tuple[Path, Path]) -> None:
    versions = [
        tomllib.loads((ROOT / each / "pyproject.toml").read_text())["project"]["version"] for each in (".", "client")
    ]
    assert versions == [__version__] * 2
    assert (ROOT / "client/LICENSE").read_text() == (ROOT / "LICENSE").read_text()


# ---------------------------------------------------------------- each alone


@dataclass(frozen=True)
class Laptop:
    """An environment with one of the wheels and what it says that it needs, and nothing else."""

    python: Path
    packages: Path

    def run(self, *args: str, **env: str) -> "subprocess.CompletedProcess[str]":
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("RUNRIG_", "PYTHON"))}
        command = [str(self.python), *args]
        return subprocess.run(command, env=clean | env, capture_output=True, text=True, check=False)

    def runrig(self, *args: str, **env: str) -> "subprocess.CompletedProcess[str]":
        return self.run("-m", "runrig", *args, **env)


def installed(wheel: Path, folder: Path) -> Laptop:
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    for name in sorted(set(_with_needs(needs(wheel)))):
        for file in distribution(name).files or ():
            if "__pycache__" not in file.parts and ".." not in file.parts:
                target = packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(file.locate()), target)
    return Laptop(folder / "bin/python", packages)


@pytest.fixture(scope="module")
def laptop(wheels: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Laptop:
    return installed(wheels[0], tmp_path_factory.mktemp("laptop"))


def _with_needs(requirements: list[Requirement]) -> Iterator[str]:
    """The names of *requirements*, and of what those need in turn."""
    for each in requirements:
        if each.marker is None or each.marker.evaluate({"extra": ""}):
            yield each.name
            yield from _with_needs([Requirement(text) for text in distribution(each.name).requires or ()])


def test_client_wheel_is_small(laptop: Laptop) -> None:
    files = [path for path in laptop.packages.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert sum(path.stat().st_size for path in files) <= LARGEST


def test_client_alone_works_with_a_server(laptop: Laptop, tmp_path: Path) -> None:
    file = written(tmp_path, HELLO)
    program = "import sys; from runrig.client import Client; print(Client().workflows.submit(sys.stdin.read()).id)"
    with up(tmp_path / "data", "--gpus", "1") as server:
        data = str(server.data)
        assert laptop.runrig("workflow", "submit", file, RUNRIG_DATA=data).returncode == 0
        listed = laptop.runrig("workflow", "list", RUNRIG_DATA=data)
        assert (listed.returncode, "hello-1" in listed.stdout, listed.stderr) == (0, True, "")
        called = laptop.run("-c", program.replace("sys.stdin.read()", repr(HELLO)), RUNRIG_DATA=data)
        assert (called.stdout, called.stderr) == ("hello-2\n", "")
        shown = laptop.runrig("example", "run", "hello", "--dry-run", RUNRIG_DATA=data)
        assert (shown.returncode, "examples/workflows/01-hello.yaml" in shown.stderr) == (0, True)


def test_runrig_alone_is_a_server_and_a_client(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    machine = installed(wheels[1], tmp_path / "machine")
    file, data = written(tmp_path, HELLO), str(tmp_path / "data")
    with serving(machine, data):
        assert machine.runrig("workflow", "submit", file, RUNRIG_DATA=data).returncode == 0
        assert machine.runrig("example", "run", "borrow-and-reclaim").returncode == 0
        listed = machine.runrig("workflow", "list", RUNRIG_DATA=data)
        assert (listed.returncode, "hello-1" in listed.stdout, listed.stderr) == (0, True, "")


@contextmanager
def serving(machine: Laptop, data: str) -> Iterator[None]:
    """`runrig up` of *machine*, without checking what else the environment of these tests has."""
    command = [str(machine.python), "-m", "runrig", "up", "--gpus", "1", "--port", "0", "--data", data]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("RUNRIG_", "PYTHON"))}
    with subprocess.Popen(command, env=clean, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert any("http://" in line for line in server.stdout)
            yield
        finally:
            server.terminate()


def test_file_is_validated_without_a_server(laptop: Laptop, tmp_path: Path) -> None:
    done = laptop.runrig("workflow", "validate", written(tmp_path, HELLO))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "command",
    [
        "up",
        "serve --config {serve}",
        "simulate {cluster}",
        "backup -o {file}.backup --config {serve}",
        "restore x --config {serve}",
        "workflow validate {file} --cluster {cluster}",
        "workflow render {file} --cluster {cluster}",
    ],
)
def test_commands_that_need_a_server_say_so_in_one_line(laptop: Laptop, tmp_path: Path, command: str) -> None:
    names = {
        "file": written(tmp_path, HELLO),
        "cluster": written(tmp_path, CLUSTER, "cluster.yaml"),
        "serve": written(tmp_path, f"data: {tmp_path}\nbackend: simulated\n", "serve.yaml"),
    }
    done = laptop.runrig(*command.format(**names).split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == MISSING


def test_library_is_imported_without_optional_packages() -> None:
    program = "import sys, runrig.client; runrig.client.Client('http://127.0.0.1:1'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in HEAVY if name in loaded] == []
