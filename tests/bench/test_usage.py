"""The section about usage folds what it says, and asks of it."""

from bench import recording, usage, usage_space


def test_every_query_runs_on_folded_usage() -> None:
    found = {row["what"]: row["rows"] for row in usage.rows(1, workflows=400)}
    assert list(found)[:2] == ["fold", "write an hour, the longest"]
    assert list(found)[2:] == list(usage.QUESTIONS)
    assert 200 < int(found["by user"]) <= usage.USERS
    assert int(found["by flavor, every hour"]) >= 700


def test_the_cost_of_recording_is_measured() -> None:
    found = recording.rows(1, each=2)
    assert [row["what"] for row in found] == [
        "cycle, mean",
        "cycle, median",
        "cycle, median, again",
        "submission, median",
        "submission, 99 %",
    ]
    assert all(float(row[name]) > 0 for row in found for name in ("without, ms", "followed, ms"))


def test_the_space_of_two_years_is_computed_from_an_hour_and_a_day() -> None:
    (found,) = usage_space.rows(("sqlite",), (1, 1))
    assert 5 < float(found["bytes a key"]) < 30
    assert 0 < float(found["GB in 2 years"]) < float(found["GB if hours are kept too"])
