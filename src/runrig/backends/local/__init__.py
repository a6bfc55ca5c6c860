"""Tasks as processes on this machine."""

from runrig.backends.local.backend import LocalBackend

__all__ = ["LocalBackend"]
