"""Reads jobs of the kinds in `jobkinds`, and pods that queue by themselves, as drafts of workloads."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from runrig.kueue.read import marks
from runrig.kueue.read.drafts import Draft
from runrig.kueue.read.jobkinds import JOB_KINDS, MAIN, JobKind
from runrig.kueue.read.names import KUEUE, Manifest
from runrig.kueue.read.parts import Beside, Part, warn_if_elsewhere
from runrig.kueue.read.pods import Pod, read_template
from runrig.kueue.read.podsets import Queue, class_of, draft_of, pod_set, queue_of
from runrig.kueue.read.surroundings import Surroundings
from runrig.kueue.read.tree import Object, Value

_COPIES = 10_000
_TOTAL = f"{KUEUE}/pod-group-total-count"
_FAST = f"{KUEUE}/pod-group-fast-admission"
_ROLE = f"{KUEUE}/role-hash"


def read_standing(manifest: Manifest, around: Surroundings, runtimes: Mapping[tuple[str, str], Object]) -> list[Draft]:
    """The workloads of a job; empty if it has ended, has no queue (with a warning), or has no pods of its own."""
    kind = JOB_KINDS[manifest.kind]
    queue = None if _is_over(manifest, kind) else queue_of(manifest, around)
    if queue is None:
        return []
    spec = manifest.spec.only(kind.known, kind.unsupported)
    warn_if_elsewhere(spec, spec.object("runPolicy"))
    marks.warn_of_marks(manifest)
    parts = list(kind.parts(spec, Beside(manifest.namespace, manifest.annotations, runtimes)))
    if not parts:
        spec.at.warn("it has no pods of its own, so nothing is queued")
        return []
    draft = _draft(manifest, kind, queue, parts, around)
    if not kind.copies:
        return [draft] if any(part.count for part in parts) else []
    copies = range(spec.whole(kind.copies, 1, most=_COPIES))
    return [replace(draft, name=f"{draft.name}-{at}", uid=f"{draft.uid}-{at}" if draft.uid else "") for at in copies]


def _is_over(manifest: Manifest, kind: JobKind) -> bool:
    phase = _at(manifest.status, kind.phase)
    return any(manifest.says(name) for name in kind.ended) or (phase is not None and phase.node.value in kind.over)


def _draft(manifest: Manifest, kind: JobKind, queue: Queue, parts: Sequence[Part], around: Surroundings) -> Draft:
    pods = [read_template(part.template, around, manifest.namespace, part.more) for part in parts]
    pod_sets = tuple(
        pod_set(part.name or f"{manifest.name}-{at}", part.count, None, pod, part.holder.at)
        for at, (part, pod) in enumerate(zip(parts, pods, strict=True))
    )
    classes = [_at(manifest.spec, kind.priority_class), *(class_of(part.template) for part in parts)]
    return draft_of(manifest, queue, pods, pod_sets, classes)


def _at(fields: Object, path: str) -> Value | None:
    """The value at *path*, or None."""
    *steps, last = path.split(".")
    for name in steps:
        fields = fields.object(name)
    return fields.get(last)


# ---------------------------------------------------------------- pods


def read_pods(pods: Iterable[tuple[int, Manifest]], around: Surroundings) -> Iterator[tuple[int, Draft]]:
    """Yields the workloads of *pods* that queue by themselves: one per pod group, at the index of its first pod."""
    groups: dict[tuple[str, str], list[Manifest]] = {}
    places: dict[tuple[str, str], int] = {}
    for place, manifest in pods:
        name = marks.mark_of(manifest, marks.GROUP_NAME)
        key = manifest.namespace, f"group {name}" if name else manifest.name
        groups.setdefault(key, []).append(manifest)
        places.setdefault(key, place)
    for key, members in groups.items():
        queue = queue_of(members[0], around)
        if queue is not None:
            yield places[key], _of_pods(members, queue, around)


def _of_pods(members: Sequence[Manifest], queue: Queue, around: Surroundings) -> Draft:
    first, group = members[0], marks.mark_of(members[0], marks.GROUP_NAME)
    marks.warn_of_marks(first)
    if not group:
        return _of_roles(first, queue, {MAIN: (1, read_template(first.body, around, first.namespace))})
    draft = _of_roles(first, queue, _roles(members, around))
    problem = _incomplete(first, len(members))
    return replace(draft, name=f"{first.namespace}/{group}", problem=draft.problem or problem)


def _roles(members: Sequence[Manifest], around: Surroundings) -> dict[str, tuple[int, Pod]]:
    """Role → (count, pod), in the order of the roles that Kueue recorded, or of the files. Equal pods have the same
    role.
    """
    first = members[0].meta.object("annotations")
    if first.text(_FAST) == "true":
        pod = read_template(members[0].body, around, members[0].namespace)
        return {"role-0": (_total(first) or len(members), pod)}
    found: dict[str, tuple[int, Pod]] = {}
    for member in members:
        pod = read_template(member.body, around, member.namespace)
        known = (name for name, (_, other) in found.items() if replace(other, topology_at=pod.topology_at) == pod)
        name = member.annotations.get(_ROLE) or next(known, f"role-{len(found)}")
        count, kept = found.get(name, (0, pod))
        found[name] = count + 1, kept
    return dict(sorted(found.items()))


def _of_roles(manifest: Manifest, queue: Queue, roles: Mapping[str, tuple[int, Pod]]) -> Draft:
    sets = tuple(pod_set(name, count, None, pod, manifest.body.at) for name, (count, pod) in roles.items())
    return draft_of(manifest, queue, [pod for _, pod in roles.values()], sets, [class_of(manifest.body)])


def _total(annotations: Object) -> int | None:
    """The number of pods of the group; None, with a warning, if it is missing or invalid."""
    at = annotations.get(_TOTAL)
    text = at.text() if at else ""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:10]) <= _COPIES):
        (at or annotations.at).warn(
            f"{_TOTAL} must be a whole number from 1 to {_COPIES:,}: this group is never queued"
        )
        return None
    return int(text)


def _incomplete(first: Manifest, members: int) -> str:
    """Why the group does not form a workload yet; empty if it does."""
    annotations = first.meta.object("annotations")
    total = _total(annotations)
    if total is None:
        return f"its pods do not specify the size of their group ({_TOTAL})"
    if members < total and annotations.text(_FAST) != "true":
        return f"{members} of the {total} pods of its group {'is' if members == 1 else 'are'} in this file"
    return ""
