"""This machine as a node: its processors, memory, disk and GPUs."""

import os
import re
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from runrig.domain.nodes import Node
from runrig.domain.quantities import CPU, GPU, MEMORY, STORAGE

_LONGEST_NAME = 63


@dataclass(frozen=True, slots=True)
class Machine:
    """*visible*: index of a GPU → its name in CUDA_VISIBLE_DEVICES: its UUID, or for a simulated GPU the index. *real*: it has GPUs, and
    they are not simulated.
    """

    node: Node
    visible: tuple[str, ...]
    real: bool


def inspect(folder: Path, gpus: int | None, find_gpus: Callable[[], tuple[str, ...]]) -> Machine:
    """Returns the machine with up to *gpus* of its real GPUs (None: all); if it has none, with *gpus* simulated ones."""
    real = find_gpus()
    visible = real[:gpus] if real else tuple(str(index) for index in range(gpus or 0))
    resources = {
        CPU: 1000 * len(os.sched_getaffinity(0)),
        GPU: len(visible),
        MEMORY: int(psutil.virtual_memory().total),
        STORAGE: shutil.disk_usage(folder).total,
    }
    return Machine(Node(node_name(socket.gethostname()), resources), visible, real=bool(visible and real))


def node_name(host: str) -> str:
    """Returns *host* as a node name: its first label in lower case, with letters, digits and hyphens; ``local`` if empty."""
    label = re.sub(r"[^a-z0-9]+", "-", host.split(".")[0].lower())
    return label[:_LONGEST_NAME].strip("-") or "local"
