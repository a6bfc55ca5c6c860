"""Restarts that keep COMPLETED groups: their specification, and whether the outputs that they read still exist."""

from dataclasses import dataclass, replace

from runrig.domain.errors import Conflict
from runrig.domain.workflows import WorkflowSpec
from runrig.engine.lifecycle import restarts
from runrig.ports.backend import Backend
from runrig.ports.store import SpecText, StoredWorkflow
from runrig.spec import workflow
from runrig.spec.labels import with_labels


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of a restart. *keep_completed*: COMPLETED groups do not run again. *code*: the id of code that replaces its own.
    *labels*: ``KEY=VALUE``, added with that code.
    """

    keep_completed: bool = False
    code: str | None = None
    labels: tuple[str, ...] = ()


AS_IT_WAS = Changes()


def changed(spec: SpecText, changes: Changes, stored: StoredWorkflow) -> SpecText:
    """Returns *spec*, that of *stored*, with *changes*; under a key of its own if it is another."""
    if changes.code is not None:
        spec = _with_code(spec, changes.code, changes.labels)
    return _remaining(spec, stored) if changes.keep_completed else spec


def _remaining(spec: SpecText, stored: StoredWorkflow) -> SpecText:
    """Returns *spec*, that of *stored*, without its COMPLETED groups, under a key of its own."""
    left = restarts.without_completed(spec.spec, stored.groups, stored.tasks)
    if left is spec.spec:
        return spec
    # A finished workflow never changes, so its id is enough.
    return replace(spec, hash=workflow.spec_hash(spec.hash, stored.workflow.id), spec=left)


def check_linked(spec: WorkflowSpec, id: str, backend: Backend, *, whole: bool) -> None:
    """Raises Conflict if outputs of earlier workflows that *spec* reads were removed.

    *id*: of the workflow that is restarted.  *whole*: it reads no such outputs itself, so it can be restarted as a whole.
    """
    gone = sorted(name for name, keys in spec.linked.items() if not all(map(backend.keeps_output, keys)))
    if gone:
        what = f"output of {gone[0]} was" if len(gone) == 1 else f"outputs of {', '.join(gone)} were"
        way = f"Use `runrig restart {id}`" if whole else "Submit its file again"
        raise Conflict(
            f"{id} cannot continue from completed groups: the {what} removed. {way} to run all groups",
            {"removed": gone},
        )


def _with_code(spec: SpecText, code: str, labels: tuple[str, ...]) -> SpecText:
    """Returns *spec* with *code* instead of its own, under a key of its own. *labels*: ``KEY=VALUE``, in addition."""
    own = spec.spec.code
    text, template = ((own and each.replace(own, code)) or each for each in (spec.text, spec.template))
    changed = with_labels(replace(spec.spec, code=code), labels)
    return SpecText(workflow.spec_hash(spec.hash, code, *labels), text, template, changed)
