"""The commands of a day, word for word."""

from tests.cli.day import RECORDED, morning, the_day


def test_a_day_reads_as_it_did() -> None:
    with morning() as day:
        assert the_day(day) == RECORDED.read_text(encoding="utf-8")


def test_no_line_of_it_is_wider_than_the_terminal() -> None:
    text = RECORDED.read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if len(line) > 80 and not line.startswith("$ ")] == []
