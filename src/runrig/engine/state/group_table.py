"""The task groups of all workflows, by key. Saves memory: most of 100,000 waiting workflows have one group, which needs no key."""

from collections import Counter
from collections.abc import Collection, Iterator, MutableMapping

from runrig.domain.workflows import Group, GroupKey, Status


class GroupTable(MutableMapping[GroupKey, Group]):
    """Stores one group of each workflow by the name of the workflow, and the others by their keys.

    Workflows with several groups have a count of those in each status, so that a workflow with a thousand groups can ask how
    they stand after each change.
    """

    def __init__(self) -> None:
        self._one: dict[str, Group] = {}
        self._others: dict[GroupKey, Group] = {}
        self._counts: dict[str, Counter[Status]] = {}

    def statuses(self, workflow: str) -> Collection[Status]:
        """The statuses that at least one group of *workflow* has. O(1)."""
        counts = self._counts.get(workflow)
        return (self._one[workflow].status,) if counts is None else counts.keys()

    def number(self, workflow: str, *statuses: Status) -> int:
        """How many groups of *workflow* have one of *statuses*. O(1)."""
        counts = self._counts.get(workflow)
        return int(self._one[workflow].status in statuses) if counts is None else sum(counts[each] for each in statuses)

    def _is_one(self, key: GroupKey) -> bool:
        workflow, name = key
        group = self._one.get(workflow)
        return group is not None and group.name == name

    def __getitem__(self, key: GroupKey) -> Group:
        group = self._one.get(key[0])  # called most often, so `_is_one` is inlined
        return group if group is not None and group.name == key[1] else self._others[key]

    def __setitem__(self, key: GroupKey, group: Group) -> None:
        """*group* must be the one that *key* names."""
        workflow = key[0]
        if workflow in self._counts:
            self._count(workflow, self.get(key), group)
        elif (first := self._one.get(workflow)) is not None and first.name != key[1]:
            self._counts[workflow] = Counter((first.status, group.status))
        if self._is_one(key) or (workflow not in self._one and key not in self._others):
            self._one[workflow] = group
        else:
            self._others[key] = group

    def __delitem__(self, key: GroupKey) -> None:
        if key[0] in self._counts:
            self._count(key[0], self[key], None)
        if self._is_one(key):
            del self._one[key[0]]
        else:
            del self._others[key]

    def _count(self, workflow: str, before: Group | None, after: Group | None) -> None:
        counts = self._counts[workflow]
        for group, change in ((before, -1), (after, 1)):
            if group is not None:
                counts[group.status] += change
                if not counts[group.status]:
                    del counts[group.status]
        if not counts:
            del self._counts[workflow]

    def __iter__(self) -> Iterator[GroupKey]:
        for group in self._one.values():
            yield group.workflow, group.name
        yield from self._others

    def __len__(self) -> int:
        return len(self._one) + len(self._others)
