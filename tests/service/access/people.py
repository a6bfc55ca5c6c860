"""Access on a real store, with a clock that a test moves."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runrig.domain.access import Grant, Identity, RoleKind, role_named
from runrig.service.access.access import Access
from runrig.store import SqlStore
from tests.stores import with_tables
from tests.worlds.service import T0

ELSEWHERE = "192.0.2.7"

ADMIN = Grant(RoleKind.ADMIN)
VIEWER = Grant(RoleKind.VIEWER)


@dataclass
class People:
    store: SqlStore
    access: Access
    time: list[float]

    def token(self, user: str, *roles: str, name: str = "t", expires_in_s: float | None = 1000.0) -> str:
        """A new one of *user*, who is made with *roles* if not there."""
        if user not in {each.name for each in self.access.users.all()}:
            self.access.users.create(user, [role_named(role) for role in roles], actor="root")
        return self.access.tokens.create(user, name, expires_in_s, actor="root").text

    def ask(self, bearer: str | None) -> Identity:
        return self.access.authentication.authenticate(bearer, ELSEWHERE)

    def trail(self) -> list[tuple[str, str, str, str]]:
        """(actor, what, user, subject), the oldest first."""
        events = self.access.events(limit=1000)
        return [(each.actor, each.what.value, each.user, each.subject) for each in reversed(events)]

    def again(self) -> Access:
        """As a server that starts now finds it."""
        return Access(self.store.access, now=lambda: self.time[0], pools=lambda: ("team", "team2"))


@contextmanager
def people(url: str) -> Iterator[People]:
    """*url*: of a database, or the path of one of SQLite, which is made."""
    store = SqlStore.open(url if "://" in url else with_tables(Path(url)))
    time = [T0]
    access = Access(store.access, now=lambda: time[0], pools=lambda: ("team", "team2"))
    try:
        yield People(store, access, time)
    finally:
        access.uses.write()
        store.close()
