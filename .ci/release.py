"""`make release`: builds what a release consists of into `dist/`, and checks it as somebody who installs it would. Publishes nothing."""

import gzip
import hashlib
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import click
from click_man.core import write_man_pages
from image_base import DOCKERFILE, base_of, pinned
from trying import ROOT, VERSION, build_wheel, installed, run, step, wheel

from runrig.cli.lazy import LazyGroup
from runrig.cli.main import cli

DIST = ROOT / "dist"
FIRST_DATABASE = ROOT / "tests/packaging/data/first.sql.gz"
"""A server's database with waiting, running and ended workflows, made before there was a release."""
_NO_REQUEST = re.compile(r"^(?=['.](?![A-Z]{1,2}\b))", re.MULTILINE)
"""A line of text that begins as a request of roff does, which would not be shown."""
SHELLS = {"bash": "runrig.bash", "zsh": "_runrig", "fish": "runrig.fish"}


def main(uv: str) -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    step("build", build)
    step("check the metadata and the README", check_metadata)
    step("write manual pages and completions", write_pages)
    step("list what it contains (SBOM)", lambda: write_bom(uv))
    step("find the digest of the image's base", write_image_base)
    with tempfile.TemporaryDirectory() as folder:
        step("install the server in a fresh environment", lambda: try_server(uv, Path(folder)))
        step("install the client in a fresh environment", lambda: try_client(uv, Path(folder)))
    step("write checksums", write_checksums)
    print(f"\nrunrig {VERSION} is in dist/. Nothing was published.")


# ---------------------------------------------------------------- what is in dist/


def build() -> None:
    """Both wheels, and the source of runrig. The client is built from the same source."""
    run(sys.executable, "-m", "hatchling", "build", "-d", DIST)
    build_wheel(DIST, ROOT / "client")


def check_metadata() -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *DIST.glob("*.whl"), *DIST.glob("*.tar.gz"))


def write_pages() -> None:
    """A manual page for each command, and the completion script of each shell."""
    (DIST / "man").mkdir()
    import_commands(cli)
    write_man_pages("runrig", cli, version=VERSION, target_dir=str(DIST / "man"))
    for page in (DIST / "man").iterdir():
        page.write_text(_NO_REQUEST.sub(r"\\&", page.read_text()))
    (DIST / "completions").mkdir()
    for shell, name in SHELLS.items():
        (DIST / "completions" / name).write_text(run(sys.executable, "-m", "runrig", "completion", shell))


def import_commands(group: click.Group) -> None:
    """Fills `commands`, which click-man reads, with what *group* would import when it runs."""
    for name in group.lazy if isinstance(group, LazyGroup) else ():
        command = group.get_command(click.Context(group), name)
        assert command is not None
        group.add_command(command, name)
        if isinstance(command, click.Group):
            import_commands(command)


def write_bom(uv: str) -> None:
    """CycloneDX: the locked version and hash of each package that the server and the command line can use."""
    extras = ("--extra=postgresql", "--extra=kubernetes", "--extra=mcp")
    bom = json.loads(run(uv, "export", "--quiet", "--frozen", *extras, "--format=cyclonedx1.5"))
    assert bom["components"], "no package is listed"
    (DIST / "runrig.cdx.json").write_text(json.dumps(bom, indent=1) + "\n")


def write_image_base() -> None:
    """The base of the image with its digest, for `docker build --build-arg BASE=`."""
    found = pinned(base_of(DOCKERFILE.read_text()))
    if found is None:
        print("its registry cannot be reached, left out ... ", end="")
    else:
        (DIST / "image-base.txt").write_text(f"{found}\n")


def write_checksums() -> None:
    files = sorted(path for path in DIST.rglob("*") if path.is_file())
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(DIST)}" for path in files]
    (DIST / "SHA256SUMS").write_text("".join(f"{line}\n" for line in lines))


# ---------------------------------------------------------------- installed by somebody else


def try_server(uv: str, folder: Path) -> None:
    """A fresh server starts, and one with an old database, whose workflows are all there afterwards."""
    program = installed(uv, folder / "server", wheel(DIST)) / "runrig"
    run(program, "example", "run", "borrow-and-reclaim")
    listed(program, folder / "new")
    data = folder / "old"
    data.mkdir(mode=0o700)
    with closing(sqlite3.connect(data / "runrig.db")) as database:
        database.executescript(gzip.decompress(FIRST_DATABASE.read_bytes()).decode())
        expected = {row[0] for row in database.execute("SELECT id FROM workflows")}
    assert expected <= listed(program, data), "a workflow is missing after the upgrade"


def try_client(uv: str, folder: Path) -> None:
    program = installed(uv, folder / "client", wheel(DIST, "runrig_client")) / "runrig"
    run(program, "workflow", "validate", ROOT / "examples/workflows/01-hello.yaml")
    run(program, "example", "show", "hello")


def listed(program: Path, data: Path) -> set[str]:
    """Returns the ids of all workflows that a server in folder *data* shows."""
    command = [str(program), "up", "--gpus", "1", "--port", "0", "--data", str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            assert server.stdout is not None
            said = []
            for line in server.stdout:
                said.append(line)
                if "http://" in line:
                    break
            else:
                sys.exit(f"failed: the server did not start\n{''.join(said)}")
            answer = json.loads(run(program, "list", "--all", "--count", "1000", "-t", "json", RUNRIG_DATA=str(data)))
            return {each["name"] for each in answer["workflows"]}
        finally:
            server.terminate()


if __name__ == "__main__":
    main(sys.argv[1])
