"""Storage of notices."""

from collections.abc import Sequence
from typing import Protocol

from runrig.domain.notices import Delivery, NoticeSetting


class NoticeStore(Protocol):
    """Small tables; each call is one transaction."""

    def settings(self) -> tuple[NoticeSetting, ...]:
        """Returns the settings of all users, by name."""

    def put(self, setting: NoticeSetting) -> None:
        """Creates or replaces the setting of a user. Drops what is waiting for the user's previous address."""

    def delete(self, user: str) -> None:
        """Deletes the setting of *user*, and what is waiting."""

    def collected(self, position: int, deliveries: Sequence[Delivery]) -> None:
        """Stores *deliveries*, and that the log was searched up to revision *position* for all users."""

    def due(self, now: float, latest: float) -> tuple[Delivery, ...]:
        """Returns the oldest delivery of each user that has one, if it is due at *now*, or only after *latest*: then the system
        clock was set back.
        """

    def waiting(self, user: str) -> int: ...

    def of(self, user: str, most: int) -> tuple[Delivery, ...]:
        """Returns the oldest *most* deliveries of *user*."""

    def tried(self, deliveries: Sequence[Delivery], at: float, result: str, due: float | None) -> None:
        """Stores the *result* of an attempt with *deliveries* of one user, oldest first. *due*: of the next one, for which the
        others wait with the first; None: they are over.
        """
