"""A workflow file without its secrets, for people who may know what runs but not with which keys."""

from typing import Any

import yaml

from runrig.spec.yamltree import plain, read_yaml

HIDDEN = "(hidden)"
_NOTE = "# The values of variables and the contents of files are shown to the owner and to admins of the pool.\n"


def masked(text: str) -> str:
    """*text*, a workflow file that has been read before, with only the names of its variables and files, and without comments."""
    return _NOTE + yaml.safe_dump(_masked(plain(read_yaml(text).node)), sort_keys=False, allow_unicode=True, width=120)


def _masked(value: Any) -> Any:
    if isinstance(value, list):
        return [_masked(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _hidden(key, each) for key, each in value.items()}


def _hidden(key: str, value: Any) -> Any:
    match key:
        case "environment":
            return dict.fromkeys(value, HIDDEN) if isinstance(value, dict) else HIDDEN
        case "contents":
            return HIDDEN
    return _masked(value)
