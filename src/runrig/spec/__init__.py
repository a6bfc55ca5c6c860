"""Text that users write → values, or all its errors with line and column.

`template.render`, then `workflow.read_workflow` for workflow files; `cluster.read_cluster` for cluster files.
"""
