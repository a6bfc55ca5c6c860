"""Everything that a server says of why work waits and of what would be if, as it goes over the wire.

``python -m tests.worlds.told FOLDER...`` starts a server on each folder, in turn, and prints that.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from runrig.domain.pools import PoolState
from tests.api.client import Api, api
from tests.worlds.crowded import NODES
from tests.worlds.service import one_task

LATER = 3600.0
"""Seconds after the start of the world at which it is asked."""


class Asked(NamedTuple):
    method: str
    path: str
    body: Any = None


def questions(it: Api) -> Iterator[Asked]:
    loaded = it.desk.store.load()
    for id in sorted(each.id for each in loaded.workflows):
        yield Asked("GET", f"/api/v1/workflows/{id}/why")
        yield Asked("GET", f"/api/v1/workflows/{id}/why?changes=all&depth=2")
    pools = sorted(each.name for each in loaded.pools if each.state is not PoolState.ARCHIVED)
    for pool in pools:
        yield Asked("GET", f"/api/v1/pools/{pool}/why")
        yield from (Asked("POST", "/api/v1/plan", {"pool": pool, "quota": quota}) for quota in (0, 5))
        for priority, gpus in (("LOW", 2), ("HIGH", 1), ("HIGH", 2)):
            submission = {"pool": pool, "file": one_task("mine", gpus=gpus), "priority": priority}
            yield Asked("POST", "/api/v1/workflows:check", submission)
            yield Asked("POST", "/api/v1/plan", {"submission": submission})
    yield Asked("POST", "/api/v1/plan", {"drain": ["n0", "n2"]})
    yield Asked("POST", "/api/v1/plan", {"down": "r1"})
    some = pools[0].partition("--")[0]
    yield Asked("POST", "/api/v1/plan", {"file": f"pools: [{{name: {some}, quota: 6}}]", "prune": True})


def answered(it: Api, asked: Asked, headers: dict[str, str] | None = None) -> str:
    """Status, and the bytes of the answer as text."""
    answer = it.http.request(asked.method, asked.path, json=asked.body, headers=headers)
    return f"{answer.status_code} {answer.text}"


def main() -> None:
    for folder in sys.argv[1:]:
        with api(Path(folder), nodes=NODES, cluster=None, time=float(Path(folder, "time").read_text())) as it:
            print(f"revision {it.desk.revision}")
            for asked in questions(it):
                print(*asked, answered(it, asked), sep="\n")


if __name__ == "__main__":
    main()
