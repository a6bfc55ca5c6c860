"""Other processes that use the store of a test."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def start(module: str, *arguments: str) -> subprocess.Popen[str]:
    """``python -m tests.store.MODULE ARGUMENTS``, its output to be read."""
    command = [sys.executable, "-m", f"tests.store.{module}", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
