"""The commands of a day, word for word."""

from tests.cli.day import RECORDED, morning, the_day


def test_transcript_of_a_day_is_unchanged() -> None:
    with morning() as day:
        assert the_day(day) == RECORDED.read_text(encoding="utf-8")
