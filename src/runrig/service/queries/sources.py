"""Sources for queries about workflows: the service now, or at an earlier time (`service/past`)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from runrig.domain.gpu_use import GpuMinute, GpuUse
from runrig.domain.observed import ClusterEvent
from runrig.domain.shown.why import Standstill
from runrig.domain.steps import Steps
from runrig.domain.workflows import TaskKey
from runrig.ports.backend import Output

T = TypeVar("T")


class Asks(Protocol):
    def ask_steps(
        self,
        ask: Callable[..., Steps[T]],
        *args: Any,
        here: Callable[..., Steps[T]] | None = None,
        fresh_starts: int = ...,
    ) -> tuple[T, int]:
        """As in `Asker`."""


class Says(Protocol):
    """A backend with messages about workflows."""

    name: str
    queues: bool

    def says(self, workflow: str) -> tuple[str, ...]: ...

    def events(self, workflow: str) -> tuple[ClusterEvent, ...]: ...

    def output(self, key: TaskKey) -> Output | None: ...

    def gpu_use(self) -> Mapping[str, Sequence[GpuUse]] | str: ...

    def gpu_minutes(self, node: str, gpus: Sequence[int], since: float, until: float) -> tuple[GpuMinute, ...]: ...


class Tells(Protocol):
    """A clock."""

    def now(self) -> float: ...

    @property
    def doubt(self) -> str | None: ...


class Stands(Protocol):
    @property
    def standstill(self) -> Standstill | None: ...
