"""Users' credentials: stored sealed, never shown, and opened only for a task."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from runrig.domain.credentials import (
    Credential,
    CredentialKind,
    CredentialUse,
    check_values,
    name_problem,
    profile_of,
    secrets_of,
)
from runrig.domain.errors import Conflict, InvalidInput, NotFound
from runrig.domain.quantities import few
from runrig.domain.tags import Expected, check_unchanged
from runrig.domain.trail import AccessEventKind
from runrig.service.access.accounts import Accounts
from runrig.service.access.sealing import keys_in, opened, seal

MOST = 100
"""Maximum number of credentials of a user."""


class Credentials:
    """*keys*: the file with the keys; None: credentials are disabled."""

    def __init__(self, accounts: Accounts, keys: Path | None) -> None:
        self._accounts = accounts
        self._keys = keys

    def of(self, user: str) -> tuple[Credential, ...]:
        found = self._accounts.rows.credentials.values()
        return tuple(sorted((each for each in found if each.user == user), key=lambda each: each.name))

    def get(self, user: str, name: str) -> Credential:
        """Returns it without its values. Raises NotFound."""
        found = self._accounts.rows.credentials.get((user, name))
        if found is None:
            has = few([each.name for each in self.of(user)])
            raise NotFound(f"unknown credential {name!r:.80} of {user} (credentials: {has or 'none'})")
        return found

    def set(
        self,
        user: str,
        name: str,
        kind: CredentialKind,
        values: Mapping[str, str],
        *,
        actor: str,
        expected: Expected = None,
    ) -> tuple[Credential, bool]:
        """Returns (the credential, whether it is new). Raises InvalidInput, Conflict, Changed, ServerFault."""
        InvalidInput.check(name_problem(name), "name")
        check_values(kind, values)
        keys = keys_in(self._keys)
        with self._accounts.changing(actor) as change:
            before = self._accounts.rows.credentials.get((user, name))
            if expected is not None:
                check_unchanged(expected, self.get(user, name), f"credential {name}")
            if before is None and len(self.of(user)) >= MOST:
                raise Conflict(f"{user} has reached the limit of {MOST} credentials. Delete some first")
            made = Credential(user, name, kind, tuple(sorted(values)), profile_of(kind, values), change.now, "")
            made = replace(made, sealed=seal(keys, values, made))
            change.credential(made)
            return made, before is None

    def delete(self, user: str, name: str, *, actor: str, expected: Expected = None) -> Credential:
        """Returns the deleted credential. Running tasks keep its values. Raises NotFound, Changed."""
        with self._accounts.changing(actor) as change:
            gone = self.get(user, name)
            check_unchanged(expected, gone, f"credential {name}")
            change.drop(gone)
            return gone

    def opened(self, user: str, name: str) -> Mapping[str, str]:
        """Returns the values, for a task of *user*. Raises NotFound, Conflict, ServerFault."""
        return opened(keys_in(self._keys), self.get(user, name))

    def handed(self, user: str, uses: Iterable[CredentialUse], since: float) -> Collection[str]:
        """Returns the secrets that *uses* gave to tasks of *user* after *since*.

        Raises NotFound, Conflict or ServerFault if one is unknown, also if a credential changed after *since*.
        """
        found: set[str] = set()
        for use in uses:
            credential = self.get(user, use.name)
            if credential.changed_at >= since:
                raise Conflict(f"credential {use.name!r} of {user} has changed")
            found |= secrets_of(credential.kind, opened(keys_in(self._keys), credential), use)
        return found

    def pulls(self, user: str) -> Mapping[str, str]:
        """Returns the credentials of *user* for pulling images: name → registry ("" if not set), the most recently changed last."""
        found = (each for each in self.of(user) if each.kind is CredentialKind.REGISTRY)
        return {each.name: each.profile for each in sorted(found, key=lambda each: each.changed_at)}

    def reseal(self, *, actor: str) -> tuple[int, int]:
        """Seals all with the newest key in the file. Returns (count, number left unchanged because no key opens them).

        Raises Conflict, ServerFault.
        """
        keys = keys_in(self._keys)
        with self._accounts.changing(actor) as change:
            for each in self._accounts.rows.credentials.values():
                try:
                    values = opened(keys, each)
                except Conflict:
                    continue
                change.credentials.append(replace(each, sealed=seal(keys, values, each)))
            if change.credentials:
                change.tell(AccessEventKind.CREDENTIALS_RESEALED, actor, str(len(change.credentials)))
            return len(change.credentials), len(self._accounts.rows.credentials) - len(change.credentials)
