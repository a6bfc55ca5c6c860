"""Other processes that use the store of a test."""

import sys

from tests.worlds.warm import Warm


def start(module: str, *arguments: str) -> Warm:
    """``python -m tests.store.MODULE ARGUMENTS``, its output to be read."""
    program = f"import runpy; runpy.run_module('tests.store.{module}', run_name='__main__')"
    return Warm(program, [*arguments], errors=sys.__stderr__)
