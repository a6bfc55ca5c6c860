"""The limit that a user reaches first: the quota of a pool, or the run time of a workflow."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runrig.cli.rendering import times
from runrig.domain.quantities import GPU, amount_in_words

Answer = Mapping[str, Any]


def nearest_limit(pools: Sequence[Answer], workflows: Sequence[Answer]) -> str | None:
    """Returns the limit with the smallest share left, as a sentence; None without limits. *workflows*: list entries."""
    found = [*_quotas(pools), *_run_times(workflows)]
    return min(found)[1] if found else None


def left_s(entry: Answer) -> float | None:
    """Returns the seconds until *entry* reaches its run time limit, at the time of the answer; None: it has no limit."""
    ends_by = times.moment(entry["ends_by"])
    if ends_by is None:
        return None
    return max(0.0, (ends_by - times.as_of(entry["submit_time"], entry["times"]["total_s"])).total_seconds())


def _quotas(pools: Sequence[Answer]) -> Iterator[tuple[float, str]]:
    for each in pools:
        gpus = each["gpus"]
        most = gpus["quota"] + gpus["drawn"] + gpus["shared_left"]
        left = max(0, gpus["available"] + gpus["shared_left"])
        if most > 0:
            words = f"pool {each['name']} has {left:,} of {amount_in_words(GPU, most)} of quota left"
            yield left / most, words


def _run_times(workflows: Sequence[Answer]) -> Iterator[tuple[float, str]]:
    for each in workflows:
        left = left_s(each)
        if left is not None:
            ran = each["times"]["running_s"]
            yield left / max(left + ran, 1e-6), f"{each['id']} reaches its run time limit in {times.span(left)}"
