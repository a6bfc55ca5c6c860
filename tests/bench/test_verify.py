"""The benchmark of `runrig verify` makes a log that is lawful, with ends of cycles and a queue."""

from pathlib import Path

from bench import verify


def test_measured_log_is_lawful_and_contains_ends_of_cycles(tmp_path: Path) -> None:
    verify.history(tmp_path, waiting=400, rounds=3)
    _, totals = verify.timed(tmp_path / "runrig.db")
    assert totals["decisions"] > 400
    assert totals["rests"] > 0
