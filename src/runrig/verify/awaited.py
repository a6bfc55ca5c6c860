"""Which workflows wait for others, or for elements of arrays, and how these ended (rule W5)."""

from collections.abc import Callable, Mapping
from typing import Any

_LIVE = ("WAITING", "PENDING", "SCHEDULING", "INITIALIZING", "RUNNING")


class Awaited:
    def __init__(self) -> None:
        self._by: dict[str, list[tuple[str, dict[str, Any]]]] = {}

    def submit(self, row: dict[str, Any], groups: list[Mapping[str, Any]], begun: Callable[[str], bool]) -> None:
        """A restart takes the place of what had failed while others wait. *begun*: whether a workflow waits no longer."""
        row["after"] = [dict(each) for each in row.get("after", ())]
        for each in row["after"]:
            self._by.setdefault(each["workflow"], []).append((row["id"], each))
        names = {"", *(each["name"] for each in groups)}
        for id, each in self._by.get(row.get("parent") or "", ()):
            if each["ended"] is not None and each.get("element", "") in names and not begun(id):
                each.update(workflow=row["id"], ended=None)
                self._by.setdefault(row["id"], []).append((id, each))

    def move(self, workflow: str, status: str, element: str | None = None) -> None:
        """*element* None: the workflow has *status*, and after its end all elements that had not ended have it too."""
        if status in _LIVE:
            return
        for _, each in self._by.get(workflow, ()):
            of = each.get("element", "")
            if each["workflow"] == workflow and (of == element if element else not (of and each["ended"])):
                each["ended"] = status
