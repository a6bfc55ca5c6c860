"""The attempts of all pods, by key. Saves memory: most of 100,000 waiting workflows have one task without any data of its own."""

from collections.abc import Iterator, MutableMapping
from functools import lru_cache
from itertools import chain

from runrig.domain.replacing import replace
from runrig.domain.workflows import Status, Task, TaskKey

WAITS = (Status.WAITING, Status.SCHEDULING)


class TaskTable(MutableMapping[TaskKey, Task]):
    """Stores a waiting first attempt, one per workflow, only as its kind, which workflows share.

    *records*: all other attempts, including every one that has been on a node; faster to look up.
    """

    def __init__(self) -> None:
        self.records: dict[TaskKey, Task] = {}
        self._kinds: dict[str, Task] = {}  # workflow → its task, without the workflow

    def _waits(self, key: TaskKey) -> bool:
        """Whether only the kind of this attempt is stored."""
        kind = self._kinds.get(key.workflow)
        return kind is not None and kind.name == key.task and not key.retry_id

    def __getitem__(self, key: TaskKey) -> Task:
        task = self.find(key)
        if task is None:
            raise KeyError(key)
        return task

    def find(self, key: TaskKey) -> Task | None:
        """The attempt *key*; None if it does not exist."""
        task = self.records.get(key)
        if task is None and self._waits(key):
            return replace(self._kinds[key.workflow], workflow=key.workflow)
        return task

    def discard(self, key: TaskKey) -> None:
        """Removes the attempt *key* if it exists."""
        if self.records.pop(key, None) is None and self._waits(key):
            del self._kinds[key.workflow]

    def __contains__(self, key: object) -> bool:
        return key in self.records or (isinstance(key, TaskKey) and self._waits(key))

    def __setitem__(self, key: TaskKey, task: Task) -> None:
        waits = self._waits(key)
        if waits or (key.workflow not in self._kinds and key not in self.records):
            kind = _kind_of(task)
            if kind is not None:
                self._kinds[key.workflow] = kind
                return
        if waits:
            del self._kinds[key.workflow]
        self.records[key] = task

    def __delitem__(self, key: TaskKey) -> None:
        if key not in self:
            raise KeyError(key)
        self.discard(key)

    def __iter__(self) -> Iterator[TaskKey]:
        return chain(self.records, (TaskKey(workflow, kind.name, 0) for workflow, kind in self._kinds.items()))

    def __len__(self) -> int:
        return len(self.records) + len(self._kinds)


def _kind_of(task: Task) -> Task | None:
    """The part of *task* that is shared with others; None if it has data of its own."""
    if task.status not in WAITS:
        return None
    kind = _kind(task.name, task.group, task.spec, task.index, task.lead, task.status)
    return kind if task == replace(kind, workflow=task.workflow) else None


@lru_cache(maxsize=4096)
def _kind(name: str, group: str, spec: str, index: int, lead: bool, status: Status) -> Task:
    return Task("", name, 0, group, spec, index, lead, status)
