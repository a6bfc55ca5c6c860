"""Storage of code that was sent with workflows."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from runrig.domain.code import Manifest


@dataclass(frozen=True, slots=True)
class StoredCode:
    """*read*: returns the contents with a SHA-256 of the manifest; raises the errors of the store."""

    manifest: Manifest
    read: Callable[[str], bytes]


CodeOf = Callable[[str, str], StoredCode]
"""(user, id) → the code. Raises NotFound, and the errors of the store."""


class CodeStore(Protocol):
    """Code by user. Contents are stored once per user, compressed. Changes have no revision."""

    def missing(self, user: str, manifest: Manifest) -> tuple[str, ...]:
        """Returns the SHA-256 of contents that *user* has not sent, in the order of the manifest."""

    def put(self, user: str, manifest: Manifest, contents: Mapping[str, Sequence[bytes]], now: float) -> None:
        """Stores the code, and *contents* by SHA-256, each compressed with zlib and in pieces of at most 1 MiB, in one transaction.

        Raises Conflict if contents are missing, or *user* would have more than `LARGEST_OF_USER`; then stores nothing.
        """

    def renew(self, user: str, id: str, now: float) -> bool:
        """Protects the code from `prune` for a while longer; returns False if *user* does not have it."""

    def adopt(self, user: str, id: str, giver: str, now: float) -> None:
        """Gives *user* the code *id* of *giver*. Raises NotFound, and Conflict as `put`."""

    def code(self, user: str, id: str) -> StoredCode:
        """Raises NotFound."""

    def prune(self, before: float) -> Collection[str]:
        """Deletes a code that no workflow of its user names and that was last sent before *before*; returns its id, if any."""
