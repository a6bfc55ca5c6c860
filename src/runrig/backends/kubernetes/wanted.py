"""The desired state with the Kubernetes objects of its gangs. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from runrig.backends.kubernetes import names, objects
from runrig.backends.kubernetes.names import Object
from runrig.backends.kubernetes.pods import GangPods, Settings
from runrig.domain.workflows import TaskKey
from runrig.ports.backend import Desired, GangLaunch, Launch


@dataclass(slots=True)
class _Gang:
    """*pods*: templates of its pods. *before*: objects created before its pod group. *group*: the pod group for *alive* pods."""

    pods: GangPods
    before: tuple[Object, ...]
    alive: Mapping[str, int] = field(default_factory=dict)
    group: Object = field(default_factory=dict)

    def objects(self, launches: Iterable[Launch], there: Collection[str] = ()) -> tuple[Object, ...]:
        """Returns all objects except pods. *launches*: attempts to run. *there*: subgroups with a pod in the cluster.

        A subgroup stays as long as its last pod, even one that has ended: KAI reports a pod without its subgroup as unschedulable.
        """
        alive = Counter(self.pods.leaf(launch.spec, launch.index) for launch in launches)
        left = {each.name for each in self.pods.outline.subgroups if each.pods is not None} & {*there}
        alive |= Counter(left)
        if alive != self.alive:
            self.alive, self.group = alive, objects.pod_group(self.pods, alive)
        return *self.before, self.group


@dataclass(slots=True)
class Wanted:
    """*desired* with the objects of its gangs, built on demand. *impossible*: attempts that no cluster can run, with the reason."""

    desired: Desired
    settings: Settings
    impossible: dict[TaskKey, str] = field(default_factory=dict)
    gangs: dict[str, "_Gang"] = field(default_factory=dict)
    """Gangs by uuid."""

    def after(self, desired: Desired, settings: Settings) -> "Wanted":
        """Returns the next desired state, reusing the parts of this one that are still valid."""
        uuids = {gang.uuid for gang in desired.gangs.values()} if settings == self.settings else set()
        keys = {*desired.run, *desired.stop}
        return Wanted(
            desired,
            settings,
            {key: why for key, why in self.impossible.items() if key in keys},
            {uuid: made for uuid, made in self.gangs.items() if uuid in uuids},
        )

    def gang(self, id: str) -> _Gang:
        """Raises ValueError for a gang that no cluster can run, or that the changed pool can no longer express."""
        gang = self.desired.gangs[id]
        known = self.gangs.get(gang.uuid)
        if known is None:
            pods = GangPods(gang, self.settings, begun=partial(self._begun, gang))
            known = self.gangs[gang.uuid] = _Gang(pods, objects.before_the_group(pods))
        return known

    def _begun(self, gang: GangLaunch) -> bool:
        """Called only if a credential does not open, because it scans all running attempts."""
        run = self.desired.run
        return any(key in run and run[key].gang == gang.id for key in self.desired.running)

    def pod_name(self, launch: Launch) -> str:
        return names.pod_name(self.desired.gangs[launch.gang].uuid, launch.key.task, launch.key.retry_id)
