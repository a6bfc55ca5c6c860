"""Features of workflow files that a backend does not support."""

from runrig.domain.errors import InvalidInput
from runrig.domain.workflows import WorkflowSpec
from runrig.spec.one_task import NO_IMAGE

NO_IMAGES = "image is ignored: the local backend runs commands directly on this machine"
_NO_DURATIONS = "duration is ignored: it applies only to the simulated backend"


def without_inputs(spec: WorkflowSpec, backend: str) -> None:
    """Raises InvalidInput if a task has inputs."""
    for task in (task for group in spec.written for task in group.tasks if task.inputs):
        raise InvalidInput.one(
            f"task {task.name} has inputs from {task.inputs[0]}, but the {backend} backend does not keep outputs. "
            "Remove inputs, and write to your own storage",
            "inputs",
        )


def with_images(spec: WorkflowSpec) -> None:
    """Raises InvalidInput if a task has no image."""
    for task in (task for group in spec.written for task in group.tasks if task.image == NO_IMAGE):
        raise InvalidInput.one(
            f"task {task.name} has no image. Use --image IMAGE, or set image: in the workflow file", "image"
        )


def warnings_of(backend: str, spec: WorkflowSpec) -> list[str]:
    """Returns a warning for each part of the file that is ignored."""
    tasks = [task for group in spec.written for task in group.tasks]
    effects = {
        NO_IMAGES: any(task.image != NO_IMAGE for task in tasks),
        _NO_DURATIONS: any(task.duration_s is not None for task in tasks),
    }
    return [warning for warning, applies in effects.items() if applies and backend == "local"]
