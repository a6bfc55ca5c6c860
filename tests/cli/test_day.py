"""The commands of a day, word for word."""

from tests.cli.day import RECORDED, morning, the_day


def test_a_day_reads_as_it_did() -> None:
    with morning() as day:
        assert the_day(day) == RECORDED.read_text(encoding="utf-8")
