"""Facts about commits, which the log has in addition to their events (docs/event-export.md)."""

from collections.abc import Mapping, Sequence
from typing import Any

from runrig.domain.errors import Refused
from runrig.domain.plan import LAWS
from runrig.engine.ledger.ledger import Ledger
from runrig.service.runtime.writing import Revision

MOST_REFUSED, COMMITS_EACH = 16, 10
"""Refusals that one commit can have, and commits for each of them on average: users can cause any number, and they are kept forever."""

LARGEST_REFUSED = 50_000
"""Characters, some 400 pod sets: the next commit, of another user, stores it."""


class About:
    """Collects what the next commit says, in addition to the needs of what it submits."""

    def __init__(self) -> None:
        self._facts: dict[str, Any] = {"laws": LAWS}
        self._refused: list[tuple[int, Mapping[str, Any]]] = []
        self._credit = MOST_REFUSED * COMMITS_EACH

    def rested(self, at: float, ledger: Ledger) -> None:
        """A cycle has ended at *at*."""
        self._facts["rest"] = round(at * 1_000_000)
        self._note_unproven(ledger)

    def decided(self, ledger: Ledger) -> None:
        """A part of a cycle is about to be committed."""
        nominations, ledger.searches.nominations = ledger.searches.nominations, {}
        if nominations:
            self._facts["searched"] = {gang: [*each] for gang, each in nominations.items()}
        self._note_unproven(ledger)

    def _note_unproven(self, ledger: Ledger) -> None:
        gangs = {*self._facts.get("unproven", ()), *ledger.searches.unproven()}
        if gangs:
            self._facts["unproven"] = sorted(gangs)

    def failed(self, errors: Sequence[Exception], user: str, revision: int) -> None:
        """Notes what a rule refused to *user* in the state of *revision*, unless that is too many or too large."""
        for error in errors:
            if not isinstance(error, Refused) or self._credit < COMMITS_EACH or len(self._refused) == MOST_REFUSED:
                continue
            numbers = {name: each for name, each in error.details.items() if name != "law"}
            gang = {} if error.gang is None else {"gang": error.gang}
            refused = {"user": user, "law": error.law, "numbers": numbers, **gang}
            if len(repr(refused)) <= LARGEST_REFUSED:
                self._credit -= COMMITS_EACH
                self._refused.append((revision, refused))

    def lost(self) -> None:
        """The state was loaded again, so what was decided since the last commit is not known."""
        self._facts = {name: each for name, each in self._facts.items() if name == "laws"}
        self._refused = []

    def of(self, revisions: Sequence[Revision]) -> dict[int, dict[str, Any]]:
        """Returns what *revisions*, which are stored together, say, by number."""
        about: dict[int, dict[str, Any]] = {each.number: {"needs": each.needs} for each in revisions if each.needs}
        if self._facts:
            about.setdefault(revisions[0].number, {}).update(self._facts)
        for after, refused in self._refused:
            at = max(after + 1, revisions[0].number)
            if at <= revisions[-1].number:
                about.setdefault(at, {}).setdefault("refused", []).append(refused)
        return about

    def stored(self, revisions: Sequence[Revision]) -> None:
        self._facts = {}
        self._refused = [each for each in self._refused if each[0] >= revisions[-1].number]
        self._credit = min(self._credit + len(revisions), MOST_REFUSED * COMMITS_EACH)
