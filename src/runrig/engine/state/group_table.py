"""The task groups of all workflows, by key. Saves memory: most of 100,000 waiting workflows have one group, which needs no key."""

from collections.abc import Iterator, MutableMapping

from runrig.domain.workflows import Group, GroupKey


class GroupTable(MutableMapping[GroupKey, Group]):
    """Stores one group of each workflow by the name of the workflow, and the others by their keys."""

    def __init__(self) -> None:
        self._one: dict[str, Group] = {}
        self._others: dict[GroupKey, Group] = {}

    def _is_one(self, key: GroupKey) -> bool:
        workflow, name = key
        group = self._one.get(workflow)
        return group is not None and group.name == name

    def __getitem__(self, key: GroupKey) -> Group:
        group = self._one.get(key[0])  # called most often, so `_is_one` is inlined
        return group if group is not None and group.name == key[1] else self._others[key]

    def __setitem__(self, key: GroupKey, group: Group) -> None:
        """*group* must be the one that *key* names."""
        if self._is_one(key) or (key[0] not in self._one and key not in self._others):
            self._one[key[0]] = group
        else:
            self._others[key] = group

    def __delitem__(self, key: GroupKey) -> None:
        if self._is_one(key):
            del self._one[key[0]]
        else:
            del self._others[key]

    def __iter__(self) -> Iterator[GroupKey]:
        for group in self._one.values():
            yield group.workflow, group.name
        yield from self._others

    def __len__(self) -> int:
        return len(self._one) + len(self._others)
