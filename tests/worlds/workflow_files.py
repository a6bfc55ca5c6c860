"""Workflow files as text; JSON is YAML."""

import json
from typing import Any


def one_task(name: str, gpus: Any = 1, **task: Any) -> str:
    """A workflow of one task `main` with *gpus* GPUs.  *task*: its other fields as a file has them, `minCount` and the like."""
    main = {"name": "main", "image": "any", "command": ["true"], **task}
    return json.dumps({"workflow": {"name": name, "resources": {"default": {"gpu": gpus}}, "tasks": [main]}})


def sweep(indices: str, most: int = 2, duration: int = 3000, command: str = "[train]") -> str:
    """An array `sweep` whose elements have a GPU each."""
    return f"""
workflow:
  name: sweep
  groups:
  - name: runs
    array: {{indices: {indices}, most: {most}}}
    tasks: [{{name: main, image: any, command: {command}, duration: {duration}}}]
  resources: {{default: {{gpu: 1}}}}
"""


WIDE = """
workflow:
  name: wide
  groups:
  - name: train
    tasks:
    - {name: head, image: any, command: [ls], lead: true, duration: 100, resource: two}
    - {name: worker, image: any, command: [ls], duration: 100, resource: five, count: 3, minCount: 1}
  resources: {two: {gpu: 2}, five: {gpu: 5}}
"""
"""7 to 17 GPUs."""
