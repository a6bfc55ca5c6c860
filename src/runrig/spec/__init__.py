"""Text that people write → values, or every problem of it at once with line and column.

`template.render` then `workflow.read_workflow` for workflow files, `cluster.read_cluster` for cluster files.
"""
