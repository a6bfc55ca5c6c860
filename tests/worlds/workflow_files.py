"""Workflow files as text; JSON is YAML."""

import json
from typing import Any


def one_task(name: str, gpus: Any = 1, **task: Any) -> str:
    """A workflow of one task `main` with *gpus* GPUs.  *task*: its other fields as a file has them, `minCount` and the like."""
    main = {"name": "main", "image": "any", "command": ["true"], **task}
    return json.dumps({"workflow": {"name": name, "resources": {"default": {"gpu": gpus}}, "tasks": [main]}})
