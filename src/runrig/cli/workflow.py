"""`runrig workflow`: the group; its commands are in submit, queries, follow and why."""

import click

from runrig.cli.lazy import LazyGroup, examples


@click.group(
    cls=LazyGroup,
    lazy={
        "submit": ("runrig.cli.submit:submit", "Submit a workflow file."),
        "validate": ("runrig.cli.submit:validate", "Check a workflow file; every error with its line."),
        "render": ("runrig.cli.render:render", "The Kubernetes objects that a workflow file becomes."),
        "list": ("runrig.cli.queries:list_workflows", "Workflows, newest first."),
        "query": ("runrig.cli.queries:query", "A workflow and its tasks."),
        "logs": ("runrig.cli.follow:logs", "What the tasks wrote."),
        "events": ("runrig.cli.queries:events", "Everything that was decided about a workflow."),
        "spec": ("runrig.cli.queries:spec", "The file of a workflow, rendered or as it was sent."),
        "cancel": ("runrig.cli.submit:cancel", "Stop workflows."),
        "restart": ("runrig.cli.submit:restart", "Submit a failed workflow again."),
        "wait": ("runrig.cli.follow:wait", "Wait until a workflow has a status."),
        "watch": ("runrig.cli.watch:watch", "Follow a workflow to its end."),
        "why": ("runrig.cli.why:why", "Why it waits, and why it was preempted."),
    },
    epilog=examples("runrig workflow submit train.yaml --pool vision --priority LOW", "runrig workflow why train-1"),
)
def workflow() -> None:
    """Submit workflows, follow them, ask why they wait."""
