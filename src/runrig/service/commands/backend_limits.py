"""What a workflow file asks that the backend of a server does not do."""

from runrig.domain.errors import InvalidInput
from runrig.domain.workflows import WorkflowSpec

NO_IMAGES = "the local backend runs commands on this machine: images are recorded and not used"
_NO_DURATIONS = "duration counts on the simulated backend only: here a task takes as long as it takes"


def without_inputs(spec: WorkflowSpec, backend: str) -> None:
    """Raises InvalidInput."""
    for task in (task for group in spec.groups for task in group.tasks if task.inputs):
        raise InvalidInput.one(
            f"task {task.name} reads the output of {task.inputs[0]}, and the {backend} backend does not keep outputs: write to "
            "storage of your own, and leave inputs out",
            "inputs",
        )


def warnings_of(backend: str, spec: WorkflowSpec) -> list[str]:
    """Warnings about parts of the file that have no effect."""
    tasks = [task for group in spec.groups for task in group.tasks]
    effects = {
        NO_IMAGES: any(task.image for task in tasks),
        _NO_DURATIONS: any(task.duration_s is not None for task in tasks),
    }
    return [warning for warning, applies in effects.items() if applies and backend == "local"]
