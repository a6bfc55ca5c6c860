"""Conversion of errors to HTTP statuses and back."""

from collections.abc import Iterator

import pytest

from runrig.domain import errors
from runrig.domain.errors import Conflict, InvalidInput, NotFound, Refused, RunrigError, ServerFault
from runrig.domain.statuses import STATUSES, kind_of, status_of


def kinds(above: type[RunrigError] = RunrigError) -> Iterator[type[RunrigError]]:
    for kind in above.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield kind
        yield from kinds(kind)


def test_every_kind_of_error_survives_the_round_trip() -> None:
    every = list(kinds())
    assert set(every) == set(STATUSES)
    for kind in every:
        error = kind.__new__(kind)
        assert (kind_of(status_of(error), error.code), kind) == (kind, kind)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, None, InvalidInput),
        (400, "USAGE", InvalidInput),
        (405, "USAGE", InvalidInput),
        (422, "RESOURCE", Refused),
        (404, "SOMETHING", NotFound),
        (409, 7, Conflict),
        (418, [], InvalidInput),
        (500, "NOTFOUND", ServerFault),
        (502, None, ServerFault),
    ],
)
def test_unknown_codes_are_classified_by_their_status(status: int, code: object, kind: type[RunrigError]) -> None:
    assert kind_of(status, code) is kind
