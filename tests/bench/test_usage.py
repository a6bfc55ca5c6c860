"""The section about usage folds what it says, and asks of it."""

from bench import usage


def test_every_query_is_asked_about_folded_usage() -> None:
    found = {row["what"]: row["rows"] for row in usage.rows(1, workflows=400)}
    assert list(found)[:2] == ["fold", "write an hour, the longest"]
    assert list(found)[2:] == list(usage.QUESTIONS)
    assert 200 < int(found["by user"]) <= usage.USERS
    assert int(found["by flavor, every hour"]) >= 700
