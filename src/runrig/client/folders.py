"""The user's folders: those of the XDG specification, or their equivalents on macOS and Windows."""

import os
import sys
from pathlib import Path

NAME = "runrig"


def home() -> Path:
    """The home folder. In a container, a user may have none; nothing can be written then."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def settings_folder() -> Path:
    """``~/.config/runrig`` on Linux, or in $XDG_CONFIG_HOME."""
    return _folder("XDG_CONFIG_HOME", ".config")


def data_folder() -> Path:
    """``~/.local/share/runrig`` on Linux, or in $XDG_DATA_HOME."""
    return _folder("XDG_DATA_HOME", ".local/share")


def _folder(variable: str, usual: str) -> Path:
    """Ignores a relative path, as the specification requires."""
    chosen = os.environ.get(variable, "").strip()
    if os.path.isabs(chosen):
        return Path(chosen) / NAME
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home() / "AppData/Local") / NAME
    return home() / ("Library/Application Support" if sys.platform == "darwin" else usual) / NAME
