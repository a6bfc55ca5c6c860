"""The benchmark of `runrig verify` makes a log that is lawful, with ends of cycles and a queue."""

from pathlib import Path

from bench import verify
from runrig.verify.chain import LAST
from runrig.verify.reading import snapshots
from runrig.verify.verify import judge, parts_of


def test_its_log_is_lawful_in_one_part_and_in_two(tmp_path: Path) -> None:
    verify.history(tmp_path, waiting=400, rounds=4)
    numbers = judge(str(tmp_path / "runrig.db"), 0, (), "", 0, LAST).numbers
    assert (numbers.decisions > 400, numbers.rests >= 4) == (True, True)
    several = [parts_of(snapshots(str(tmp_path / "runrig.db")), 0, processors) for processors in (1, 2)]
    assert [len(parts) for parts in several] == [1, 2]
    for parts in several:
        assert verify.timed(tmp_path / "runrig.db", parts)[1] == numbers.decisions
