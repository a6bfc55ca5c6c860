"""`runrig workflow`: the group; its commands are in modules of their own."""

import click

from runrig.cli.lazy import LazyGroup, examples


@click.group(
    cls=LazyGroup,
    lazy={
        "submit": ("runrig.cli.commands.submit:submit", "Submit a workflow file."),
        "validate": ("runrig.cli.commands.submit:validate", "Check a workflow file; every error with its line."),
        "render": ("runrig.cli.commands.render:render", "The Kubernetes objects that a workflow file becomes."),
        "list": ("runrig.cli.commands.queries:list_workflows", "Workflows, newest first."),
        "query": ("runrig.cli.commands.queries:query", "A workflow and its tasks."),
        "logs": ("runrig.cli.commands.logs:logs", "What the tasks wrote."),
        "events": ("runrig.cli.commands.queries:events", "Everything that was decided about a workflow."),
        "spec": ("runrig.cli.commands.queries:spec", "The file of a workflow, rendered or as it was sent."),
        "cancel": ("runrig.cli.commands.change:cancel", "Stop workflows."),
        "hold": ("runrig.cli.commands.change:hold", "Keep workflows from starting."),
        "move": ("runrig.cli.commands.change:move", "Put workflows into another pool."),
        "reprioritise": ("runrig.cli.commands.change:reprioritise", "Give workflows another priority."),
        "release": ("runrig.cli.commands.change:release", "Let held workflows start."),
        "restart": ("runrig.cli.commands.submit:restart", "Submit a failed workflow again."),
        "wait": ("runrig.cli.commands.follow:wait", "Wait until a workflow has a status."),
        "exec": ("runrig.cli.commands.exec:exec_", "Run a command in a task."),
        "port-forward": ("runrig.cli.commands.port_forward:port_forward", "Reach ports of a task."),
        "rsync": ("runrig.cli.commands.rsync:rsync", "Copy files to a task, and from it."),
        "watch": ("runrig.cli.commands.watch:watch", "Follow a workflow to its end."),
        "why": ("runrig.cli.commands.why:workflow_why", "Why it waits, and why it was preempted."),
    },
    epilog=examples("runrig workflow submit train.yaml --pool vision --priority LOW", "runrig workflow why train-1"),
)
def workflow() -> None:
    """Submit workflows, follow them, ask why they wait."""
