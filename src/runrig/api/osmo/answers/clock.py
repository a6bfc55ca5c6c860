"""The clock that was accepted, as an answer."""

from runrig import wire
from runrig.service.service import AcceptedClock


def accepted(value: AcceptedClock) -> wire.ClockAnswer:
    before, now = wire.utc(value.before), wire.utc(value.now)
    assert before is not None, "a time that is set"
    assert now is not None, "a time that is set"
    return wire.ClockAnswer(before=before, now=now, doubt=value.doubt)
