"""What is computed from specifications, kept by their hashes: the content of a hash never changes."""

from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar

from runrig.domain.workflows import WorkflowSpec

T = TypeVar("T")

Specs = Callable[[Collection[str]], Mapping[str, WorkflowSpec]]
"""As `WorkflowReads.specs`."""

_MOST_REMEMBERED = 10_000


class OfSpecs(Generic[T]):
    def __init__(self, specs: Specs, make: Callable[[WorkflowSpec], T]) -> None:
        self._specs = specs
        self._make = make
        self._known: dict[str, T] = {}

    def by_hash(self, hashes: Collection[str]) -> Mapping[str, T]:
        """Reads each specification once. Leaves out specifications that retention deleted."""
        found = {hash: known for hash in hashes if (known := self._known.get(hash)) is not None}
        if unknown := set(hashes) - found.keys():
            read = {hash: self._make(spec) for hash, spec in self._specs(unknown).items()}
            if len(self._known) > _MOST_REMEMBERED:
                self._known = {}
            self._known |= read
            found |= read
        return found
