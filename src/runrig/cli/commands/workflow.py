"""`runrig workflow`: the group; other modules contain its commands."""

from runrig.cli.lazy import group


@group(
    "runrig workflow query train-1",
    "runrig workflow hold train-1",
    lazy={
        "submit": ("runrig.cli.commands.submit:submit", "Submit a workflow file."),
        "validate": ("runrig.cli.commands.submit:validate", "Check a workflow file."),
        "render": ("runrig.cli.commands.render:render", "Print the Kubernetes objects of a workflow file."),
        "list": ("runrig.cli.commands.queries:list_workflows", "List workflows, newest first."),
        "query": ("runrig.cli.commands.queries:query", "Show a workflow and its tasks."),
        "logs": ("runrig.cli.commands.logs:logs", "Print the output of tasks."),
        "events": ("runrig.cli.commands.queries:events", "List the events of a workflow."),
        "spec": ("runrig.cli.commands.queries:spec", "Print the file of a workflow."),
        "cancel": ("runrig.cli.commands.change:cancel", "Cancel workflows."),
        "hold": ("runrig.cli.commands.change:hold", "Hold workflows."),
        "move": ("runrig.cli.commands.change:move", "Move workflows to another pool."),
        "reprioritise": ("runrig.cli.commands.change:reprioritise", "Change the priority of workflows."),
        "release": ("runrig.cli.commands.change:release", "Release held workflows."),
        "restart": ("runrig.cli.commands.submit:restart", "Submit a failed workflow again."),
        "wait": ("runrig.cli.commands.follow:wait", "Wait until workflows have ended."),
        "exec": ("runrig.cli.commands.exec:exec_", "Run a command in a task."),
        "port-forward": ("runrig.cli.commands.port_forward:port_forward", "Forward local ports to a task."),
        "rsync": ("runrig.cli.commands.rsync:rsync", "Copy files to or from a task."),
        "watch": ("runrig.cli.commands.watch:watch", "Follow a workflow until it ends."),
        "why": ("runrig.cli.commands.why:why", "Explain why a workflow is waiting or was preempted."),
    },
)
def workflow() -> None:
    """Submit, follow and change workflows."""
