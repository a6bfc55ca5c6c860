"""Reads `resourceGroups` of a ClusterQueue or a Cohort: the quota of each resource in each flavor.

Values that a webhook would reject are kept with a warning, if they can be computed with.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from runrig.domain.pools import Quota
from runrig.domain.quantities import FlavorResource, few
from runrig.kueue.declared import ResourceGroup
from runrig.kueue.read.tree import Object, Value

MOST_GROUPS = 16
MOST_IN_GROUP = 64
MOST_IN_ALL = 256
MOST_PAIRS = 512

_GROUP = ("coveredResources", "flavors")
_FLAVOR = ("name", "resources")
_RESOURCE = ("name", "nominalQuota", "borrowingLimit", "lendingLimit")


@dataclass(slots=True)
class Groups:
    """The resource groups of one object. *root*: it has no parent, so limits have no effect. *flavors*: where each is
    named.
    """

    kind: str
    root: bool
    groups: list[ResourceGroup] = field(default_factory=list)
    quotas: dict[FlavorResource, Quota] = field(default_factory=dict)
    flavors: dict[str, Value] = field(default_factory=dict)
    resources: set[str] = field(default_factory=set)


def read_groups(spec: Object, kind: str, *, root: bool) -> Groups:
    """Reads all groups of *spec*. *kind*: ClusterQueue or Cohort; a Cohort's lending limit may exceed its nominal
    quota.
    """
    found = Groups(kind, root)
    for item in spec.items("resourceGroups"):
        _read_group(item.object(), found)
    at = spec.get("resourceGroups")
    if at is not None:
        _check_sizes(at, found)
    return found


def _read_group(group: Object, found: Groups) -> None:
    group.only(_GROUP)
    covered = group.texts("coveredResources")
    _check_covered(group, covered, found)
    names = []
    for flavor in group.objects("flavors", _FLAVOR):
        name = flavor.need("name")
        names.append(name)
        if name in found.flavors:
            flavor.at.warn(f"duplicate flavor {name!r}: a {found.kind} can list a flavor only once")
        found.flavors.setdefault(name, flavor.at)
        _read_flavor(flavor, name, covered, found)
    found.groups.append(ResourceGroup(covered, tuple(names)))


def _check_covered(group: Object, covered: Sequence[str], found: Groups) -> None:
    at = group.get("coveredResources") or group.at
    if not covered:
        at.warn("a group must cover at least one resource: this one has no effect")
    for resource in covered:
        if resource in found.resources:
            at.warn(f"duplicate resource {resource!r}: a resource belongs to one group")
        found.resources.add(resource)


def _read_flavor(flavor: Object, name: str, covered: Sequence[str], found: Groups) -> None:
    listed_resources = []
    for resource in flavor.objects("resources", _RESOURCE):
        key = FlavorResource(name, resource.need("name"))
        quota = _quota(resource, key.resource, found)
        listed_resources.append(key.resource)
        if key in found.quotas:
            resource.at.warn(f"duplicate quota of {key}: this one is ignored")
        found.quotas.setdefault(key, quota)
    at = flavor.get("resources") or flavor.at
    if sorted(listed_resources) != sorted(covered):
        at.warn(
            f"flavor {name!r} lists {few(listed_resources) or 'nothing'}, but its group covers "
            f"{few(covered) or 'nothing'}: both must be equal; a missing resource has no quota"
        )
    elif listed_resources != list(covered):
        at.warn("Kueue rejects resources in another order than in coveredResources; the order has no effect here")


def _quota(resource: Object, name: str, found: Groups) -> Quota:
    nominal = resource.get("nominalQuota")
    if nominal is None:
        resource.at.warn("nominalQuota is missing: treated as 0")
    amount = nominal.amount(name) if nominal else 0
    lending = _limit(resource, "lendingLimit", name, found)
    if lending is not None and lending > amount and found.kind == "ClusterQueue":
        (resource.get("lendingLimit") or resource.at).warn(
            "more than nominalQuota: a ClusterQueue cannot lend more than it has"
        )
    return Quota(amount, _limit(resource, "borrowingLimit", name, found), lending)


def _limit(resource: Object, name: str, of: str, found: Groups) -> int | None:
    at = resource.get(name)
    if at is None:
        return None
    amount = at.amount(of)
    # KEP-79 requires a Cohort at the top to set a borrowing limit of 0, so this causes no warning.
    said_anyway = found.kind == "Cohort" and name == "borrowingLimit" and amount == 0
    if found.root and not said_anyway:
        above = "cohort" if found.kind == "ClusterQueue" else "parent"
        at.warn(f"{name} has no effect: a {found.kind} without a {above} cannot borrow or lend")
    return amount


def _check_sizes(at: Value, found: Groups) -> None:
    groups = found.groups
    sizes = (
        (len(groups), MOST_GROUPS, "resource groups"),
        (max((len(group.flavors) for group in groups), default=0), MOST_IN_GROUP, "flavors in one group"),
        (max((len(group.resources) for group in groups), default=0), MOST_IN_GROUP, "resources in one group"),
        (sum(len(group.flavors) for group in groups), MOST_IN_ALL, "flavors"),
        (sum(len(group.resources) for group in groups), MOST_IN_ALL, "resources"),
        (max((len(g.flavors) * len(g.resources) for g in groups), default=0), MOST_PAIRS, "quotas in one group"),
    )
    for size, most, what in sizes:
        if size > most:
            at.warn(f"{size} {what}: Kueue accepts up to {most}")
