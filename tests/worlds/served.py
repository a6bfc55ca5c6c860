"""The command line at a real server in this process, whose clock is moved by hand."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runrig.api.app import create_app
from runrig.domain.access import role_named
from tests.worlds.command_line import Done, runrig
from tests.worlds.http import listening
from tests.worlds.service import Desk, desk

_TOKEN = "correct-horse-battery"


@dataclass(frozen=True)
class Served:
    """*url*: of the server. *token*: of the user who runs the commands."""

    desk: Desk
    url: str
    token: str = _TOKEN

    def runrig(self, *args: str, stdin: str = "", width: int | None = None, typed: str = "") -> Done:
        env = {"RUNRIG_SERVER": self.url, "RUNRIG_TOKEN": self.token}
        return runrig(*args, env=env, stdin=stdin, width=width, typed=typed)

    def json(self, *args: str, stdin: str = "") -> Any:
        done = self.runrig(*args, "-t", "json", stdin=stdin)
        assert done.code == 0, done
        return done.json

    def submit(self, text: str, *args: str) -> str:
        """Returns the id."""
        return str(self.json("submit", "-", *args, stdin=text)["name"])

    def by(self, user: str, *roles: str) -> "Served":
        """The same for *user*, who is created with *roles* unless they exist."""
        access = self.desk.service.access
        if user not in {each.name for each in access.users.all()}:
            access.users.create(user, [role_named(each) for each in roles], actor="ann")
        token = access.tokens.create(user, f"laptop-{user}", actor="ann").text
        return Served(self.desk, self.url, token)


@contextmanager
def served(folder: Path, **settings: Any) -> Iterator[Served]:
    """*settings*: of `desk`. Commands run as ann, an administrator."""
    with (
        desk(folder, **settings) as it,
        listening(lambda port: create_app(it.service, token=_TOKEN, port=port, user="ann")) as port,
    ):
        yield Served(it, f"http://127.0.0.1:{port}")
